//! An Amazon SES v2 endpoint for local runs and tests: it enforces a quota as SES does, takes
//! its time, fails on demand, and keeps a mailbox to look into.
//!
//! It speaks `SendEmail`, `GetAccount`, the suppression list and the reading of tenants as the SDKs do. Point one at it with
//! `AWS_ENDPOINT_URL_SESV2=http://127.0.0.1:4579`; signatures are not checked.
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

pub use config::{BucketSeconds, ChangeError, PeriodLimit, SesSandboxConfig};
pub use engine::{SesSandbox, SesState};
pub use fault::InjectedFault;

pub use super::mailbox::{MailCount, MailRecord, MailStatus, Second, SesStats};
