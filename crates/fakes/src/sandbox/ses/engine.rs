//! Decides what becomes of each request. It knows neither network nor clock: the time is an
//! argument.
//!
//! Starting the sandbox, and what a test asks of one that runs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};
use tidegate_core::Timestamp;

use super::config::SesSandboxConfig;
use super::fault::{self, FaultKind, InjectedFault, SesOperation};
use super::http;
use crate::clock::SeededEntropy;
use crate::sandbox::listener::Listener;
use crate::sandbox::mailbox::{
    ArrivalCounts, MailFields, MailRecord, MailStatus, MailStore, SesStats, address_of,
};
use crate::sandbox::server::Stop;
use crate::sandbox::server::{ListenError, Sandbox, steady_clock};
use crate::ses::{MemorySuppressionList, QuotaGate, SesError, Spent, admit};

/// AWS's reason for a refused text message.
const SPEND_LIMIT: &str = "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT";

/// The reply to a request, and the delay before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlannedReply {
    /// The delay; `None` never replies.
    pub(crate) wait: Option<Duration>,
    pub(crate) end: Reply,
}

/// The end of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Both services answer a message with its id.
    Answer(Result<Value, SesError>),
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset without an answer.
    Reset,
}

/// The whole state of the sandbox, changed by one request at a time.
#[derive(Debug)]
pub(crate) struct SesEngine {
    config: SesSandboxConfig,
    gate: QuotaGate,
    entropy: SeededEntropy,
    spent: Spent,
    mails: MailStore,
    tally: ArrivalCounts,
    last_seq: u64,
    latest_ns: u64,
}

impl SesEngine {
    pub(crate) fn new(config: SesSandboxConfig, now_ns: u64) -> Self {
        Self {
            gate: QuotaGate::new(&config.quota_rules(), now_ns),
            entropy: SeededEntropy::new(config.seed),
            spent: Spent::default(),
            mails: MailStore::default(),
            tally: ArrivalCounts::default(),
            last_seq: 0,
            latest_ns: now_ns,
            config,
        }
    }

    /// Decides on a `SendEmail` that was fully read at `now_ns`.
    pub(crate) fn send(
        &mut self,
        now_ns: u64,
        request: Result<MailFields, SesError>,
        body: &[u8],
    ) -> PlannedReply {
        let now_ns = self.forward(now_ns);
        let draft = match request {
            Ok(draft) => draft,
            Err(error) => {
                self.tally.arrive(now_ns, 0);
                return self.refuse(now_ns, error, 0);
            }
        };
        let recipients = draft.recipients();
        self.tally.arrive(now_ns, recipients);
        if self.config.paused {
            return self.refuse(now_ns, SesError::paused(), recipients);
        }
        if let Some(tenant) = &draft.tenant {
            let sender = address_of(&draft.from);
            let admitted = admit(&self.config.tenants, tenant, sender, draft.used.clone());
            if let Err(refused) = admitted {
                return self.refuse(now_ns, refused, recipients);
            }
        }
        let addresses: Vec<&str> = draft.all_recipients().map(address_of).collect();
        let fault = self.draw_fault(SesOperation::SendEmail, &addresses);
        let loses_answer = matches!(&fault, Some(fault) if fault.kind == FaultKind::LostAnswer);
        if let Some(fault) = &fault
            && !loses_answer
        {
            self.tally.fault(fault.kind.name());
            if let FaultKind::Error(error) = &fault.kind {
                self.tally.refuse(now_ns, &error.code, recipients);
            }
            return self.fail(fault);
        }
        let (at, limit) = (Timestamp::from_nanos(now_ns), self.config.spend_limit.most());
        if draft.parts.is_some_and(|parts| !self.spent.leaves(parts, limit, at)) {
            let reached = SesError::new(SPEND_LIMIT, 400, "The monthly spend limit is reached.");
            return self.refuse(now_ns, reached, recipients);
        }
        if let Err(over) = self.gate.admit(&self.config.quota_rules(), now_ns, recipients) {
            return self.refuse(now_ns, over.into(), recipients);
        }
        self.spent.add(draft.parts.unwrap_or(0), at);
        let status = if loses_answer { MailStatus::AnswerLost } else { MailStatus::Accepted };
        let message_id = self.record(now_ns, draft, status, body);
        if let Some(fault) = fault {
            self.tally.fault(fault.kind.name());
            return self.fail(&fault);
        }
        PlannedReply {
            wait: Some(self.draw_latency()),
            end: Reply::Answer(Ok(json!({ "MessageId": message_id }))),
        }
    }

    /// Replies to a `GetAccount` at `now_ns`.
    pub(crate) fn account(&mut self, now_ns: u64) -> PlannedReply {
        let now_ns = self.forward(now_ns);
        if let Some(fault) = self.draw_fault(SesOperation::GetAccount, &[]) {
            self.tally.fault(fault.kind.name());
            return self.fail(&fault);
        }
        // SES gives its counts as doubles, and -1 where there is no limit.
        let daily = self.config.daily_quota.most().map_or(-1.0, as_double);
        let account = json!({
            "DedicatedIpAutoWarmupEnabled": true,
            "EnforcementStatus": "HEALTHY",
            "ProductionAccessEnabled": true,
            "SendQuota": {
                "Max24HourSend": daily,
                "MaxSendRate": self.config.quota.as_f64(),
                "SentLast24Hours": as_double(self.gate.sent_last_24_hours(now_ns)),
            },
            "SendingEnabled": !self.config.paused,
        });
        PlannedReply { wait: Some(self.draw_latency()), end: Reply::Answer(Ok(account)) }
    }

    pub(crate) fn config(&self) -> &SesSandboxConfig {
        &self.config
    }

    /// Makes a change, whole, from `now_ns` on.
    pub(crate) fn reconfigure(&mut self, now_ns: u64, config: SesSandboxConfig) {
        let now_ns = self.forward(now_ns);
        self.gate.retune(now_ns, &config.quota_rules());
        if config.seed != self.config.seed {
            self.entropy = SeededEntropy::new(config.seed);
        }
        self.mails.trim(config.keep());
        self.config = config;
    }

    pub(crate) fn mails(&self) -> &MailStore {
        &self.mails
    }

    pub(crate) fn stats(&mut self, now_ns: u64) -> SesStats {
        let now_ns = self.forward(now_ns);
        SesStats {
            last_seq: self.last_seq,
            forgotten: self.mails.forgotten(),
            sent_last_second: self.gate.sent_last_second(now_ns),
            sent_last_24_hours: self.gate.sent_last_24_hours(now_ns),
            ..self.tally.stats(now_ns)
        }
    }

    /// Empties mailbox and stats; the quota's state and the numbering of mails go on.
    pub(crate) fn clear(&mut self) {
        self.mails = MailStore::default();
        self.tally = ArrivalCounts::default();
    }

    /// Two requests read at once may reach the engine in the other order; to it time only rises.
    fn forward(&mut self, now_ns: u64) -> u64 {
        self.latest_ns = self.latest_ns.max(now_ns);
        self.latest_ns
    }

    fn record(
        &mut self,
        now_ns: u64,
        mut draft: MailFields,
        status: MailStatus,
        body: &[u8],
    ) -> String {
        // Lists as read have room for more; a million of them are kept.
        for list in [&mut draft.to, &mut draft.cc, &mut draft.bcc] {
            list.shrink_to_fit();
        }
        self.last_seq += 1;
        let mail = Arc::new(MailRecord { seq: self.last_seq, arrived_ns: now_ns, status, draft });
        self.tally.accept(&mail);
        let message_id = mail.message_id();
        // A copy: the request's own bytes would hold on to the connection's whole read buffer.
        self.mails.push(mail, Bytes::copy_from_slice(body), self.config.keep());
        message_id
    }

    fn refuse(&mut self, now_ns: u64, error: SesError, recipients: u32) -> PlannedReply {
        self.tally.refuse(now_ns, &error.code, recipients);
        PlannedReply { wait: Some(self.draw_latency()), end: Reply::Answer(Err(error)) }
    }

    fn fail(&mut self, fault: &InjectedFault) -> PlannedReply {
        let end = match &fault.kind {
            FaultKind::Error(error) => Reply::Answer(Err(error.clone())),
            FaultKind::LostAnswer | FaultKind::Timeout => Reply::Close,
            FaultKind::Reset => Reply::Reset,
        };
        let wait = match (fault.after, &fault.kind) {
            (Some(after), _) => Some(after),
            (None, FaultKind::Timeout) => None,
            (None, _) => Some(self.draw_latency()),
        };
        PlannedReply { wait, end }
    }

    fn draw_fault(
        &mut self,
        operation: SesOperation,
        recipients: &[&str],
    ) -> Option<InjectedFault> {
        fault::draw(&self.config.faults, operation, recipients, &self.entropy).cloned()
    }

    fn draw_latency(&self) -> Duration {
        self.config.latency.draw(&self.entropy)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of recipients stay far below 2^53")]
fn as_double(count: u64) -> f64 {
    count as f64
}

/// State that all requests and the handle share.
pub struct SesState {
    pub(super) engine: Mutex<SesEngine>,
    /// Nanoseconds since the Unix epoch.
    pub(super) clock: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(super) suppressed: MemorySuppressionList,
    pub(super) stop: Stop,
}

impl SesState {
    pub(super) fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// A panic while the engine was held leaves figures that are off by one request at most.
    pub(super) fn engine(&self) -> MutexGuard<'_, SesEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> SesStats {
        self.engine().stats(self.now_ns())
    }
}

/// The SES endpoint.
pub type SesSandbox = Sandbox<SesState>;

impl Sandbox<SesState> {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Sandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn start(config: SesSandboxConfig, addr: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self::start_on(config, Self::bind(addr).await?))
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

    /// Changes settings, all at once, and returns those now in force.
    pub fn change(&self, change: impl FnOnce(&mut SesSandboxConfig)) -> SesSandboxConfig {
        let now_ns = self.state.now_ns();
        let mut engine = self.state.engine();
        let mut config = engine.config().clone();
        change(&mut config);
        engine.reconfigure(now_ns, config.clone());
        config
    }

    /// Counters of what arrived.
    pub fn stats(&self) -> SesStats {
        self.state.stats()
    }

    /// At most `limit` accepted mails whose number is above `seq`; 0 begins with the oldest that is
    /// kept.
    pub fn mails(&self, seq: u64, limit: usize) -> Vec<Arc<MailRecord>> {
        self.state.engine().mails().after(seq, limit)
    }

    /// A mail by its number, and its request's body while that is kept.
    pub fn mail(&self, seq: u64) -> Option<(Arc<MailRecord>, Option<Bytes>)> {
        self.state.engine().mails().get(seq)
    }

    /// Empties mailbox and stats; the quota's state and the numbering of mails go on.
    pub fn clear(&self) {
        self.state.engine().clear();
    }
}

#[cfg(test)]
mod tests;
