//! An Amazon SES endpoint for local runs and tests: it enforces a quota as SES does, takes
//! its time, fails on demand, and keeps a mailbox to look into.
//!
//! It speaks `SendEmail`, `SendBulkEmail`, `GetAccount`, the suppression list and the reading of tenants as the SDKs do, and of
//! version 1 `SendEmail`, `SendRawEmail`, `SendTemplatedEmail`, `SendBulkTemplatedEmail` and `GetSendQuota`. Point one at it
//! with `AWS_ENDPOINT_URL_SESV2=http://127.0.0.1:4579` (of version 1 `AWS_ENDPOINT_URL_SES`); signatures are not checked.
//! Each mail of a bulk is judged alone.
//!
//! # Quota
//! Recipients count, not calls. The rate is a token bucket of `bucket_seconds` worth of quota
//! (one second's by default) that refills continuously and without rounding; or, `strict`, no
//! half-open second that ends at an arrival holds more than the quota rounded down (at least 1).
//! A mail of more recipients than either can ever take in is let through when the bucket is full
//! (the second empty) and leaves it in debt: its recipients are paid for by the silence that
//! follows. A mail over the rate is refused with `TooManyRequestsException` (429), one over the
//! daily quota with `LimitExceededException` (400), and neither spends anything. The time that
//! counts is the arrival: when the request was fully read, before any latency.
//!
//! # Its own pages
//! | call | what it does |
//! |---|---|
//! | `GET /` | the mailbox, to look at |
//! | `GET /_sandbox/config` | every setting |
//! | `PATCH /_sandbox/config` | changes settings, all or none; see [`SesSandboxConfig`] |
//! | `GET /_sandbox/stats` | figures; see [`SesStats`] |
//! | `GET /_sandbox/mails?after=SEQ&limit=N` | accepted mails in order, `limit` 1 to 10,000 (1,000) |
//! | `GET /_sandbox/mails/SEQ` | one mail, with its `request` while that is kept, else null |
//! | `DELETE /_sandbox/mails` | empties mailbox and stats; quota and numbering go on |
//!
//! The pages show recipients and bodies to everyone who can reach the port: bind it to loopback.
//!
//! # In a test
//! ```
//! use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let config = SesSandboxConfig { quota: "200".parse()?, ..SesSandboxConfig::default() };
//! let sandbox = SesSandbox::start(config, "127.0.0.1:0".parse()?).await?;
//! println!("AWS_ENDPOINT_URL_SESV2={}", sandbox.url());
//! sandbox.change(|settings| settings.paused = true);
//! assert_eq!(sandbox.mails(0, 100).len(), 0);
//! sandbox.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod engine;
mod fault;
mod http;
mod request;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::listener::{ListenError, Listener};
use super::server::{Sandbox, steady_clock};
use crate::ses::MemorySuppressionList;
use engine::SesEngine;

pub use engine::SesState;

pub use config::{BucketSeconds, ChangeError, PeriodLimit, SesSandboxConfig};
pub use fault::InjectedFault;

pub use super::mailbox::{MailCount, MailRecord, MailStatus, Second, SesStats};

/// The SES endpoint.
pub type SesSandbox = Sandbox<SesState>;

impl Sandbox<SesState> {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Sandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn start(config: SesSandboxConfig, addr: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self::start_on(config, Listener::bind(addr).await?))
    }

    /// Like [`Sandbox::start`], on a listener of the caller's.
    pub fn start_on(config: SesSandboxConfig, listener: Listener) -> Self {
        Self::start_at(config, listener, steady_clock())
    }

    /// Like [`Sandbox::start_on`], with a clock of the caller's for quota and times of arrival, in
    /// nanoseconds since the Unix epoch. Latencies are slept on tokio's clock.
    pub fn start_at(
        config: SesSandboxConfig,
        listener: Listener,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        let state = |_: &str, stop| SesState {
            engine: Mutex::new(SesEngine::new(config, clock())),
            clock: Box::new(clock),
            suppressed: MemorySuppressionList::default(),
            stop,
        };
        Self::serve(listener, state, http::router)
    }

    /// Changes settings, all at once.
    pub fn change(&self, change: impl FnOnce(&mut SesSandboxConfig)) {
        let mut engine = self.state.engine();
        let mut config = engine.config().clone();
        change(&mut config);
        engine.reconfigure(self.state.now_ns(), config);
    }

    /// Counters of what arrived.
    pub fn stats(&self) -> SesStats {
        self.state.engine().stats(self.state.now_ns())
    }

    /// At most `limit` accepted mails whose number is above `seq`; 0 begins with the oldest that is
    /// kept.
    pub fn mails(&self, seq: u64, limit: usize) -> Vec<Arc<MailRecord>> {
        self.state.engine().mails.after(seq, limit)
    }

    /// The request of the mail with this number, as it came; none once it is not kept any more.
    pub fn request(&self, seq: u64) -> Option<axum::body::Bytes> {
        self.state.engine().mails.get(seq)?.1
    }
}
