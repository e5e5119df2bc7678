//! The invariants that hold after every run.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::compression::decompress;
use tidegate_core::control::CANCELLED;
use tidegate_core::counters::Counter;
use tidegate_core::identity::Identity;
use tidegate_core::limits::Dimension;
use tidegate_core::reputation::REMEMBERED;
use tidegate_delivery::poll::End;
use tidegate_fakes::{Operation, SesArrival};

use super::extras::STORE;
use super::{Chaos, DOMAINS};
use crate::simulation::{EXPRESS, MERGE, PollerEnd, PollerRun, limit_queue, measure, rate};

/// A merge queue recognises a repeated deduplication id for this long.
const FORGOTTEN: Duration = Duration::from_mins(5);
/// Longer than a poller lives after it sent a mail.
const A_POLLERS_LIFE: Duration = Duration::from_secs(15);

/// An invariant that a world did not keep.
#[derive(Clone, Debug)]
pub struct Broken {
    pub invariant: &'static str,
    /// What shows it.
    pub found: String,
}

impl Chaos {
    /// The invariants that do not hold; empty if all hold.
    pub fn broken(&self) -> Vec<Broken> {
        type Check = fn(&Chaos, &mut Vec<String>);
        let checks: [(&str, Check); 12] = [
            ("nothing is lost", Self::nothing_is_lost_or_in_flight_for_ever),
            ("the bound holds", Self::the_bound_holds),
            ("the domains' limits hold", Self::the_domains_limits_hold),
            ("the limits hold", Self::the_limits_hold),
            ("what was sent twice has a cause", Self::what_was_sent_twice_has_a_cause),
            ("dead letters have a cause", Self::dead_letters_have_a_cause),
            ("the shares are right once it is calm", Self::shares_are_right_once_it_is_calm),
            ("the ledger adds up", Self::the_ledger_adds_up),
            ("what SES reported is counted", Self::what_ses_reported_is_counted),
            ("the level is clear again", Self::the_level_is_clear_again),
            ("no timed mail is early", Self::no_timed_mail_is_early),
            ("the audit finds nothing", |chaos, broken| broken.extend(chaos.world.audited())),
        ];
        let of_check = |(invariant, check): (&'static str, Check)| {
            let mut found = Vec::new();
            check(self, &mut found);
            found.into_iter().map(move |found| Broken { invariant, found })
        };
        checks.into_iter().flat_map(of_check).collect()
    }

    fn nothing_is_lost_or_in_flight_for_ever(&self, broken: &mut Vec<String>) {
        let mut lost = self.world.lost();
        // A cancel ends the run: rows that are not enqueued by then get no mail, and leave no letter.
        if self
            .standing
            .as_ref()
            .is_some_and(|standing| standing.control.cancels.contains_key("small"))
        {
            lost.retain(|id| !id.starts_with("row-"));
        }
        if !lost.is_empty() {
            broken.push(format!("lost: {lost:?}"));
        }
        let accepted = self.world.accepted();
        let letters = self.world.dead_letters();
        let dead = |id: &str| letters.iter().any(|letter| letter.message.contains(id));
        for id in self.forged.iter().filter(|id| !accepted.contains_key(*id) && !dead(id)) {
            broken.push(format!("lost, whose producer forged attributes: {id}"));
        }
        // A campaign of which SES accepts no mail that is left stays held.
        let unsent = self.world.unsent();
        let is_refused = |id: &String| self.refused.contains(id);
        let is_held = unsent.iter().all(is_refused) && self.world.store.contents().is_empty();
        if !self.world.is_drained() && (unsent.is_empty() || !is_held) {
            broken.push(format!("still waiting: {unsent:?}"));
        }
    }

    /// The time stands in the id.
    fn no_timed_mail_is_early(&self, broken: &mut Vec<String>) {
        // The clocks of the pollers may be apart.
        let apart = Duration::from_millis(400);
        for arrival in self.world.ses.arrivals() {
            let due = arrival.id.strip_prefix("timed-").and_then(|id| id.split('-').nth(1));
            let due = due.and_then(|millis| millis.parse().ok()).map(Timestamp::from_millis);
            if due.is_some_and(|due| arrival.at + apart < due) {
                broken.push(format!("early: {} at {:?}", arrival.id, arrival.at));
            }
        }
    }

    /// No window is served twice, and where no report and no poller was lost, the sum of what reports
    /// tell stands in the ledger.
    fn the_ledger_adds_up(&self, broken: &mut Vec<String>) {
        let reports = self.world.reports();
        let mut served: Vec<_> =
            reports.iter().filter(|report| report.end == End::Served).map(|r| r.window).collect();
        let windows = served.len();
        served.dedup();
        if served.len() < windows {
            broken.push(format!("{} windows were served twice", windows - served.len()));
        }
        let strikes = self.world.faults.strikes();
        let lost = strikes.iter().any(|strike| strike.operation == Operation::Report);
        let all = self.world.poller_runs().iter().all(|start| start.report().is_some());
        let Some(standing) = self.standing.as_ref().filter(|_| all && !lost) else { return };
        let told: u64 = reports.iter().map(|report| report.count(Counter::Sent)).sum();
        let stands = standing.counters.get("sent").copied().unwrap_or(0);
        if i64::try_from(told) != Ok(stands) {
            broken.push(format!("reports tell of {told} sent, {stands} stand in the ledger"));
        }
    }

    /// Each bounce and complaint is counted, however often its message came; once, where all are
    /// remembered. A hold, and two days, begin the count anew.
    fn what_ses_reported_is_counted(&self, broken: &mut Vec<String>) {
        let held =
            self.world.settings.variables.contains(&("TIDEGATE_FEEDBACK", "hold".to_owned()));
        if self.reported == 0 || held || self.world.settings.daily_quota.is_some() {
            return;
        }
        let reputation = self.standing.as_ref().and_then(|s| s.control.reputation.as_ref());
        let tallies = reputation.into_iter().flat_map(|reputation| reputation.campaigns.values());
        let counted: u64 =
            tallies.map(|tally| tally.running.bounced + tally.running.complained).sum();
        let reported = self.reported as u64;
        if counted < reported || counted > reported && self.reported <= REMEMBERED {
            broken.push(format!("SES reported {reported}, {counted} are counted"));
        }
    }

    fn the_level_is_clear_again(&self, broken: &mut Vec<String>) {
        let Some(standing) = self.standing.as_ref().filter(|_| self.defers) else { return };
        let level = standing.control.level(self.world.universe.now().into());
        if level != BackPressureLevel::Clear {
            broken.push(format!("the level is {level} long after all was sent"));
        }
    }

    /// ⌈q⌉, r − 1 for the largest mail, and a term for clocks that differ, in any second.
    fn the_bound_holds(&self, broken: &mut Vec<String>) {
        let quota = rate(self.highest_quota).ceil();
        let drift = self.highest_quota * self.apart.as_secs_f64() / 1.02;
        let drift: u64 = format!("{:.0}", drift.ceil()).parse().unwrap_or(0);
        let most = quota + u64::from(self.largest) - 1 + drift;
        let worst = measure::worst_second(&self.world.ses.arrivals());
        if worst > most {
            broken.push(format!("{worst} recipients in one second, {most} allowed"));
        }
    }

    /// No second above a domain's bound.
    fn the_domains_limits_hold(&self, broken: &mut Vec<String>) {
        let Some(table) = self.limit_table() else { return };
        let arrivals = self.world.ses.arrivals();
        for domain in DOMAINS {
            let limit = table.find(Dimension::Domain, domain);
            let limit = limit.and_then(|limit| table.get(limit.index)?.1.rate);
            let Some(limit) = limit.map(|limit| limit.of(rate(self.highest_quota))) else {
                continue;
            };
            let most = self.most_in_a_second(limit);
            let worst = measure::worst_second(&measure::to_domains(&arrivals, &[domain]));
            if worst > most {
                broken.push(format!("{worst} to {domain} in one second, {most} allowed"));
            }
        }
    }

    /// Each mail that SES accepted twice, one by one: the list of `docs/guarantees.md`.
    fn what_was_sent_twice_has_a_cause(&self, broken: &mut Vec<String>) {
        let mut copies: BTreeMap<(String, String), Vec<SesArrival>> = BTreeMap::new();
        for arrival in self.world.ses.accepted() {
            let mail = (arrival.campaign.clone(), arrival.id.clone());
            copies.entry(mail).or_default().push(arrival);
        }
        copies.retain(|_, copies| copies.len() > 1);
        if copies.is_empty() {
            return;
        }
        let causes = Causes::of(self);
        for ((campaign, id), copies) in copies {
            let mail = causes.of_mail(self, (&campaign, &id), copies.len());
            let mut doubles = causes.doubles(&id, &copies);
            for pair in copies.windows(2) {
                let (first, again) = (&pair[0], &pair[1]);
                if self.deduplication == "park" {
                    broken
                        .push(format!("{campaign}/{id} is sent twice though deduplication parks"));
                } else if !mail.explains(first, again) {
                    // Each delivery that SQS doubled is good for one send.
                    if doubles > 0 && mail.unknown && !mail.guarded {
                        doubles -= 1;
                        continue;
                    }
                    let at = (first.at, again.at);
                    broken.push(format!("{campaign}/{id} is sent twice without a cause: {at:?}"));
                }
            }
        }
    }

    /// Only what SES refused for good, what failed five times, what is no mail, and, under a parking
    /// deduplication, what may have been sent.
    fn dead_letters_have_a_cause(&self, broken: &mut Vec<String>) {
        let (letters, accepted) = (self.world.dead_letters(), self.world.accepted());
        for letter in &letters {
            let code = letter.last_error.code.as_deref().unwrap_or_default();
            let caused = match code {
                "MessageRejected" | "NotJson" | "UnknownMember" | CANCELLED => true,
                "unknown" => {
                    self.deduplication == "park" && self.may_have_been_sent(&letter.message)
                }
                // Another copy was sent, and its object deleted; no mark tells.
                "NoSuchObject" if self.deduplication == "off" => letter
                    .to
                    .iter()
                    .any(|to| to.split('.').next().is_some_and(|id| accepted.contains_key(id))),
                _ => letter.attempts >= 5,
            };
            if !caused {
                broken.push(format!("a dead letter without a cause: {letter:?}"));
            }
        }
        let no_mail = |code: &str| code == "NotJson" || code == "UnknownMember";
        let poison = letters.iter().filter(|l| l.last_error.code.as_deref().is_some_and(no_mail));
        let poison = poison.count();
        if poison < self.poison {
            broken.push(format!("{poison} of {} that are no mail are dead letters", self.poison));
        }
    }

    /// Whether a poller crashed, or this mail's answer or a change of its mark was lost: it may
    /// then be sent twice.
    fn may_have_been_sent(&self, body: &str) -> bool {
        let id = body.split('"').nth(3).unwrap_or_default();
        let named = |resource: &str| resource.rsplit('/').next() == Some(id);
        let marks = [Operation::Mark, Operation::SetMark, Operation::Unmark];
        let struck = self.world.faults.strikes();
        !self.crashes.is_empty()
            || self.world.mail_faults.strikes().iter().any(|strike| named(&strike.resource))
            || struck.iter().any(|s| marks.contains(&s.operation) && named(&s.resource))
    }

    /// 90/10 to within a fiftieth, and two batches: a campaign found empty is asked for ten beside
    /// the shares, by two windows that do not know of each other, and gives them back.
    fn shares_are_right_once_it_is_calm(&self, broken: &mut Vec<String>) {
        let Some(span) = &self.calm else { return };
        let accepted = self.world.ses.accepted();
        let total = measure::sent(&accepted, span);
        let share = measure::share(&accepted, "small", span);
        let total = f64::from(u32::try_from(total).unwrap_or(u32::MAX));
        if (share - 0.1).abs() > 0.02 + 20.0 / total {
            broken.push(format!("small had {share:.3} of {total} in {span:?}, 0.1 is right"));
        }
    }
}

/// Events that can make a mail be sent twice, with their times.
struct Causes {
    /// Pollers that crashed: their environments and lives.
    crashed: Vec<(usize, Timestamp, Timestamp)>,
    failed: Vec<(String, Timestamp)>,
    /// Ends of pollers that could not do all of their deletes.
    deletes: Vec<Timestamp>,
    /// Sends between queues that were not acknowledged, or only in part.
    moves: Vec<Timestamp>,
    /// Mails, by identity, whose mark did not get to *sent*: a resending deduplication does not know them.
    unmarked: Vec<String>,
    deferrals: Vec<Timestamp>,
    /// The bodies that a queue gave once more than need be, and when that was decided.
    doubled: Vec<(Timestamp, String)>,
}

/// The mail in a body, which may be compressed.
fn legible(body: String) -> String {
    match decompress(&body) {
        Some(Ok(mail)) => mail,
        _ => body,
    }
}

/// Everything that happened to one mail.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that excuses a second send"
)]
struct OfMail<'a> {
    causes: &'a Causes,
    own: String,
    identity: String,
    guarded: bool,
    /// Times at which it came back to its campaign's queue, to the express queue or to a domain
    /// queue.
    put_back: Vec<Timestamp>,
    /// Times at which it came to a limit queue.
    aside: Vec<Timestamp>,
    merged: Vec<Timestamp>,
    /// It was sent more often than it went through the merge queue.
    probes: bool,
    /// No merge queue would know it again, where a standard queue gives it twice.
    unknown: bool,
    /// A standard queue may have given it twice, and it is unknown.
    copied: bool,
    put_twice: bool,
    deferred: bool,
}

impl Causes {
    fn of(chaos: &Chaos) -> Self {
        let world = &chaos.world;
        let crashed = {
            let starts = world.poller_runs();
            let killed = starts.iter().filter(|start| matches!(start.end, PollerEnd::Crashed));
            killed.map(|start| (start.environment, start.at, start.ended)).collect()
        };
        let strikes = world.faults.strikes();
        let at = |operation| -> Vec<Timestamp> {
            let struck = strikes.iter().filter(|strike| strike.operation == operation);
            struck.map(|strike| strike.at).collect()
        };
        let marks = strikes.iter().filter(|strike| strike.operation == Operation::SetMark);
        let failed = world.mail_faults.strikes();
        let gave_up =
            |start: &&PollerRun| start.report().is_some_and(|r| r.count(Counter::DeleteFailed) > 0);
        let deletes = world.poller_runs().iter().filter(gave_up).map(|start| start.ended).collect();
        Self {
            crashed,
            failed: failed.into_iter().map(|strike| (strike.resource, strike.at)).collect(),
            deletes,
            moves: at(Operation::Send),
            unmarked: marks.map(|strike| strike.resource.clone()).collect(),
            deferrals: STORE.into_iter().flat_map(at).collect(),
            doubled: world
                .queues
                .urls()
                .iter()
                .flat_map(|url| world.queues.doubled(url))
                .map(|(at, body)| (at, legible(body)))
                .collect(),
        }
    }

    /// Number of redundant deliveries of this mail by a queue before it was sent for the last time.
    fn doubles(&self, id: &str, copies: &[SesArrival]) -> usize {
        let Some(last) = copies.last() else { return 0 };
        // With a space as producers here write it, without one as a row's message has it.
        let is_its =
            |body: &str| ["", " "].iter().any(|s| body.contains(&format!("\"id\":{s}\"{id}\"")));
        self.doubled.iter().filter(|(at, body)| *at <= last.at && is_its(body)).count()
    }

    fn of_mail(&self, chaos: &Chaos, (campaign, id): (&str, &str), sent: usize) -> OfMail<'_> {
        let identity = Identity::from_body_id(campaign, id).as_str().to_owned();
        let stood = |queue: &str| -> Vec<Timestamp> {
            let taken = chaos.world.taken(queue);
            taken.into_iter().filter(|(_, own)| *own == identity).map(|(at, _)| at).collect()
        };
        let merged = stood(MERGE);
        let given_twice = chaos.parts.told().any(|told| told.contains("fault: Duplicate"));
        let forgotten = merged.windows(2).any(|pair| pair[0] + FORGOTTEN <= pair[1]);
        // A limited campaign's mail does not pass through the merge queue.
        let merges = chaos.world.settings.merge && !chaos.limits.pace_campaign(campaign);
        let unmerged = !merges || campaign == EXPRESS;
        let places = 0..chaos.world.limit_queues();
        let aside: Vec<Timestamp> = places.flat_map(|place| stood(&limit_queue(place))).collect();
        // A mail that probes for its held campaign is sent from the campaign's queue.
        let own = stood(campaign);
        let probes = merged.len() < sent + own.len();
        let unknown = unmerged || forgotten || probes || !aside.is_empty();
        OfMail {
            causes: self,
            own: format!("{campaign}/{id}"),
            guarded: chaos.deduplication != "off",
            copied: given_twice && unknown,
            unknown,
            probes,
            put_back: own.into_iter().chain(aside.iter().copied()).collect(),
            aside,
            put_twice: chaos.twice.as_deref() == Some(id),
            deferred: chaos.stores,
            merged,
            identity,
        }
    }
}

impl OfMail<'_> {
    fn explains(&self, first: &SesArrival, again: &SesArrival) -> bool {
        let killed = |(environment, from, to): &(usize, Timestamp, Timestamp)| {
            *environment == first.environment && *from <= first.at && first.at <= *to
        };
        self.causes.crashed.iter().any(killed)
            || self.causes.failed.iter().any(|(mail, at)| *mail == self.own && *at <= again.at)
            || self.causes.unmarked.contains(&self.identity)
            || (!self.guarded && self.explains_unguarded(first.at, again.at))
    }

    fn explains_unguarded(&self, first: Timestamp, again: Timestamp) -> bool {
        let Causes { deletes, moves, crashed, .. } = self.causes;
        let within = |at: Timestamp, after: Timestamp| at >= after && at <= after + A_POLLERS_LIFE;
        // Where the original of a copy that came to stand elsewhere was not deleted.
        let undeleted = |stood: &Timestamp| {
            deletes.iter().any(|at| within(*at, *stood))
                || moves.iter().any(|at| *at <= *stood && *stood <= *at + A_POLLERS_LIFE)
                || crashed.iter().any(|(_, from, to)| from <= stood && *stood <= *to)
        };
        let moved = self.put_back.iter().any(|stood| *stood <= again && undeleted(stood));
        // Its other copy may have been put back and fed in between, with another pass.
        let refed =
            self.merged.iter().filter(|stood| undeleted(stood)).any(|stood| {
                self.merged.iter().any(|at| *stood + FORGOTTEN <= *at && *at <= again)
            });
        // A limit queue does not know what the merge queue has.
        let fed_aside = self
            .merged
            .iter()
            .filter(|stood| undeleted(stood))
            .any(|stood| self.aside.iter().any(|aside| stood <= aside && *aside <= again));
        // The merge queue does not know the copy that a probe sends.
        let probed = self.probes && self.merged.iter().any(undeleted);
        // A copy stands in S3, and the mail in its queue.
        let copied = self.deferred
            && (crashed.iter().any(|(_, _, ended)| *ended <= again)
                || self.causes.deferrals.iter().chain(deletes).any(|at| *at <= again));
        deletes.iter().any(|at| within(*at, first))
            || moved
            || probed
            || copied
            || refed
            || fed_aside
            || self.copied
            || self.put_twice
    }
}
