//! SES and AWS End User Messaging in memory: one account, with the mailers that send from it, its status, and the
//! providers of its recipients.

pub mod failures;
pub(crate) mod quota;
mod tenant;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::channel::Content;
use tidegate_core::control::TenantStatus;
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;
use tidegate_core::timestamp::SECOND;
use tidegate_delivery::ports::{
    Account, AccountStatus, Clock, FailureKind, Mail, Mailer, Monotonic, PortError, SendAnswer,
    Writer, WrittenRequest,
};

use crate::clock::{Latency, SeededEntropy, SimClock, Universe, wait};
use crate::faults::{FaultPlan, Faults, Operation};
use crate::shared::SharedState;

pub(crate) use quota::{QuotaGate, QuotaRules};
pub(crate) use tenant::admit;
pub use tenant::{MemorySuppressionList, SesTenant};

/// How a second's recipients are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// A token bucket one second deep that refills continuously. After a pause it lets up to twice
    /// the rate into one second.
    #[default]
    Bucket,
    /// Never more than ⌈rate⌉ in any half-open second.
    SlidingSecond,
}

/// The account, and how it answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SesSettings {
    pub max_send_rate: Rate,
    /// How a second's recipients are counted.
    pub counting: Counting,
    /// `Max24HourSend`, recipients in any 24 hours; `None` without a limit.
    pub max_24_hour_send: Option<u64>,
    pub sending_enabled: bool,
    /// The most that text messages may cost in a calendar month, at a dollar a part; `None` without a limit.
    pub spend_limit: Option<u64>,
    /// Time from writing the request to its answer.
    pub latency: Latency,
    /// Time from the call to writing the request: signing, and connecting if no connection is open.
    pub hand_over: Latency,
    /// Time after the start of an environment for which AWS does not know its token yet.
    pub token_lag: Duration,
}

impl SesSettings {
    /// An enabled account that answers without latency, counts with a bucket one second deep and
    /// has no daily quota.
    pub const fn of_rate(max_send_rate: Rate) -> Self {
        Self {
            max_send_rate,
            counting: Counting::Bucket,
            max_24_hour_send: None,
            sending_enabled: true,
            spend_limit: None,
            latency: Latency::NONE,
            hand_over: Latency::NONE,
            token_lag: Duration::ZERO,
        }
    }

    fn quota_rules(&self) -> QuotaRules {
        QuotaRules {
            rate: self.max_send_rate,
            depth: Duration::from_secs(1),
            strict: self.counting == Counting::SlidingSecond,
            most_in_a_second: self.max_send_rate.ceil(),
            daily: self.max_24_hour_send,
            spend: self.spend_limit,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SesArrival {
    pub at: Timestamp,
    pub campaign: String,
    /// SES's tenant for which it was sent.
    pub tenant: Option<String>,
    /// The id that the poller gave the mail.
    pub id: String,
    pub recipients: u32,
    pub addresses: Vec<String>,
    /// The configuration set that the request named.
    pub configuration_set: Option<String>,
    /// The MIME message in base64; none of a mail in another form.
    pub raw: Option<String>,
    /// The number of the environment that sent it.
    pub environment: usize,
    /// SES's message id, or the error that SES refused the mail with.
    pub verdict: Result<String, Failure>,
}

/// An SES account in memory. A clone is the same account.
#[derive(Clone, Debug)]
pub struct MemorySes {
    universe: Universe,
    entropy: SeededEntropy,
    state: SharedState<MemorySesState>,
}

#[derive(Debug)]
struct MemorySesState {
    settings: SesSettings,
    quota: QuotaGate,
    refused_addresses: BTreeMap<String, Failure>,
    tenants: Vec<SesTenant>,
    arrivals: Vec<SesArrival>,
    providers: Providers,
    warmed: usize,
}

impl MemorySes {
    /// An account that has sent nothing.
    pub fn new(universe: Universe, seed: u64, settings: SesSettings) -> Self {
        let quota = QuotaGate::new(&settings.quota_rules(), universe.now().as_nanos());
        let state = MemorySesState {
            settings,
            quota,
            refused_addresses: BTreeMap::new(),
            tenants: Vec::new(),
            arrivals: Vec::new(),
            providers: Providers::default(),
            warmed: 0,
        };
        Self { universe, entropy: SeededEntropy::new(seed), state: SharedState::new(state) }
    }

    /// The mailer of the environment whose clock is `clock`: `latest` is read on that clock.
    pub fn mailer(&self, clock: &SimClock) -> MemoryMailer {
        self.mailer_of(0, clock)
    }

    /// As [`MemorySes::mailer`], of an environment whose number its arrivals show.
    pub fn mailer_of(&self, environment: usize, clock: &SimClock) -> MemoryMailer {
        let (ses, clock, faults) = (self.clone(), clock.clone(), Faults::default());
        MemoryMailer { ses, clock, environment, since: self.universe.now(), faults }
    }

    pub fn account(&self) -> MemoryAccount {
        MemoryAccount { ses: self.clone(), faults: Faults::default() }
    }

    /// Changes the settings while it runs.
    pub fn configure(&self, change: impl FnOnce(&mut SesSettings)) {
        let now = self.universe.now();
        self.state.with(|state| {
            change(&mut state.settings);
            state.quota.retune(now.as_nanos(), &state.settings.quota_rules());
        });
    }

    /// Replaces the account's tenants.
    pub fn set_tenants(&self, tenants: Vec<SesTenant>) {
        self.state.with(|state| state.tenants = tenants);
    }

    /// Refuses every mail to `address` with `failure` from now on.
    pub fn refuse_address(&self, address: &str, failure: Failure) {
        self.state.with(|state| state.refused_addresses.insert(address.to_owned(), failure));
    }

    pub fn accept_address(&self, address: &str) {
        self.state.with(|state| state.refused_addresses.remove(address));
    }

    /// Lets the provider of `domains` take so many mails in any second from now on, and defer what is over.
    pub fn provider(&self, domains: &[&str], rate: usize) {
        self.state.with(|state| state.providers.set(domains, rate));
    }

    /// The deferrals since the last call, as they stand on the feedback queue.
    pub fn take_deferrals(&self) -> Vec<String> {
        self.state.with(|state| std::mem::take(&mut state.providers.deferrals))
    }

    /// Counts recipients that other software has just sent from the same account, for the daily
    /// quota only.
    pub fn send_as_another(&self, recipients: u64) {
        let now = self.universe.now();
        self.state.with(|state| state.quota.send_as_another(now.as_nanos(), recipients));
    }

    /// Every mail that reached SES, accepted or not, in order of arrival.
    pub fn arrivals(&self) -> Vec<SesArrival> {
        self.state.with(|state| state.arrivals.clone())
    }

    /// Returns [`MemorySes::arrivals`] and clears them, so that a long run does not keep them all
    /// in memory.
    pub fn take_arrivals(&self) -> Vec<SesArrival> {
        self.state.with(|state| std::mem::take(&mut state.arrivals))
    }

    /// The mails it accepted, in order of arrival.
    pub fn accepted(&self) -> Vec<SesArrival> {
        let mut arrivals = self.arrivals();
        arrivals.retain(|arrival| arrival.verdict.is_ok());
        arrivals
    }

    /// The total number of connections that pollers asked for in advance.
    pub fn warmed(&self) -> usize {
        self.state.with(|state| state.warmed)
    }

    fn arrive(&self, mail: Mail<'_>, environment: usize) -> Result<String, Failure> {
        let at = self.universe.now();
        let message_id = self.entropy.uuid();
        self.state.with(|state| {
            let addresses: Vec<String> = mail.content.recipients().map(str::to_owned).collect();
            let recipients = mail.content.slots();
            let raw = match mail.content {
                Content::Email(email) => email.raw(),
                Content::Text(_) => None,
            };
            let verdict = state.judge(at, mail, &addresses).map(|()| message_id);
            if let Ok(message_id) = &verdict {
                state.providers.reach(&mail, message_id, at);
            }
            state.arrivals.push(SesArrival {
                at,
                campaign: mail.campaign.to_owned(),
                tenant: mail.tenant.map(str::to_owned),
                id: mail.id.to_owned(),
                recipients,
                addresses,
                configuration_set: mail.configuration_set().map(str::to_owned),
                raw: raw.map(|raw| raw.base64().to_owned()),
                environment,
                verdict: verdict.clone(),
            });
            verdict
        })
    }

    /// A call that reads the account's state; its latency is drawn when it begins.
    async fn call<R>(&self, read: impl FnOnce(&mut MemorySesState) -> R) -> Result<R, FailureKind> {
        let read = async { Ok(self.state.with(read)) };
        self.settings().latency.around(&self.entropy, read).await
    }

    fn settings(&self) -> SesSettings {
        self.state.with(|state| state.settings)
    }
}

impl MemorySesState {
    fn judge(&mut self, at: Timestamp, mail: Mail<'_>, to: &[String]) -> Result<(), Failure> {
        if !self.settings.sending_enabled {
            return Err(failures::sending_paused());
        }
        if let Some(tenant) = mail.tenant {
            let set = mail.content.configuration_set();
            let used = set.map(|set| format!("configuration-set/{set}"));
            admit(&self.tenants, tenant, mail.content.sender().unwrap_or_default(), used)?;
        }
        if let Some(failure) = to.iter().find_map(|address| self.refused_addresses.get(address)) {
            return Err(failure.clone());
        }
        let (rules, slots) = (self.settings.quota_rules(), mail.content.slots());
        if matches!(mail.content, Content::Text(_)) {
            self.quota.admit_text(&rules, at.as_nanos(), slots)
        } else {
            self.quota.admit(&rules, at.as_nanos(), slots)
        }
    }
}

/// Sends to a [`MemorySes`] from one environment. A clone is the same mailer.
#[derive(Clone, Debug)]
pub struct MemoryMailer {
    ses: MemorySes,
    clock: SimClock,
    environment: usize,
    /// When the environment started.
    since: Timestamp,
    faults: Faults<Failure>,
}

impl MemoryMailer {
    /// A handle on this mailer whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan<Failure>) -> Self {
        Self { faults: plan.into(), ..self }
    }

    async fn reach(
        &self,
        mail: Mail<'_>,
        latest: Monotonic,
        start: &Cell<Option<Monotonic>>,
    ) -> Result<String, Failure> {
        let SesSettings { latency, hand_over, token_lag, .. } = self.ses.settings();
        let written = mail.written.and_then(|request| request.get::<Content>());
        let unwritten = if written.is_none() { mail.content.bytes() } else { 0 };
        let mail = Mail { content: written.unwrap_or(mail.content), ..mail };
        wait(self.clock.takes(unwritten) + hand_over.draw(&self.ses.entropy)).await;
        let now = self.clock.monotonic();
        if now > latest {
            return Err(failures::too_late());
        }
        start.set(Some(now));
        if self.ses.universe.now() < self.since + token_lag {
            return Err(failures::token_refused());
        }
        let arrive = async { self.ses.arrive(mail, self.environment) };
        latency.around(&self.ses.entropy, arrive).await
    }
}

impl Mailer for MemoryMailer {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> SendAnswer {
        let resource = format!("{}/{}", mail.campaign, mail.id);
        let decision = self.faults.decide(Operation::Mail, resource);
        let start = Cell::new(None);
        let result = decision.run(self.reach(mail, latest, &start)).await;
        SendAnswer { start: start.get(), result }
    }

    fn writer(&self) -> Writer {
        Box::new(|mail| WrittenRequest::new(mail.content.clone()))
    }

    async fn warm(&self, connections: usize) {
        self.faults.decide(Operation::Warm, "").delay_or_hang().await;
        self.ses.state.with(|state| state.warmed += connections);
    }
}

/// The status of a [`MemorySes`]. A clone is the same.
#[derive(Clone, Debug)]
pub struct MemoryAccount {
    ses: MemorySes,
    faults: Faults,
}

impl MemoryAccount {
    /// A handle on this account whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }
}

impl Account for MemoryAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        let ses = &self.ses;
        let read = ses.call(|state| AccountStatus {
            max_send_rate: state.settings.max_send_rate.as_per_second(),
            max_24_hour_send: state.settings.quota_rules().max_24_hour_send(),
            sent_last_24_hours: real(state.quota.sent_last_24_hours(ses.universe.now().as_nanos())),
            sending_enabled: state.settings.sending_enabled,
            spend_limit: state.settings.spend_limit,
        });
        self.faults.call(Operation::Account, "", read).await
    }

    async fn tenant(&self, name: &str) -> Result<Option<TenantStatus>, PortError> {
        let read = self.ses.call(|state| {
            let found = state.tenants.iter().find(|tenant| tenant.name == name);
            found.map(SesTenant::status)
        });
        self.faults.call(Operation::Tenant, name, read).await
    }
}

/// The providers of recipients' domains, and the deferrals that SES reports.
#[derive(Debug, Default)]
struct Providers {
    providers: Vec<Provider>,
    deferrals: Vec<String>,
}

#[derive(Debug)]
struct Provider {
    domains: Vec<String>,
    /// Mails that it takes in any second; no sender knows.
    rate: usize,
    /// When it took the mails of the last second.
    taken: VecDeque<Timestamp>,
}

impl Providers {
    fn set(&mut self, domains: &[&str], rate: usize) {
        let domains: Vec<String> = domains.iter().map(|domain| (*domain).to_owned()).collect();
        match self.providers.iter_mut().find(|known| known.domains == domains) {
            Some(known) => known.rate = rate,
            None => self.providers.push(Provider { domains, rate, taken: VecDeque::new() }),
        }
    }

    /// A mail that SES accepted reaches the provider of each recipient.
    fn reach(&mut self, mail: &Mail<'_>, message_id: &str, now: Timestamp) {
        for provider in &mut self.providers {
            for to in provider.recipients(mail.content) {
                if !provider.takes(now) {
                    self.deferrals.push(notice(mail, message_id, &to, now));
                }
            }
        }
    }
}

impl Provider {
    fn recipients(&self, content: &Content) -> Vec<String> {
        let is_own = |to: &&str| {
            let domain = to.rsplit_once('@').map(|(_, domain)| domain);
            domain.is_some_and(|domain| self.domains.iter().any(|own| own == domain))
        };
        content.recipients().filter(is_own).map(str::to_owned).collect()
    }

    fn takes(&mut self, now: Timestamp) -> bool {
        let passed = |at: &Timestamp| now.as_nanos().saturating_sub(at.as_nanos()) >= SECOND;
        while self.taken.front().is_some_and(passed) {
            self.taken.pop_front();
        }
        let takes = self.taken.len() < self.rate;
        if takes {
            self.taken.push_back(now);
        }
        takes
    }
}

/// The notice that the stack's rule makes of SES's event "Email Delivery Delayed".
fn notice(mail: &Mail<'_>, message_id: &str, to: &str, now: Timestamp) -> String {
    let limits = mail.limits.map(|limits| vec![limits]);
    let tags = serde_json::json!({"tidegate_campaign": [mail.campaign], "tidegate_limit": limits});
    serde_json::json!({
        "kind": "deferral", "campaign": [mail.campaign], "id": message_id, "tags": tags,
        "recipients": [{"emailAddress": to, "status": "4.4.7"}],
        "sent_at": EpochMillis::from(now),
    })
    .to_string()
}

#[cfg(test)]
mod tests;
