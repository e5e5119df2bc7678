//! Incidents: conditions that an operator should hear of once when they begin and once when they end.

use std::collections::{BTreeMap, BTreeSet};

use crate::back_pressure::BackPressureLevel;
use crate::control::{Control, HoldReason};
use crate::counters::Counter;
use crate::identity::EpochMillis;

/// Held campaigns that are told one by one. If there are more, one incident stands for the rest.
const CAMPAIGNS: usize = 10;
/// Counters that make an incident: from how many a minute on, its name, and its sentence. SES refuses single
/// mails for the rate even below the quota.
const COUNTED: [(Counter, u64, &str, &str); 6] = [
    // 5 % of a minute.
    (
        Counter::WindowsMissed,
        3,
        "windows-missed",
        "seconds pass that no poller serves: ticks are lost or late",
    ),
    (Counter::Refused, 10, "refusals", "AWS refuses messages as over the rate"),
    (Counter::BucketLost, 3, "bucket-lost", "the shared bucket does not answer"),
    (
        Counter::ReceivedOften,
        1,
        "received-often",
        "a message was received more than 100 times and not sent",
    ),
    (
        Counter::Old,
        1,
        "old-mail",
        "a message has waited on its queue for more than 10 days; SQS deletes it after 14",
    ),
    (
        Counter::StoreFailed,
        1,
        "store-failed",
        "messages that should be put into the store stay on their queue",
    ),
];
/// An incident of [`COUNTED`] is over after so long without it. A mail that cannot be sent is received every
/// 15 minutes at the latest.
const QUIET_MILLIS: u64 = 30 * 60 * 1_000;
/// Failed ticks of a run from which they are an incident. Each costs one window.
const TICKS_FAILED: u64 = 10;
/// Runs in a row without SES's quota.
const QUOTA_UNKNOWN: u32 = 3;
/// How long the stack must have been busy, and overloaded.
const BUSY_MILLIS: u64 = 60 * 60 * 1_000;
const OVERLOADED_MILLIS: u64 = 15 * 60 * 1_000;

/// The figures of one scheduler run that are not in the control record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFigures {
    /// Runs in a row, up to this one, in which SES did not tell the quota.
    pub quota_unknown: u32,
    /// Ticks of this run that Lambda did not accept.
    pub ticks_failed: u64,
    /// Whether mail could not be brought back from the store.
    pub refill_failed: bool,
    /// Counters that grew too much in a minute of the last half hour ([`GrowthMemory::lately`]).
    pub grown: BTreeSet<Counter>,
}

/// When counters grew too much for the last time.
///
/// ```
/// use tidegate_core::counters::Counter;
/// use tidegate_core::identity::EpochMillis;
/// use tidegate_core::incidents::GrowthMemory;
/// let mut memory = GrowthMemory::default();
/// let minute = |number: u64| EpochMillis::new(number * 60_000);
/// let refused = |count: u64| move |counter| if counter == Counter::Refused { count } else { 0 };
/// assert!(memory.lately(refused(9), minute(0)).is_empty());
/// assert!(memory.lately(refused(10), minute(1)).contains(&Counter::Refused));
/// assert!(!memory.lately(refused(0), minute(30)).is_empty());
/// assert!(memory.lately(refused(0), minute(31)).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrowthMemory(BTreeMap<Counter, EpochMillis>);

impl GrowthMemory {
    /// Notes by how much each counter `grew` in the minute before `now`. Returns those that grew too much in
    /// one of the last 30 minutes.
    pub fn lately(&mut self, grew: impl Fn(Counter) -> u64, now: EpochMillis) -> BTreeSet<Counter> {
        for (counter, least, ..) in COUNTED {
            if grew(counter) >= least {
                self.0.insert(counter, now);
            }
        }
        let age = |at: &EpochMillis| now.as_millis().saturating_sub(at.as_millis());
        self.0.retain(|_, at| age(at) < QUIET_MILLIS);
        self.0.keys().copied().collect()
    }
}

/// The incidents of a moment: a sentence for each, by its name.
///
/// ```
/// use tidegate_core::control::{Control, Hold, HoldReason};
/// use tidegate_core::identity::EpochMillis;
/// use tidegate_core::incidents::{RunFigures, incidents};
/// let mut control = Control::default();
/// let now = EpochMillis::new(1_000);
/// control.hold(Some("spring"), HoldReason::Reputation, Hold::new("", now));
/// let found = incidents(&control, &RunFigures::default(), now);
/// assert_eq!(found["held.reputation.spring"], "the campaign spring is held: reputation");
/// ```
pub fn incidents(
    control: &Control,
    run: &RunFigures,
    now: EpochMillis,
) -> BTreeMap<String, String> {
    let mut found = holds(control);
    let mut add = |is: bool, name: &str, text: &str| {
        if is {
            found.insert(name.to_owned(), text.to_owned());
        }
    };
    add(
        !control.breaker.is_allowing(),
        "blocked",
        "the circuit breaker blocks: too many sends failed",
    );
    let reading = control.back_pressure.filter(|reading| !reading.is_old(now));
    let lasts = |least: BackPressureLevel, millis: u64| {
        reading.is_some_and(|reading| {
            reading.level >= least
                && now.as_millis().saturating_sub(reading.since.as_millis()) >= millis
        })
    };
    add(
        lasts(BackPressureLevel::Busy, BUSY_MILLIS),
        "busy",
        "the stack has been busy for an hour: messages wait long, or AWS refuses many",
    );
    add(
        lasts(BackPressureLevel::Overloaded, OVERLOADED_MILLIS),
        "overloaded",
        "the stack is overloaded: messages wait for days, or AWS refuses many",
    );
    add(
        reading.is_some_and(|reading| reading.growing_since.is_some()),
        "backlog-grows",
        "more messages come than the quota lets go: the backlog has grown for an hour",
    );
    add(
        run.quota_unknown >= QUOTA_UNKNOWN,
        "quota-unknown",
        "AWS does not tell the quota; the last known one is used",
    );
    add(
        run.ticks_failed >= TICKS_FAILED,
        "ticks-failed",
        "ticks cannot be issued, and their seconds send nothing",
    );
    add(run.refill_failed, "refill-failed", "messages cannot be brought back from the store");
    for (counter, _, name, text) in COUNTED {
        add(run.grown.contains(&counter), name, text);
    }
    found
}

fn holds(control: &Control) -> BTreeMap<String, String> {
    // A cancel ends by itself, and whoever ordered it knows.
    let told = |reason: &str| reason != HoldReason::Cancelled.as_str();
    let mut found = BTreeMap::new();
    let mut campaigns = 0;
    for (campaign, reason, _) in control.named_holds().filter(|(_, reason, _)| told(reason)) {
        let Some(campaign) = campaign else {
            found.insert(format!("held.{reason}"), format!("all sending is held: {reason}"));
            continue;
        };
        campaigns += 1;
        if campaigns <= CAMPAIGNS {
            let text = format!("the campaign {campaign} is held: {reason}");
            found.insert(format!("held.{reason}.{campaign}"), text);
        }
    }
    if campaigns > CAMPAIGNS {
        found.insert("held.more".to_owned(), format!("more than {CAMPAIGNS} campaigns are held"));
    }
    found
}

/// The difference between the incidents that were told and those of now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncidentChanges {
    /// Incidents that nobody was told of yet, with their sentences.
    pub begun: BTreeMap<String, String>,
    /// Incidents that are over, with the time at which they were told.
    pub ended: BTreeMap<String, EpochMillis>,
}

impl IncidentChanges {
    /// Compares `told` (the time at which each was told, by name) with the incidents of `now`.
    pub fn between(told: &BTreeMap<String, EpochMillis>, now: &BTreeMap<String, String>) -> Self {
        let begun = now.iter().filter(|(name, _)| !told.contains_key(*name));
        let ended = told.iter().filter(|(name, _)| !now.contains_key(*name));
        Self {
            begun: begun.map(|(name, text)| (name.clone(), text.clone())).collect(),
            ended: ended.map(|(name, at)| (name.clone(), *at)).collect(),
        }
    }

    /// True if there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.ended.is_empty()
    }

    /// Notes in `told` that these changes were told at `now`.
    pub fn note(&self, told: &mut BTreeMap<String, EpochMillis>, now: EpochMillis) {
        told.retain(|name, _| !self.ended.contains_key(name));
        told.extend(self.begun.keys().map(|name| (name.clone(), now)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::back_pressure::{BackPressureFigures, BacklogHistory, Reading};
    use crate::control::Hold;

    const NOW: EpochMillis = EpochMillis::new(100_000_000);

    fn names(control: &Control, run: &RunFigures) -> Vec<String> {
        incidents(control, run, NOW).into_keys().collect()
    }

    fn held(campaigns: usize) -> Control {
        let mut control = Control::default();
        for number in 0..campaigns {
            let hold = Hold::new("", NOW);
            control.hold(Some(&format!("c{number:02}")), HoldReason::Reputation, hold);
        }
        control
    }

    #[test]
    fn holds_are_told_by_campaign_and_many_as_one_more() {
        assert_eq!(names(&held(1), &RunFigures::default()), ["held.reputation.c00"]);
        assert_eq!(names(&held(10), &RunFigures::default()).len(), 10);
        let many = names(&held(1_000), &RunFigures::default());
        assert!(many.len() == 11 && many.contains(&"held.more".to_owned()), "{many:?}");
        let mut control = Control::default();
        control.hold(None, HoldReason::Account, Hold::new("", NOW));
        control.hold(Some("big"), HoldReason::Cancelled, Hold::new("", NOW));
        assert_eq!(names(&control, &RunFigures::default()), ["held.account"]);
    }

    #[test]
    fn a_level_is_told_once_it_lasts_and_not_by_an_old_reading() {
        let told = |level, since: u64, read_at: u64| {
            let ago = |minutes: u64| EpochMillis::new(NOW.as_millis() - minutes * 60_000);
            let reading = Reading {
                level,
                since: ago(since),
                calm_since: None,
                figures: BackPressureFigures::default(),
                backlog: BacklogHistory::default(),
                growing_since: None,
                read_at: ago(read_at),
            };
            let control = Control { back_pressure: Some(reading), ..Control::default() };
            names(&control, &RunFigures::default()).len()
        };
        assert_eq!([59, 60].map(|since| told(BackPressureLevel::Busy, since, 0)), [0, 1]);
        assert_eq!(told(BackPressureLevel::Busy, 100, 90), 0);
    }

    #[test]
    fn figures_are_told_from_the_same_thresholds_on_as_the_alarms() {
        let run = |missing: u64, ticks_failed, quota_unknown, refill_failed| {
            let grew = |counter| {
                let found = COUNTED.into_iter().find(|(counted, ..)| *counted == counter);
                found.map_or(0, |(_, least, ..)| least - missing)
            };
            let grown = GrowthMemory::default().lately(grew, NOW);
            let figures = RunFigures { quota_unknown, ticks_failed, refill_failed, grown };
            names(&Control::default(), &figures)
        };
        assert_eq!(run(1, 9, 2, false), Vec::<String>::new());
        let all = [
            "bucket-lost",
            "old-mail",
            "quota-unknown",
            "received-often",
            "refill-failed",
            "refusals",
            "store-failed",
            "ticks-failed",
            "windows-missed",
        ];
        assert_eq!(run(0, 10, 3, true), all);
    }

    #[test]
    fn a_mail_received_every_quarter_of_an_hour_is_one_incident() {
        let mut memory = GrowthMemory::default();
        let mut minutes = (0..120_u64).map(|minute| {
            let grew = |counter| u64::from(counter == Counter::Old && minute % 15 == 0);
            memory.lately(grew, EpochMillis::new(minute * 60_000))
        });
        assert!(minutes.all(|grown| grown.contains(&Counter::Old)));
    }

    proptest! {
        #[test]
        fn each_incident_is_told_once_as_it_begins_and_once_as_it_ends(
            minutes in prop::collection::vec(prop::collection::btree_set(0_u8..5, 0..5), 1..20),
        ) {
            let mut told = BTreeMap::new();
            let mut before = std::collections::BTreeSet::new();
            for now in minutes {
                let incidents: BTreeMap<String, String> =
                    now.iter().map(|n| (n.to_string(), String::new())).collect();
                let changes = IncidentChanges::between(&told, &incidents);
                let begun = now.difference(&before).map(u8::to_string);
                let ended = before.difference(&now).map(u8::to_string);
                prop_assert!(changes.begun.keys().cloned().eq(begun));
                prop_assert!(changes.ended.keys().cloned().eq(ended));
                changes.note(&mut told, NOW);
                prop_assert!(IncidentChanges::between(&told, &incidents).is_empty());
                before = now;
            }
        }
    }
}
