//! The list of counters: everything that a poller counts in a window, with unit, meaning and where it is
//! shown. Report, ledger, metrics, status and documentation take their names from here.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use strum::IntoStaticStr;

/// The things that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CounterUnit {
    /// Recipients of mails: a mail to three people counts three.
    Recipients,
    /// Mails, whatever their recipients.
    Mails,
    /// Places in time at which one recipient could have been sent to.
    Slots,
    /// Seconds times recipients.
    #[strum(serialize = "seconds × recipients")]
    RecipientSeconds,
    /// Calls to a service.
    Calls,
    /// Windows of one second.
    Windows,
    /// Thousandths of a second.
    Milliseconds,
}

impl CounterUnit {
    /// The unit as the documentation writes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The sums that the ledger keeps of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerSums {
    /// None: the counter is in the window's report alone.
    None,
    /// One sum under the counter's name.
    Total,
    /// One sum for each campaign, as `NAME.CAMPAIGN`.
    ByCampaign,
    /// Both.
    TotalAndByCampaign,
}

/// The entry of one counter in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterEntry {
    /// The name in reports and in the ledger.
    pub name: &'static str,
    /// The things that are counted.
    pub unit: CounterUnit,
    /// The sums that the ledger keeps.
    pub ledger: LedgerSums,
    /// The CloudWatch metric, published in windows in which the counter is not 0. `None` for a counter that
    /// no alarm and no graph needs: a metric costs $0.30 a month, and the log holds it as well.
    pub metric: Option<&'static str>,
    /// One sentence for the documentation.
    pub meaning: &'static str,
}

// The meaning is the entry's doc comment.
macro_rules! counters {
    ($(#[doc = $meaning:literal] $counter:ident, $name:literal, $unit:ident, $ledger:ident, $metric:expr;)*) => {
        /// A counter of the poller's windows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Counter {
            $(#[doc = $meaning] $counter,)*
        }

        impl Counter {
            /// All counters, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$counter),*];

            /// This counter's entry in the list.
            pub const fn entry(self) -> CounterEntry {
                match self {
                    $(Self::$counter => CounterEntry {
                        name: $name,
                        unit: CounterUnit::$unit,
                        ledger: LedgerSums::$ledger,
                        metric: $metric,
                        meaning: $meaning.trim_ascii_start(),
                    },)*
                }
            }
        }
    };
}

counters! {
    /// Windows that were claimed and served.
    Windows, "windows", Windows, Total, None;
    /// Windows with slots before a served one that no poller claimed, because their ticks were lost or came too late. While the stack sleeps, none is missed.
    WindowsMissed, "windows_missed", Windows, Total, Some("WindowsMissed");
    /// Time from a poller's start to the opening of its window, 0 if it had opened. Divided by `windows` it is what is left of `TIDEGATE_TICK_LEAD_MS`.
    TicksEarly, "ticks_early", Milliseconds, Total, None;
    /// Recipients whose mail the merge queue acknowledged, by campaign.
    Fed, "fed", Recipients, Total, Some("Fed");
    /// Recipients received from the merge queue and dealt with: sent, given up, put back, left or refused. The ledger's sum is less `back`.
    Taken, "taken", Recipients, Total, None;
    /// Recipients received from the merge queue for the second time or more: left or refused before, or their poller crashed.
    Back, "back", Recipients, None, None;
    /// Recipients of mails that SES accepted, by campaign.
    Sent, "sent", Recipients, TotalAndByCampaign, Some("Sent");
    /// Time from a mail's arrival on its queue to SES's acceptance, by campaign. Divided by `sent` it is the mean wait.
    Waited, "waited", RecipientSeconds, ByCampaign, None;
    /// Express mails by the time from their queue to SES's acceptance, by the upper bound in milliseconds (`more`: above a minute).
    ExpressWaits, "express_waits", Mails, ByCampaign, None;
    /// Recipients that SES accepted of campaign mail that was never put back and crossed no limit queue.
    First, "first", Recipients, Total, None;
    /// Time that the mail in `first` had waited since it was put on its queue.
    FirstWaited, "first_waited", RecipientSeconds, Total, None;
    /// Mails that SES accepted, express included.
    Mails, "mails", Mails, Total, None;
    /// Mails that SES refused for the rate, by campaign.
    Refused, "refused", Mails, TotalAndByCampaign, Some("Refused");
    /// Mails whose send failed, by outcome: `transient`, `permanent`, `ambiguous` and the reasons for holds.
    Failed, "failed", Mails, Total, Some("Failed");
    /// Mails that SES may have accepted: the request was written, and no answer came. They count in `failed` too.
    PossiblySent, "possibly_sent", Mails, Total, Some("PossiblySent");
    /// Mails put back to their campaign for another attempt.
    Retried, "retried", Mails, Total, None;
    /// Mails put back to their campaign's queue because it is held.
    PutBack, "put_back", Mails, Total, None;
    /// Mails that an operator's cancel took out, by campaign. Those that it keeps count in `dead`, too.
    Cancelled, "cancelled", Mails, TotalAndByCampaign, None;
    /// Mails to recipients on the exclusion list, deleted instead of sent, by campaign.
    Excluded, "excluded", Mails, TotalAndByCampaign, None;
    /// Messages sent to the dead-letter queue, by campaign: invalid, refused for good, out of attempts, or `unknown`.
    Dead, "dead", Mails, TotalAndByCampaign, Some("DeadLettered");
    /// Mails received and not sent, left to their visibility timeout or released; without express mail that came too late for a window and was handed to the next one's poller.
    Left, "left", Mails, Total, None;
    /// Sends called off right before the request was written, too late for their slot: a later slot took them.
    Late, "late", Mails, Total, None;
    /// Slots that passed unused although mail waited: it was too late to start at them.
    Skipped, "skipped", Slots, Total, Some("SlotsSkipped");
    /// Slots that passed unused because no fitting mail waited.
    Unused, "unused", Slots, Total, Some("SlotsUnused");
    /// Calls to SQS, through all queues together.
    SqsCalls, "sqs_calls", Calls, Total, Some("SqsCalls");
    /// Receives of messages that had been received more than 100 times already: something keeps them from being sent.
    ReceivedOften, "received_often", Mails, Total, None;
    /// Receives of messages that had been on their queue for more than 10 days. SQS deletes them after 14.
    Old, "old", Mails, Total, None;
    /// Deletes that failed at the last try: these messages become visible again and may be sent twice.
    DeleteFailed, "delete_failed", Mails, None, None;
    /// Moves to another queue that failed: these messages stay on their queues and become visible again.
    MoveFailed, "move_failed", Mails, None, None;
    /// Copies deleted because deduplication knew that the mail had been sent.
    AlreadySent, "already_sent", Mails, Total, None;
    /// Mails dead-lettered as `unknown`, also counted in `dead`: a poller began to send them and did not note the outcome.
    Parked, "parked", Mails, Total, None;
    /// Mails moved from their queues to the store, by campaign: of low priority, or left at a limit's end.
    Deferred, "deferred", Mails, Total, Some("Deferred");
    /// Mails moved from their queues to the store until their `not_before`, by campaign.
    Timed, "timed", Mails, Total, Some("Timed");
    /// Rows of lists that were uploaded to the store: the scheduler makes their mails.
    Uploaded, "uploaded", Mails, Total, None;
    /// Mails that should have been moved to the store and could not be written: they stay on their queues.
    StoreFailed, "store_failed", Mails, Total, Some("StoreFailed");
    /// Recipients moved into limit queues, by limit: the group's first domain, or `others`.
    LimitFed, "limit_fed", Recipients, None, Some("LimitMoved");
    /// Mails received from limit queues that got no slot.
    LimitLeft, "limit_left", Mails, None, Some("LimitWaiting");
    /// Recipients of mails that came for a limit without a queue of its own and were too many: they stay away until it may have a slot.
    LimitedAgain, "limited_again", Recipients, Total, None;
    /// Sends that the shared bucket refused: a later slot took them.
    BucketRefused, "bucket_refused", Mails, Total, Some("BucketRefused");
    /// Sends for which the shared bucket did not answer, or had failed a moment before: a later slot took them, or with `TIDEGATE_SHARED_BUCKET_LOST=open` they were made.
    BucketLost, "bucket_lost", Mails, Total, Some("BucketLost");
}

impl Counter {
    /// The name in reports and in the ledger.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The ledger's name of this counter's sum for `campaign`.
    pub fn of_campaign(self, campaign: &str) -> String {
        format!("{}.{campaign}", self.name())
    }

    /// This counter's sum among the ledger's; 0 if it was never reported, negative for a moment if reports
    /// come out of order.
    pub fn sum(self, sums: &BTreeMap<String, i64>) -> i64 {
        sums.get(self.name()).copied().unwrap_or(0)
    }

    /// This counter's sum for `campaign` among the ledger's.
    pub fn sum_of(self, campaign: &str, sums: &BTreeMap<String, i64>) -> i64 {
        sums.get(&self.of_campaign(campaign)).copied().unwrap_or(0)
    }
}

/// A sum to show: 0 if it is negative.
pub fn at_least_0(sum: i64) -> u64 {
    u64::try_from(sum).unwrap_or(0)
}

/// The counts of one window.
///
/// ```
/// use tidegate_core::counters::{Counter, WindowCounts};
/// let mut counts = WindowCounts::default();
/// counts.add(Counter::Left, 2);
/// counts.add_for(Counter::Sent, "spring", 30);
/// counts.add_for(Counter::Sent, "autumn", 5);
/// assert_eq!((counts.of(Counter::Sent), counts.by(Counter::Sent)["spring"]), (35, 30));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    totals: BTreeMap<Counter, u64>,
    parts: BTreeMap<Counter, BTreeMap<String, u64>>,
}

static NO_PARTS: BTreeMap<String, u64> = BTreeMap::new();

impl WindowCounts {
    /// Adds to a counter.
    pub fn add(&mut self, counter: Counter, count: u64) {
        if count > 0 {
            *self.totals.entry(counter).or_insert(0) += count;
        }
    }

    /// Adds to a counter's total and to its part for `key`: a campaign, an outcome or a limit.
    pub fn add_for(&mut self, counter: Counter, key: &str, count: u64) {
        if count == 0 {
            return;
        }
        self.add(counter, count);
        let parts = self.parts.entry(counter).or_default();
        match parts.get_mut(key) {
            Some(part) => *part += count,
            None => drop(parts.insert(key.to_owned(), count)),
        }
    }

    /// The total of a counter.
    pub fn of(&self, counter: Counter) -> u64 {
        self.totals.get(&counter).copied().unwrap_or(0)
    }

    /// The parts of a counter that are not 0, by campaign, outcome or limit; empty for a counter without
    /// parts.
    pub fn by(&self, counter: Counter) -> &BTreeMap<String, u64> {
        self.parts.get(&counter).unwrap_or(&NO_PARTS)
    }

    /// The amounts to add to the ledger's sums, by their names; zeros are left out.
    pub fn to_ledger(&self) -> BTreeMap<String, i64> {
        let mut sums = BTreeMap::new();
        for counter in Counter::ALL {
            let ledger = counter.entry().ledger;
            if matches!(ledger, LedgerSums::Total | LedgerSums::TotalAndByCampaign) {
                sums.insert(counter.name().to_owned(), signed(self.of(*counter)));
            }
            if matches!(ledger, LedgerSums::ByCampaign | LedgerSums::TotalAndByCampaign) {
                let parts = self.by(*counter).iter();
                sums.extend(parts.map(|(campaign, n)| (counter.of_campaign(campaign), signed(*n))));
            }
        }
        // Mail that is received again was counted as taken when it was left.
        let back = signed(self.of(Counter::Back));
        sums.entry(Counter::Taken.name().to_owned()).and_modify(|taken| *taken -= back);
        sums.retain(|_, sum| *sum != 0);
        sums
    }
}

/// As a map: a number for each counter, or a map of its parts for one that has parts. Zeros are included
/// for counters without parts.
impl Serialize for WindowCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Counter::ALL.len()))?;
        for counter in Counter::ALL {
            match self.parts.get(counter) {
                Some(parts) => map.serialize_entry(counter.name(), parts)?,
                None => map.serialize_entry(counter.name(), &self.of(*counter))?,
            }
        }
        map.end()
    }
}

/// The ledger's name of a campaign's debt, in thousandths of a recipient; negative sums are credits.
pub fn debt_of(campaign: &str) -> String {
    format!("debt.{campaign}")
}

/// A count as the ledger adds it; counts above `i64::MAX` become `i64::MAX`.
pub fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_counters_share_a_name_or_a_metric() {
        let names: BTreeSet<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        let metrics: Vec<_> =
            Counter::ALL.iter().filter_map(|counter| counter.entry().metric).collect();
        assert_eq!(metrics.iter().collect::<BTreeSet<_>>().len(), metrics.len());
    }

    #[test]
    fn the_ledger_adds_totals_and_campaigns_and_no_zeros() {
        let mut counts = WindowCounts::default();
        counts.add_for(Counter::Sent, "spring", 3);
        counts.add_for(Counter::Waited, "spring", 12);
        counts.add_for(Counter::Failed, "transient", 1);
        counts.add(Counter::Taken, 2);
        counts.add(Counter::Back, 5);
        counts.add(Counter::MoveFailed, 1);
        let expected =
            [("failed", 1), ("sent", 3), ("sent.spring", 3), ("taken", -3), ("waited.spring", 12)];
        let expected = expected.map(|(name, sum)| (name.to_owned(), sum));
        assert_eq!(counts.to_ledger(), BTreeMap::from(expected));
    }
}
