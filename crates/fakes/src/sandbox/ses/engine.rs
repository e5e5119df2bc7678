//! Decides what becomes of each request. The engine knows neither network nor clock: the time is an argument.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tidegate_core::number::real;
use tidegate_core::outcome::Failure;
use tidegate_core::ses_request::{SesAccount, SesReply, SesRequest, address_of};
use tokio_util::sync::CancellationToken;

use super::config::SesSandboxConfig;
use super::fault::{self, FaultKind, InjectedFault, SesOperation};
use crate::clock::SeededEntropy;
use crate::sandbox::mailbox::{
    ArrivalCounts, KEEP, MailFields, MailRecord, MailStatus, MailStore, SesStats,
};
use crate::sandbox::server::DroppedConnection;
use crate::ses::{MemorySuppressionList, QuotaGate, admit, failures};

/// The reply to a request, and the delay before it.
#[derive(Debug, PartialEq)]
pub(crate) struct PlannedReply {
    /// The delay; `None` never replies.
    pub(crate) wait: Option<Duration>,
    pub(crate) end: Reply,
}

/// The end of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Reply {
    Answer(Result<SesReply, Failure>),
    /// The connection ends without an answer.
    Dropped(DroppedConnection),
}

/// The whole state of the sandbox, changed by one request at a time.
#[derive(Debug)]
pub(crate) struct SesEngine {
    config: SesSandboxConfig,
    gate: QuotaGate,
    entropy: SeededEntropy,
    pub(super) mails: MailStore,
    tally: ArrivalCounts,
    last_seq: u64,
    latest_ns: u64,
}

impl SesEngine {
    pub(crate) fn new(config: SesSandboxConfig, now_ns: u64) -> Self {
        Self {
            gate: QuotaGate::new(&config.quota_rules(), now_ns),
            entropy: SeededEntropy::new(config.seed),
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
        request: Result<MailFields, Failure>,
        body: &[u8],
    ) -> PlannedReply {
        let now_ns = self.forward(now_ns);
        let recipients = request.as_ref().map_or(0, MailFields::recipients);
        self.tally.arrive(now_ns, recipients);
        let draft = match request.and_then(|draft| self.may_send(&draft).map(|()| draft)) {
            Ok(draft) => draft,
            Err(refusal) => return self.refuse(now_ns, refusal, recipients),
        };
        let addresses: Vec<&str> = draft.all_recipients().map(address_of).collect();
        let fault = self.draw_fault(SesOperation::SendEmail, &addresses);
        let status = match &fault {
            None => MailStatus::Accepted,
            Some(fault) if fault.kind == FaultKind::LostAnswer => MailStatus::AnswerLost,
            Some(fault) => {
                if let FaultKind::Error(error) = &fault.kind {
                    self.tally.refuse(now_ns, error.code.as_deref(), recipients);
                }
                return self.fail(fault);
            }
        };
        let rules = self.config.quota_rules();
        let admitted = match draft.parts {
            Some(parts) => self.gate.admit_text(&rules, now_ns, parts),
            None => self.gate.admit(&rules, now_ns, recipients),
        };
        if let Err(refusal) = admitted {
            return self.refuse(now_ns, refusal, recipients);
        }
        let message_id = self.record(now_ns, draft, status, body);
        match fault {
            Some(fault) => self.fail(&fault),
            None => self.answer(Ok(SesReply::MessageId(message_id))),
        }
    }

    /// Decides on each mail of a bulk call alone. One whose answer is lost takes the whole answer with it.
    pub(crate) fn send_bulk(
        &mut self,
        now_ns: u64,
        mails: impl Iterator<Item = Result<SesRequest, Failure>>,
        body: &[u8],
    ) -> PlannedReply {
        let (mut wait, mut results, mut dropped) = (Some(Duration::ZERO), Vec::new(), None);
        for mail in mails {
            let plan = self.send(now_ns, mail.map(MailFields::from), body);
            wait = wait.zip(plan.wait).map(|(longest, own)| longest.max(own));
            match plan.end {
                Reply::Answer(Ok(SesReply::MessageId(id))) => results.push(Ok(id)),
                Reply::Answer(Err(refusal)) => results.push(Err(refusal)),
                other => dropped = Some(other),
            }
        }
        let end = dropped.unwrap_or(Reply::Answer(Ok(SesReply::Bulk(results))));
        PlannedReply { wait, end }
    }

    /// Whether account and tenant may send at all.
    fn may_send(&self, draft: &MailFields) -> Result<(), Failure> {
        if self.config.paused {
            return Err(failures::sending_paused());
        }
        let Some(tenant) = &draft.tenant else { return Ok(()) };
        admit(&self.config.tenants, tenant, address_of(&draft.from), draft.used.clone())
    }

    /// Replies to a `GetAccount` or `GetSendQuota` at `now_ns`.
    pub(crate) fn account(&mut self, now_ns: u64) -> PlannedReply {
        let now_ns = self.forward(now_ns);
        if let Some(fault) = self.draw_fault(SesOperation::GetAccount, &[]) {
            return self.fail(&fault);
        }
        let account = SesAccount {
            max_24_hour_send: self.config.quota_rules().max_24_hour_send(),
            max_send_rate: self.config.quota.as_per_second(),
            sent_last_24_hours: real(self.gate.sent_last_24_hours(now_ns)),
            sending_enabled: !self.config.paused,
        };
        self.answer(Ok(SesReply::Account(account)))
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
        self.config = config;
    }

    pub(crate) fn stats(&mut self, now_ns: u64) -> SesStats {
        let now_ns = self.forward(now_ns);
        SesStats {
            last_seq: self.last_seq,
            forgotten: self.mails.forgotten,
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
        self.mails.push(mail, Bytes::copy_from_slice(body), KEEP);
        message_id
    }

    fn answer(&self, answer: Result<SesReply, Failure>) -> PlannedReply {
        let wait = Some(self.config.latency.draw(&self.entropy));
        PlannedReply { wait, end: Reply::Answer(answer) }
    }

    fn refuse(&mut self, now_ns: u64, refusal: Failure, recipients: u32) -> PlannedReply {
        self.tally.refuse(now_ns, refusal.code.as_deref(), recipients);
        self.answer(Err(refusal))
    }

    fn fail(&mut self, fault: &InjectedFault) -> PlannedReply {
        self.tally.fault((&fault.kind).into());
        let end = match &fault.kind {
            FaultKind::Error(error) => Reply::Answer(Err(error.clone())),
            FaultKind::LostAnswer | FaultKind::Timeout => Reply::Dropped(DroppedConnection::Closed),
            FaultKind::Reset => Reply::Dropped(DroppedConnection::Reset),
        };
        let wait = match (fault.after, &fault.kind) {
            (None, FaultKind::Timeout) => None,
            (after, _) => after.or_else(|| Some(self.config.latency.draw(&self.entropy))),
        };
        PlannedReply { wait, end }
    }

    fn draw_fault(&self, operation: SesOperation, recipients: &[&str]) -> Option<InjectedFault> {
        fault::draw(&self.config.faults, operation, recipients, &self.entropy).cloned()
    }
}

/// State that all requests and the handle share.
pub struct SesState {
    pub(super) engine: Mutex<SesEngine>,
    /// Nanoseconds since the Unix epoch.
    pub(super) clock: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(super) suppressed: MemorySuppressionList,
    pub(super) stop: CancellationToken,
}

impl SesState {
    pub(super) fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    /// A panic while the engine was held leaves figures that are off by one request at most.
    pub(super) fn engine(&self) -> MutexGuard<'_, SesEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
