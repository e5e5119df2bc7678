//! What holds after every run.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::identity::Identity;
use tidegate_memory::{Arrival, Operation};

use super::Chaos;
use crate::simulation::lambda::Start;
use crate::simulation::measure;
use crate::simulation::settings::rate;
use crate::simulation::world::{DEAD_LETTERS, EXPRESS, MERGE};

/// Longer than a poller lives after it sent a mail.
const A_POLLERS_LIFE: Duration = Duration::from_secs(15);

impl Chaos {
    /// What does not hold, in words.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        self.nothing_is_lost_or_in_flight_for_ever(&mut broken);
        self.the_bound_holds(&mut broken);
        self.what_was_sent_twice_has_a_cause(&mut broken);
        self.dead_letters_have_a_cause(&mut broken);
        self.shares_are_right_once_it_is_calm(&mut broken);
        broken
    }

    fn nothing_is_lost_or_in_flight_for_ever(&self, broken: &mut Vec<String>) {
        let lost = self.world.lost();
        if !lost.is_empty() {
            broken.push(format!("lost: {lost:?}"));
        }
        if !self.world.is_drained() {
            broken.push(format!("still waiting: {:?}", self.world.waiting()));
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

    /// Each mail that SES accepted twice, one by one: the README's list of what can send twice.
    fn what_was_sent_twice_has_a_cause(&self, broken: &mut Vec<String>) {
        let mut times: BTreeMap<(String, String), Vec<Timestamp>> = BTreeMap::new();
        for Arrival { campaign, id, at, .. } in self.world.ses.accepted() {
            times.entry((campaign, id)).or_default().push(at);
        }
        let causes = Causes::of(self);
        for ((campaign, id), times) in times {
            for pair in times.windows(2) {
                if self.guard == "park" {
                    broken.push(format!("{campaign}/{id} is sent twice under a parking guard"));
                } else if !causes.explain(self, &campaign, &id, (pair[0], pair[1])) {
                    broken.push(format!("{campaign}/{id} is sent twice without a cause: {pair:?}"));
                }
            }
        }
    }

    /// Only what SES refused for good, what failed five times, what is no mail, and, under a parking
    /// guard, what may have been sent.
    fn dead_letters_have_a_cause(&self, broken: &mut Vec<String>) {
        let letters = self.world.dead_letters();
        for letter in &letters {
            let code = letter.last_error.code.as_deref().unwrap_or_default();
            let caused = match code {
                "MessageRejected" | "NotJson" | "UnknownMember" => true,
                "unknown" => self.guard == "park",
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

fn identity_of(campaign: &str, id: &str) -> String {
    Identity::from_body_id(campaign, id).as_str().to_owned()
}

/// When what can send a mail twice befell.
struct Causes {
    /// Lives of pollers that crashed.
    crashed: Vec<(Timestamp, Timestamp)>,
    /// Sends whose answer was lost, by `campaign/id`.
    ambiguous: Vec<(String, Timestamp)>,
    /// Deletes that failed, or took too long to count on.
    deletes: Vec<Timestamp>,
    /// Sends into a campaign that were not acknowledged, or only in part.
    moves: Vec<Timestamp>,
    /// Sends into the merge queue that were not acknowledged, or only in part.
    feeds: Vec<Timestamp>,
    /// Mails, by identity, whose mark did not get to *sent*: a resending guard does not know them.
    unmarked: Vec<String>,
    /// Whether any mail went back to its campaign.
    moved: bool,
    /// Receives that a standard queue may have repeated, which no merge queue knows again.
    copies: bool,
}

impl Causes {
    fn of(chaos: &Chaos) -> Self {
        let world = &chaos.world;
        let crashed = {
            let starts = world.starts();
            let killed = starts.iter().filter(|start| matches!(start.start, Start::Crashed));
            killed.map(|start| (start.at, start.ended)).collect()
        };
        let strikes = world.faults.strikes();
        let at = |operation, of: &dyn Fn(&str) -> bool| -> Vec<Timestamp> {
            let struck = strikes.iter().filter(|s| s.operation == operation && of(&s.resource));
            struck.map(|strike| strike.at).collect()
        };
        let mails_failed = world.mail_faults.strikes();
        let told = |what: &str| chaos.story.iter().any(|told| told.contains(what));
        Self {
            crashed,
            ambiguous: mails_failed.iter().map(|s| (s.resource.clone(), s.at)).collect(),
            deletes: at(Operation::Delete, &|_| true),
            moves: at(Operation::Send, &|queue| {
                !queue.ends_with(MERGE) && !queue.ends_with(DEAD_LETTERS)
            }),
            feeds: at(Operation::Send, &|queue| queue.ends_with(MERGE)),
            unmarked: {
                let marks = strikes.iter().filter(|s| s.operation == Operation::SetMark);
                marks.map(|strike| strike.resource.clone()).collect()
            },
            // A poller that crashed may have moved mail and told nobody.
            moved: world.reports().iter().any(|report| report.retried + report.put_back > 0)
                || told("crash in") && (!mails_failed.is_empty() || told("pause of big")),
            copies: told("fault: Duplicate"),
        }
    }

    fn explain(
        &self,
        chaos: &Chaos,
        campaign: &str,
        id: &str,
        sent: (Timestamp, Timestamp),
    ) -> bool {
        let (first, again) = sent;
        let soon = |at: Timestamp| at >= first && at <= first + A_POLLERS_LIFE;
        let own = format!("{campaign}/{id}");
        let guarded = chaos.guard != "off";
        let long = ["daily quota", "account paused", "pause of big", "150 windows"];
        let long = long.iter().any(|what| chaos.story.iter().any(|told| told.contains(what)));
        // The merge queue knows a copy again for five minutes.
        let unmerged = !chaos.world.settings.merge || campaign == EXPRESS || long;
        // A copy went back to its campaign, or into the merge queue more than five minutes apart, while
        // the original was not deleted.
        let undeleted = |apart: Duration| {
            self.crashed.iter().any(|(from, _)| *from + apart <= again)
                || self.deletes.iter().any(|at| *at + apart <= again)
        };
        let forgotten = Duration::from_mins(5);
        let moved = (self.moved && undeleted(Duration::ZERO))
            || undeleted(forgotten)
            || self.feeds.iter().any(|at| *at + forgotten <= again);
        self.crashed.iter().any(|(from, to)| *from <= first && first <= *to)
            || self.ambiguous.iter().any(|(mail, at)| *mail == own && *at <= again)
            || self.unmarked.iter().any(|identity| *identity == identity_of(campaign, id))
            || (!guarded
                && (moved
                    || self.deletes.iter().any(|at| soon(*at))
                    || self.moves.iter().any(|at| *at <= again)
                    || (self.copies && unmerged)
                    || chaos.twice.as_deref() == Some(id)))
    }
}
