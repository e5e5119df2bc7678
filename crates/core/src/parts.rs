//! Parts: what the ledger keeps by campaign (sums, debts, queues found empty) stands in up to 16 items
//! of its own, so that no item grows with the number of campaigns and a claim pays for none of them.
//!
//! Part 0 is always there: it holds the totals, and in a stack of up to 64 campaigns everything else. A
//! campaign's place is a hash of its name, so nobody has to look it up. When the number of parts grows,
//! nothing is moved: a campaign's sum is what all parts hold of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::EXPRESS;
use crate::timestamp::Window;

/// The most parts there are.
pub const MOST_PARTS: u32 = 16;
/// Campaigns of one part.
const CAMPAIGNS: usize = 64;
/// How long a campaign's sums stay after it has left the list: as long as bounces are set against what it
/// was sent (two periods of 48 hours). Until then every window that writes to their part pays for them.
const LEFT_KEPT: Duration = Duration::from_hours(96);
/// How long a part stays after the last write to it: longer than from one monthly newsletter to the next.
pub const KEPT: Duration = Duration::from_hours(40 * 24);
/// Campaigns that one report marks, and that one report forgets, at most: an update has 300 operators.
const AT_ONCE: usize = 25;
/// What the names of campaigns' counters begin with.
const KINDS: [&str; 3] = ["sent.", "waited.", "debt."];

/// The names of the counters that are kept of `campaign`.
pub fn counters_of(campaign: &str) -> impl Iterator<Item = String> {
    KINDS.into_iter().map(move |kind| format!("{kind}{campaign}"))
}

/// The campaign that a counter is kept of; none where it is a total.
pub fn campaign_of(counter: &str) -> Option<&str> {
    KINDS.into_iter().find_map(|kind| counter.strip_prefix(kind))
}

/// How many parts so many campaigns need: a power of two, 1 to 16.
pub fn parts_for(campaigns: usize) -> u32 {
    let parts = u32::try_from(campaigns.div_ceil(CAMPAIGNS)).unwrap_or(MOST_PARTS);
    parts.clamp(1, MOST_PARTS).next_power_of_two()
}

/// The part in which what is kept of `campaign` stands, where there are `parts` parts.
pub fn part_of(campaign: &str, parts: u32) -> u32 {
    fnv1a(campaign) % parts.max(1)
}

/// FNV-1a, for names and ids that nobody chooses in order to collide.
pub(crate) fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// What a report does with the parts beside adding to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// How many parts there are; 0 where whoever reports does not know.
    pub parts: u32,
    /// Campaigns that have left the list: noted with the report's window.
    pub left: Vec<String>,
    /// Campaigns that are back on it.
    pub back: Vec<String>,
    /// Campaigns that left it longer than four days ago: what is kept of them is dropped.
    pub past: Vec<String>,
}

impl Upkeep {
    /// What is to be done in `window`, where the parts hold something of the campaigns `known`, those in
    /// `left` were noted as gone from the list before, and `listed` are on it.
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
        // The last parts may have expired: what is left of sixteen still needs its places among sixteen.
        let stand = parts.clamp(1, MOST_PARTS).next_power_of_two();
        let parts = parts_for(listed.len().max(known.len())).max(stand);
        if listed.is_empty() {
            // A list that cannot be read says nothing about who has left it.
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

    /// The same, leaving alone what else the report adds to.
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
        // What this very report adds to is not dropped by it.
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
