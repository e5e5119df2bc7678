//! One run: two campaigns onto the queues, what its sandbox tells of them, and what became of them.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, TryStreamExt as _};
use serde_json::{Value, json};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::Channel;
use tidegate_core::format::percent;
use tidegate_delivery::ports::{BATCH, Outgoing, QueueUrl, Queues};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::{HoldStatus, StackFacts, Status, facts};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::aws::LocalAws;
use crate::error::LocalError;
use crate::figures::{MailArrival, figures};
use crate::programs::{FunctionWatch, SandboxStats, SesSandboxClient};
use crate::report::{self, Ending, LocalReport, Mails, Promise};
use crate::setup::{LocalCampaign, LocalPlan, RunSettings};

/// A run without an arrival for this long has stalled.
const STALLED: Duration = Duration::from_secs(90);
/// After this long without an arrival the run looks for what holds sending.
const QUIET: Duration = Duration::from_secs(5);
/// After this long without an answer of the local AWS the run has failed. A busy machine may take 10 s for one.
const UNREACHABLE: Duration = Duration::from_mins(1);
/// Mail that was received and not sent stays invisible for up to 30 s (the visibility timeout);
/// this is a little longer.
const QUEUES_EMPTY: Duration = Duration::from_secs(40);
/// Time in which the poller of the last window reports.
const REPORTED: Duration = Duration::from_secs(3);
/// Windows without mail that are watched at the end.
const IDLE: Duration = Duration::from_secs(6);
/// A run of the scheduler lasts one minute. The first one is invoked so that it ends when EventBridge's
/// first begins.
const RUN: Duration = Duration::from_mins(1);

/// Tries again while it fails. A program that has ended is told at once.
async fn patiently<T>(
    mut check: impl FnMut() -> Result<(), LocalError>,
    mut attempt: impl AsyncFnMut() -> Result<T, LocalError>,
) -> Result<T, LocalError> {
    let begun = Instant::now();
    loop {
        check()?;
        match attempt().await {
            Err(_) if begun.elapsed() < UNREACHABLE => {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            done => return done,
        }
    }
}

/// A run while it is under way.
pub(super) struct LocalRun<'a> {
    aws: &'a mut LocalAws,
    stack: &'a Stack,
    settings: &'a RunSettings,
    /// The time from the first arrival after which it ends in any case.
    most: Option<Duration>,
    mailbox: Mailbox,
    functions: FunctionWatch,
    begun: Instant,
    /// When this program invokes the scheduler; none once it has.
    fire_at: Option<Instant>,
    /// The first and the last arrival.
    arrived: Option<(Instant, Instant)>,
    /// The holds on sending, in words, while nothing arrives.
    held: Vec<String>,
    /// The state of the run in two lines, for the display.
    progress: watch::Sender<String>,
}

impl<'a> LocalRun<'a> {
    pub(super) fn new(
        aws: &'a mut LocalAws,
        stack: &'a Stack,
        settings: &'a RunSettings,
        most: Option<Duration>,
        progress: watch::Sender<String>,
    ) -> Self {
        // Invoked earlier, the scheduler's minute would end before EventBridge's first run begins,
        // and leave a gap.
        let earliest = aws.first_trigger.checked_sub(RUN);
        Self {
            mailbox: Mailbox::new(aws.sandbox.clone()),
            functions: FunctionWatch::new(aws.process_group.group().unwrap_or_default()),
            begun: Instant::now(),
            fire_at: Some(earliest.unwrap_or_else(Instant::now)),
            arrived: None,
            held: Vec::new(),
            aws,
            stack,
            settings,
            most,
            progress,
        }
    }

    /// Looks at the run every second until all mails have arrived, the time limit passes, or
    /// nothing moves any more.
    async fn watch(&mut self) -> Result<Ending, LocalError> {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            second.tick().await;
            if self.fire_at.is_some_and(|at| Instant::now() >= at) {
                self.fire_at = None;
                // The members of EventBridge's event that a scheduler may read.
                let event = json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} });
                self.aws.invoke("SchedulerFunction", &event).await?;
            }
            self.look().await?;
            if let Some(ending) = self.ending() {
                return Ok(ending);
            }
        }
    }

    async fn look(&mut self) -> Result<(), LocalError> {
        self.functions.look();
        let look = async || self.mailbox.look(&self.settings.plan).await;
        if patiently(|| self.aws.process_group.check(), look).await? {
            let now = Instant::now();
            self.arrived = Some((self.arrived.map_or(now, |(first, _)| first), now));
        }
        self.held = if !self.is_complete() && self.quiet_since().elapsed() >= QUIET {
            held(&self.facts().await?)
        } else {
            Vec::new()
        };
        let progress = format!("{}\n{}", self.headline(), self.mailbox.line(&self.settings.plan));
        self.progress.send_replace(progress);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.mailbox.arrived() == self.settings.plan.mails()
    }

    fn headline(&self) -> String {
        if self.is_complete() {
            let all = self.settings.plan.in_words();
            return format!("All {all} arrived; a few more windows show what comes late");
        }
        if !self.held.is_empty() {
            return format!("Nothing is sent: {}", self.held.join("; "));
        }
        if self.arrived.is_some() {
            return "Sending".to_owned();
        }
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).as_secs();
        match self.fire_at {
            Some(at) => format!(
                "The scheduler is invoked in {} s, so that EventBridge's first minute follows on",
                left(at)
            ),
            None => "The scheduler was invoked".to_owned(),
        }
    }

    fn ending(&self) -> Option<Ending> {
        let over = |since: Instant, most: Duration| since.elapsed() >= most;
        let limit = self.most.zip(self.arrived);
        if self.is_complete() {
            Some(Ending::Complete)
        } else if limit.is_some_and(|(most, (first, _))| over(first, most)) {
            Some(Ending::Time)
        } else {
            over(self.quiet_since(), STALLED).then_some(Ending::Stalled)
        }
    }

    /// The last arrival, or when mail could first arrive.
    fn quiet_since(&self) -> Instant {
        let before = self.aws.first_trigger.max(self.begun);
        self.arrived.map_or(before, |(_, last)| last)
    }

    /// Follows the run to its end, and reports. A few windows go by before, in which late duplicates would
    /// show.
    pub(super) async fn report(mut self) -> Result<LocalReport, LocalError> {
        let ending = self.watch().await?;
        if ending == Ending::Complete {
            let empty_by = Instant::now() + QUEUES_EMPTY;
            while waiting(&self.facts().await?) > 0 && Instant::now() < empty_by {
                self.linger(Duration::from_secs(1)).await?;
            }
            self.linger(REPORTED).await?;
        }
        let settled = self.facts().await?;
        if ending == Ending::Complete {
            self.linger(IDLE).await?;
        } else {
            self.look().await?;
        }
        let end = self.facts().await?;
        let audit = self.aws.audit().await?;
        let mut report = self.put_together(ending, &settled, end);
        report.promises.extend(audit.promises.into_iter().map(Promise::from));
        Ok(report)
    }

    async fn facts(&mut self) -> Result<StackFacts, LocalError> {
        let stack = self.stack;
        let look = async || Ok(facts(stack, AddressVisibility::Masked, 0).await?);
        patiently(|| self.aws.process_group.check(), look).await
    }

    /// Keeps looking at the run for this long.
    async fn linger(&mut self, time: Duration) -> Result<(), LocalError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.look().await?;
        }
        Ok(())
    }

    fn put_together(self, ending: Ending, settled: &StackFacts, end: StackFacts) -> LocalReport {
        let Self { settings, mut mailbox, .. } = self;
        let plan = &settings.plan;
        mailbox.arrivals.sort_by_key(|arrival| arrival.at_ns);
        let mine = |campaign: &str, key: &str| is_of_plan(plan, campaign, key);
        let figures = figures(plan, &mailbox.arrivals, mine);
        let (dead_lettered, waiting) = (depth(&end, "dead_letters"), waiting(&end));
        let lost = figures.missing.saturating_sub(dead_lettered + waiting);
        let lost = (ending != Ending::Time).then_some(lost);
        let (queued, arrived, duplicates) = (plan.mails(), figures.arrived, figures.duplicates);
        let mails = Mails { queued, arrived, duplicates, dead_lettered, waiting, lost };
        let poller = self.functions.usage("poller");
        let held = held(&end);
        let counters = end.standing.counters;
        LocalReport {
            ending,
            held,
            promises: report::promises(ending, mails, &mailbox.stats, plan.channel.words().message),
            settings: settings.clone(),
            mails,
            sqs: report::sqs_calls(&settled.standing.counters, &counters),
            poller: poller.map(|usage| report::poller_usage(usage, figures.arrived)),
            scheduler: self.functions.usage("scheduler"),
            figures,
            sandbox: mailbox.stats,
            counters,
            package_bytes: self.aws.stack.package_bytes.clone(),
        }
    }
}

/// Messages that are not sent yet: on the campaign queues and the merge queue, in flight and delayed
/// ones too.
fn waiting(facts: &StackFacts) -> u64 {
    let campaigns = facts.backlogs.values().map(|depth| depth.all());
    campaigns.sum::<u64>() + depth(facts, "merge")
}

/// The holds on sending: `all sending is held (paused: a typo)`.
fn held(facts: &StackFacts) -> Vec<String> {
    let words = |hold: HoldStatus| {
        let campaign = hold.campaign.as_deref().unwrap_or("all sending");
        let detail =
            if hold.detail.is_empty() { hold.detail } else { format!(": {}", hold.detail) };
        format!("{campaign} is held ({}{detail})", hold.what)
    };
    Status::of(facts).holds.into_iter().map(words).collect()
}

fn depth(facts: &StackFacts, queue: &str) -> u64 {
    facts.depths.get(queue).map_or(0, |depth| depth.all())
}

/// Rate and shares are those of so many seconds before the newest arrival.
const RECENT_SECONDS: f64 = 10.0;

/// The arrivals of a run so far, and the sandbox's counters.
#[derive(Debug)]
pub(super) struct Mailbox {
    sandbox: SesSandboxClient,
    seq: u64,
    pub(super) arrivals: Vec<MailArrival>,
    /// The keys of the plan's mails that arrived.
    seen: HashSet<String>,
    /// Of those, by campaign.
    arrived: BTreeMap<String, u64>,
    twice: u64,
    pub(super) stats: SandboxStats,
}

impl Mailbox {
    pub(super) fn new(sandbox: SesSandboxClient) -> Self {
        let (arrivals, seen, arrived) = (Vec::new(), HashSet::new(), BTreeMap::new());
        let stats = SandboxStats::default();
        Self { sandbox, seq: 0, arrivals, seen, arrived, twice: 0, stats }
    }

    /// Reads what arrived since the last look; whether that is anything.
    pub(super) async fn look(&mut self, plan: &LocalPlan) -> Result<bool, LocalError> {
        let (new, seq) = self.sandbox.mails_after(self.seq).await?;
        // Both or nothing: what was read before a failure is read again.
        (self.seq, self.stats) = (seq, self.sandbox.stats().await?);
        let any = !new.is_empty();
        self.take(plan, new);
        Ok(any)
    }

    fn take(&mut self, plan: &LocalPlan, new: Vec<MailArrival>) {
        for arrival in &new {
            let planned = is_of_plan(plan, &arrival.campaign, &arrival.key);
            match planned.then(|| self.seen.insert(arrival.key.clone())) {
                Some(true) => *self.arrived.entry(arrival.campaign.clone()).or_default() += 1,
                Some(false) => self.twice += 1,
                None => {}
            }
        }
        self.arrivals.extend(new);
    }

    /// Mails of the plan that arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Rate, mails by campaign with their share, and faults in one line, such as
    /// `13.7/s of 14  big 412/900 (90.1 %)  small 45/100 (9.9 %)  0 twice, 0 refused`.
    pub(super) fn line(&self, plan: &LocalPlan) -> String {
        let refused: u64 = self.stats.refused.values().sum();
        let (rate, shares) = self.recent();
        let campaigns = plan.campaigns.iter().map(|campaign| {
            let arrived = self.arrived.get(&campaign.name).copied().unwrap_or_default();
            let share = percent(shares.get(campaign.name.as_str()).copied().unwrap_or_default());
            format!("{} {arrived}/{} ({share})", campaign.name, campaign.mails)
        });
        let campaigns = campaigns.collect::<Vec<_>>().join("  ");
        format!(
            "{rate:.1}/s of {}  {campaigns}  {} twice, {refused} refused",
            plan.quota, self.twice
        )
    }

    /// Recipients a second, and each campaign's share of them.
    fn recent(&self) -> (f64, BTreeMap<&str, f64>) {
        let Some((first, newest)) = self.arrivals.first().zip(self.arrivals.last()) else {
            return (0.0, BTreeMap::new());
        };
        let since =
            |from: u64| Duration::from_nanos(newest.at_ns.saturating_sub(from)).as_secs_f64();
        let mut shares = BTreeMap::new();
        let recent = self.arrivals.iter().rev().take_while(|a| since(a.at_ns) < RECENT_SECONDS);
        for arrival in recent {
            *shares.entry(arrival.campaign.as_str()).or_default() += f64::from(arrival.recipients);
        }
        let sum: f64 = shares.values().sum();
        for share in shares.values_mut() {
            *share /= sum;
        }
        (sum / since(first.at_ns).clamp(1.0, RECENT_SECONDS), shares)
    }
}

/// Number of batches that are sent concurrently.
const AT_ONCE: usize = 8;
/// The domain of all recipients. RFC 2606 reserves it, so no mail can reach anybody.
const DOMAIN: &str = "example.com";
/// Characters of each of several parts of a text.
const SEPTETS: usize = 153;

/// The first recipient of a campaign's mail `number`, which no other mail has; of a text its phone number, from the
/// exchange 555 of an area code of the campaign.
fn key(plan: &LocalPlan, campaign: usize, number: u64) -> String {
    let prefix = prefix(plan, campaign);
    match plan.channel {
        Channel::Email => format!("{prefix}{number:06}@{DOMAIN}"),
        Channel::Sms => format!("{prefix}{number:06}"),
    }
}

fn prefix(plan: &LocalPlan, campaign: usize) -> String {
    match plan.channel {
        Channel::Email => format!("{}-r", plan.campaigns[campaign].name),
        Channel::Sms => format!("+1206{campaign}"),
    }
}

/// Whether `key` is the first recipient of one of the mails of this plan.
pub fn is_of_plan(plan: &LocalPlan, campaign: &str, key: &str) -> bool {
    let Some(position) = plan.position(campaign) else { return false };
    let Some(rest) = key.strip_prefix(&prefix(plan, position)) else { return false };
    let number = match plan.channel {
        Channel::Email => rest.strip_suffix(DOMAIN).and_then(|rest| rest.strip_suffix('@')),
        Channel::Sms => Some(rest),
    };
    let number = number.and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| number < plan.campaigns[position].mails)
}

/// The body of a campaign's mail or text `number`: the short form, or the long form if it has several recipients.
pub fn body(plan: &LocalPlan, campaign: usize, number: u64) -> Value {
    let LocalCampaign { name, recipients, .. } = &plan.campaigns[campaign];
    let subject = format!("News {number} of {name}");
    let text = format!("Hello,\n\nthis is mail {number} of the campaign {name}.\n");
    let from = "news@example.org";
    let id = format!("{name}-{number}");
    let first = key(plan, campaign, number);
    if plan.channel == Channel::Sms {
        let text = format!("{subject}. ").repeat(SEPTETS);
        let text: String = text.chars().take(SEPTETS * *recipients as usize).collect();
        return json!({ "id": id, "to_phone": first, "text": text });
    }
    if *recipients == 1 {
        return json!({
            "id": id, "to_address": first, "from_address": from, "subject": subject, "body": text,
        });
    }
    let others = (1..*recipients).map(|other| format!("copy{other}-{first}"));
    let to: Vec<String> = std::iter::once(first.clone()).chain(others).collect();
    json!({ "id": id, "to": to, "from": from, "subject": subject, "text": text })
}

/// Puts every mail of the plan onto its campaign's queue; `urls` are in the order of the
/// campaigns.
///
/// # Errors
/// [`LocalError`] of the first mail that its queue did not take.
pub async fn fill(to: &impl Queues, plan: &LocalPlan, urls: &[QueueUrl]) -> Result<(), LocalError> {
    let batches = plan.campaigns.iter().zip(urls).enumerate().flat_map(|(place, (of, url))| {
        let starts = (0..of.mails).step_by(BATCH);
        starts.map(move |start| (url, place, start..of.mails.min(start + BATCH as u64)))
    });
    let sent = stream::iter(batches)
        .map(|(url, campaign, numbers)| async move {
            let messages: Vec<_> = numbers
                .map(|number| Outgoing::new(body(plan, campaign, number).to_string()))
                .collect();
            for entry in to.send(url, &messages).await? {
                let queue = url.to_string();
                entry.map_err(|source| LocalError::Fill { queue, source })?;
            }
            Ok(())
        })
        .buffer_unordered(AT_ONCE);
    sent.try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it was asked, how long that took, and whether an answer came.
    async fn asked(answers: u32, ends: u32) -> (u32, Duration, bool) {
        let begun = Instant::now();
        let (mut asked, mut checked) = (0, 0);
        let failed = || LocalError::Option("no answer".to_owned());
        let check = || {
            checked += 1;
            if checked == ends { Err(failed()) } else { Ok(()) }
        };
        let attempt = async || {
            asked += 1;
            if asked == answers { Ok(()) } else { Err(failed()) }
        };
        let done = patiently(check, attempt).await.is_ok();
        (asked, begun.elapsed(), done)
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_asked_again_for_a_minute_unless_a_program_has_ended() {
        let seconds = Duration::from_secs;
        assert_eq!(asked(1, 0).await, (1, seconds(0), true));
        assert_eq!(asked(3, 0).await, (3, seconds(2), true));
        assert_eq!(asked(0, 0).await, (61, seconds(60), false));
        assert_eq!(asked(0, 3).await, (2, seconds(2), false));
    }
}

#[cfg(test)]
mod mailbox_tests {
    use super::*;
    use crate::setup::LocalCampaign;

    #[test]
    fn a_mail_counts_once_and_what_is_not_planned_completes_nothing() {
        let big = LocalCampaign { name: "big".to_owned(), weight: 90, mails: 3, recipients: 1 };
        let plan = LocalPlan { quota: 14.0, channel: Channel::Email, campaigns: vec![big] };
        let arrival = |campaign: &str, number: u64| MailArrival {
            at_ns: 1_795_206_967_000_000_000,
            campaign: campaign.to_owned(),
            key: format!("{campaign}-r{number:06}@example.com"),
            recipients: 1,
        };
        let mut mailbox = Mailbox::new(SesSandboxClient::at("http://127.0.0.1:9"));
        mailbox.take(&plan, vec![arrival("big", 0), arrival("big", 1)]);
        mailbox.take(&plan, vec![arrival("big", 0), arrival("big", 3), arrival("other", 2)]);
        assert_eq!(mailbox.arrivals.len(), 5);
        assert_eq!(mailbox.arrived(), 2);
        assert_eq!(mailbox.line(&plan), "5.0/s of 14  big 2/3 (80.0 %)  1 twice, 0 refused");
    }

    #[test]
    fn rate_and_shares_are_those_of_the_last_ten_seconds() {
        let campaign = |name: &str| LocalCampaign {
            name: name.to_owned(),
            weight: 50,
            mails: 90,
            recipients: 1,
        };
        let campaigns = vec![campaign("big"), campaign("small")];
        let plan = LocalPlan { quota: 4.0, channel: Channel::Email, campaigns };
        let mut mailbox = Mailbox::new(SesSandboxClient::at("http://127.0.0.1:9"));
        // Both send one a second for half a minute, then big alone sends three a second.
        for quarter in 0..160_u64 {
            let second = quarter / 4;
            let name = match (quarter % 4, second) {
                (0, _) | (1..3, 30..) => "big",
                (1, _) => "small",
                _ => continue,
            };
            mailbox.take(
                &plan,
                vec![MailArrival {
                    at_ns: quarter * 250_000_000,
                    campaign: name.to_owned(),
                    key: format!("{name}-r{quarter:06}@example.com"),
                    recipients: 1,
                }],
            );
        }
        let line = mailbox.line(&plan);
        assert!(line.starts_with("3.0/s of 4  big "), "{line}");
        assert!(line.contains("(100.0 %)") && line.contains("(0.0 %)"), "{line}");
    }
}

#[cfg(test)]
mod fill_tests {
    use tidegate_core::email;
    use tidegate_core::text_message::TextMessage;

    use super::*;

    fn plan(channel: Channel, recipients: u32) -> LocalPlan {
        let named =
            |name: &str| LocalCampaign { name: name.to_owned(), weight: 10, mails: 42, recipients };
        LocalPlan { quota: 14.0, channel, campaigns: vec![named("big"), named("small")] }
    }

    #[test]
    fn a_mail_is_known_again_by_its_first_recipient() {
        for (channel, member) in [(Channel::Email, "to_address"), (Channel::Sms, "to_phone")] {
            let plan = plan(channel, 1);
            let first = |number| body(&plan, 1, number)[member].as_str().unwrap().to_owned();
            assert!(is_of_plan(&plan, "small", &first(0)));
            assert!(is_of_plan(&plan, "small", &first(41)));
            assert!(!is_of_plan(&plan, "small", &first(42)));
            assert!(!is_of_plan(&plan, "big", &first(0)));
            assert!(!is_of_plan(&plan, "small", "ada@example.com"));
        }
    }

    #[test]
    fn every_mail_is_one_that_tidegate_takes() {
        let several = body(&plan(Channel::Email, 50), 0, 7);
        assert_eq!(several["to"].as_array().unwrap().len(), 50);
        for body in [several, body(&plan(Channel::Email, 1), 0, 7)] {
            assert!(email::Email::parse(&body.to_string()).is_ok(), "{body}");
        }
        for parts in [1, 3] {
            let body = body(&plan(Channel::Sms, parts), 1, 999_999);
            let text = TextMessage::parse(&body.to_string());
            assert_eq!(text.map(|text| text.parts), Ok(parts), "{body}");
        }
    }
}
