//! Parts: the ledger keeps values per campaign (sums, debts, empty queues) in up to 16 items of their
//! own. The claim's item therefore does not grow with the number of campaigns, and a claim does not pay
//! for reading and writing these values.
//!
//! Part 0 always exists. It holds the totals and, with up to 64 campaigns, everything else. A hash of
//! the campaign's name gives its part, so no table is needed. If the number of parts grows, nothing is
//! moved: a campaign's sum is the sum over all parts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::EXPRESS;
use crate::timestamp::Window;

/// Largest number of parts in a ledger.
pub const MOST_PARTS: u32 = 16;
/// Campaigns per part when the number of parts is chosen.
const CAMPAIGNS: usize = 64;
/// Time for which sums are kept after their campaign left the list: bounces are compared with what was
/// sent in two periods of 48 h. Until then every window that writes the part pays for these bytes.
const LEFT_KEPT: Duration = Duration::from_hours(96);
/// Time after its last write at which a part expires: longer than a month, for monthly newsletters.
pub const KEPT: Duration = Duration::from_hours(40 * 24);
/// Most campaigns that one report marks as gone, and most that it deletes: a DynamoDB update expression
/// has at most 300 operators.
const AT_ONCE: usize = 25;
/// Prefixes of the counters that are kept per campaign.
const KINDS: [&str; 7] =
    ["sent.", "waited.", "debt.", "refused.", "dead.", "cancelled.", "excluded."];

/// The names of the counters that are kept for `campaign`: `sent.NAME`, `waited.NAME`, `debt.NAME`, and four that
/// most campaigns do not have.
pub fn counters_of(campaign: &str) -> impl Iterator<Item = String> {
    KINDS.into_iter().map(move |kind| format!("{kind}{campaign}"))
}

/// The campaign that a counter belongs to; none if it is a total.
pub fn campaign_of(counter: &str) -> Option<&str> {
    KINDS.into_iter().find_map(|kind| counter.strip_prefix(kind))
}

/// Number of parts for this many campaigns: a power of two, 1 to 16. 64 campaigns need 1 part, 65 need
/// 2, 300 need 8.
pub fn parts_for(campaigns: usize) -> u32 {
    let parts = u32::try_from(campaigns.div_ceil(CAMPAIGNS)).unwrap_or(MOST_PARTS);
    parts.clamp(1, MOST_PARTS).next_power_of_two()
}

/// The part (from 0) for the values of `campaign` if there are `parts` parts.
pub fn part_of(campaign: &str, parts: u32) -> u32 {
    fnv1a(campaign) % parts.max(1)
}

/// The hash FNV-1a with 32 bits. It is not cryptographic: nobody gains from choosing names that
/// collide.
pub(crate) fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Changes that a report makes to the parts, beside adding its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Number of parts; 0 if the poller that reports does not know it.
    pub parts: u32,
    /// Campaigns that have left the list since the last report. The report's window is noted for them.
    pub left: Vec<String>,
    /// Campaigns that had left the list and are back; their notes are deleted.
    pub back: Vec<String>,
    /// Campaigns that left the list at least four days ago; their values are deleted.
    pub past: Vec<String>,
}

impl Upkeep {
    /// Determines the changes in `window`. The parts hold values for the campaigns `known`; those in
    /// `left` were noted as gone in the given windows; `listed` are on the list; `parts` parts exist.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use tidegate_core::{Window, parts::Upkeep};
    /// let (at, day) = (Window::from_epoch_second, 86_400);
    /// let upkeep = |left, window| Upkeep::of(["fall", "spring"], &left, ["spring"], 1, window);
    /// assert_eq!(upkeep(BTreeMap::new(), at(day)).left, ["fall"]);
    /// let left = BTreeMap::from([("fall".to_owned(), at(day))]);
    /// assert!(upkeep(left.clone(), at(5 * day - 1)).past.is_empty());
    /// assert_eq!(upkeep(left, at(5 * day)).past, ["fall"]);
    /// ```
    pub fn of<'a>(
        known: impl IntoIterator<Item = &'a str>,
        left: &BTreeMap<String, Window>,
        listed: impl IntoIterator<Item = &'a str>,
        parts: u32,
        window: Window,
    ) -> Self {
        let listed: BTreeSet<&str> = listed.into_iter().collect();
        let known: BTreeSet<&str> = known.into_iter().collect();
        // Some parts may have expired. Names were placed by a number of parts that is a power of two, so
        // the number of those left is rounded up to one.
        let stand = parts.clamp(1, MOST_PARTS).next_power_of_two();
        let parts = parts_for(listed.len().max(known.len())).max(stand);
        if listed.is_empty() {
            // An empty list could not be read, so it does not show which campaigns have left.
            return Self { parts, ..Self::default() };
        }
        let is_listed = |name: &str| listed.contains(name) || name == EXPRESS;
        let gone = known.into_iter().filter(|name| !is_listed(name) && !left.contains_key(*name));
        let since = |at: &Window| Duration::from_secs(window.saturating_since(*at));
        let (back, away): (Vec<_>, Vec<_>) = left.iter().partition(|(name, _)| is_listed(name));
        let past = away.into_iter().filter(|(_, at)| since(at) >= LEFT_KEPT);
        let some = |names: Vec<&str>| names.into_iter().take(AT_ONCE).map(str::to_owned).collect();
        Self {
            parts,
            left: some(gone.collect()),
            back: some(back.into_iter().map(|(name, _)| name.as_str()).collect()),
            past: some(past.map(|(name, _)| name.as_str()).collect()),
        }
    }

    /// The same changes, without deleting campaigns to which this report adds `counters`.
    pub fn beside(mut self, counters: &BTreeMap<String, i64>) -> Self {
        let touched = |name: &str| counters_of(name).any(|counter| counters.contains_key(&counter));
        self.past.retain(|name| !touched(name));
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_stack_has_one_part_and_the_largest_sixteen() {
        let parts = [0, 1, 2, 64, 65, 128, 300, 513, 1_000, 100_000].map(parts_for);
        assert_eq!(parts, [1, 1, 1, 1, 2, 2, 8, 16, 16, 16]);
    }

    #[test]
    fn express_mail_and_those_on_the_list_are_never_past() {
        let at = Window::from_epoch_second;
        let left = [("spring", 0), ("fall", 0), ("summer", 4_000_000)];
        let left = left.map(|(name, second)| (name.to_owned(), at(second))).into();
        let known = ["express", "spring", "fall", "summer", "winter"];
        let upkeep = Upkeep::of(known, &left, ["spring"], 4, at(4_000_000));
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
        let expected = Upkeep {
            parts: 4,
            left: names(&["winter"]),
            back: names(&["spring"]),
            past: names(&["fall"]),
        };
        assert_eq!(upkeep, expected);
        // The report adds to this campaign's counter, so must not delete it.
        let counters = BTreeMap::from([("waited.fall".to_owned(), 3)]);
        assert!(upkeep.beside(&counters).past.is_empty());
    }

    #[test]
    fn parts_that_stand_are_counted_in_powers_of_two_so_that_places_stay() {
        let of =
            |parts| Upkeep::of([], &BTreeMap::new(), ["spring"], parts, Window::default()).parts;
        assert_eq!([0, 1, 2, 3, 9, 14, 16].map(of), [1, 1, 2, 4, 16, 16, 16]);
    }

    #[test]
    fn a_list_that_cannot_be_read_makes_no_campaign_past() {
        let left = BTreeMap::from([("fall".to_owned(), Window::default())]);
        let now = Window::from_epoch_second(1_795_207_000);
        let upkeep = Upkeep::of(["fall", "spring"], &left, [], 2, now);
        assert_eq!(upkeep, Upkeep { parts: 2, ..Upkeep::default() });
    }

    #[test]
    fn each_sum_by_campaign_is_in_the_campaigns_part_and_leaves_with_it() {
        use crate::counters::{Counter, LedgerSums, debt_of};
        let is_by_campaign = |counter: &&Counter| {
            let sums = counter.entry().ledger;
            // These are by upper bounds.
            **counter != Counter::ExpressWaits
                && matches!(sums, LedgerSums::ByCampaign | LedgerSums::TotalAndByCampaign)
        };
        let by_campaign = Counter::ALL.iter().filter(is_by_campaign);
        let names = by_campaign.map(|counter| counter.of_campaign("fall"));
        let names: BTreeSet<String> = names.chain([debt_of("fall")]).collect();
        assert_eq!(names, counters_of("fall").collect());
        assert!(names.iter().all(|name| campaign_of(name) == Some("fall")));
    }

    #[test]
    fn a_thousand_campaigns_spread_evenly() {
        let mut parts = [0_u32; 16];
        for number in 0..1_000 {
            let part = part_of(&format!("newsletter-of-the-customer-{number}"), 16);
            parts[part as usize] += 1;
        }
        assert!(parts.iter().all(|campaigns| (40..=90).contains(campaigns)), "{parts:?}");
    }

    proptest! {
        #[test]
        fn a_part_is_among_the_parts_and_a_report_marks_few(
            names in prop::collection::btree_set("[a-z0-9_-]{1,64}", 0..120),
            campaigns in 0_usize..2_000,
        ) {
            let parts = parts_for(campaigns);
            prop_assert!(names.iter().all(|name| part_of(name, parts) < parts));
            let known = names.iter().map(String::as_str);
            let upkeep = Upkeep::of(known, &BTreeMap::new(), ["spring"], 1, Window::default());
            prop_assert!(upkeep.left.len() <= AT_ONCE);
        }
    }
}
