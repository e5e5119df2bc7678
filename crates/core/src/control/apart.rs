//! How the control record is stored: what is small in the item that each claim reads and rewrites, what is
//! not in items of its own, named by a reference.
//!
//! Weights and holds of a thousand campaigns, their list, and the counts of bounces grow with the campaigns.
//! A poller remembers what it has read by the reference, so that it is read again only after a change.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Control;

/// How many bytes of members stand in the claim's item: the shortest first, as many as fit.
const INLINE: usize = 400;
/// What the name of a reference begins with.
const REFERENCE: char = '@';
/// The longest text of a member of all: of 1,000 campaigns with long names, each held with a long reason.
pub const LONGEST: usize = 1_000_000;
/// Bytes of one page: an item has at most 400 KB.
const PAGE: usize = 300_000;

/// The member that a claim leaves out: pollers go by the holds that follow from it, and it changes with
/// every bounce.
pub const NOT_FOR_POLLERS: &str = "reputation";

/// Where a member stands: the record's version that it was written with, and in how many pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The version of the record that wrote it.
    pub version: u64,
    /// How many items it fills.
    pub pages: usize,
}

/// The control record as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredControl {
    /// Small members, and references to the others.
    pub inline: Map<String, Value>,
    /// The texts of those that stand in items of their own.
    pub apart: BTreeMap<String, (Reference, String)>,
}

impl StoredControl {
    /// How `control` is stored as `version`. A member that `stands` with the same text stays where it is.
    ///
    /// # Errors
    /// The error of `serde_json`, which this type does not cause.
    pub fn of(
        control: &Control,
        version: u64,
        stands: &BTreeMap<String, (Reference, String)>,
    ) -> Result<Self, serde_json::Error> {
        let mut stored = Self::default();
        let Value::Object(members) = serde_json::to_value(control)? else { return Ok(stored) };
        let mut members: Vec<(String, Value, String)> = members
            .into_iter()
            .map(|(name, value)| serde_json::to_string(&value).map(|text| (name, value, text)))
            .collect::<Result<_, serde_json::Error>>()?;
        members.sort_by_key(|(_, _, text)| text.len());
        let mut used = 0;
        for (name, value, text) in members {
            used += name.len() + text.len();
            if used <= INLINE || name.starts_with(REFERENCE) {
                stored.inline.insert(name, value);
                continue;
            }
            let before = stands.get(&name).filter(|(_, before)| *before == text);
            let reference = Reference { version, pages: pages(&text).len() };
            let reference = before.map_or(reference, |(reference, _)| *reference);
            stored.inline.insert(format!("{REFERENCE}{name}"), serde_json::to_value(reference)?);
            stored.apart.insert(name, (reference, text));
        }
        Ok(stored)
    }

    /// The record, of members that are all known; those that are not stay references, and are kept as
    /// members that this version does not know.
    ///
    /// # Errors
    /// The error of `serde_json` where a member is none.
    pub fn control(&self) -> Result<Control, serde_json::Error> {
        let mut members = self.inline.clone();
        for (name, (_, text)) in &self.apart {
            members.remove(&format!("{REFERENCE}{name}"));
            members.insert(name.clone(), serde_json::from_str(text)?);
        }
        serde_json::from_value(Value::Object(members))
    }

    /// How long its inline members are as a text.
    pub fn inline_bytes(&self) -> usize {
        serde_json::to_string(&self.inline).map_or(0, |text| text.len())
    }

    /// The references in it.
    pub fn references(&self) -> impl Iterator<Item = (&str, Reference)> {
        self.inline.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix(REFERENCE)?;
            Some((name, Reference::deserialize(value).ok()?))
        })
    }
}

/// A member's text, cut into pages between characters.
pub fn pages(text: &str) -> Vec<&str> {
    let (mut pages, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (page, after) = rest.split_at(rest.floor_char_boundary(PAGE));
        pages.push(page);
        rest = after;
    }
    pages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::{Hold, HoldReason};
    use crate::identity::EpochMillis;

    fn held(campaigns: usize) -> Control {
        let mut control = Control::default();
        for number in 0..campaigns {
            let (name, hold) =
                (format!("c{number:0>63}"), Hold::new(&"é".repeat(256), EpochMillis::new(0)));
            control.weights.insert(name.clone(), 7);
            control.hold(Some(&name), HoldReason::Paused, hold);
        }
        control
    }

    #[test]
    fn what_is_small_stands_inline_and_the_rest_is_named_by_a_reference() {
        let control = held(1_000);
        let stored = StoredControl::of(&control, 9, &BTreeMap::new()).unwrap();
        assert!(serde_json::to_string(&stored.inline).unwrap().len() < 200, "{:?}", stored.inline);
        assert_eq!(stored.apart.keys().collect::<Vec<_>>(), ["campaign_holds", "weights"]);
        assert!(stored.apart.values().all(|(_, text)| text.len() <= LONGEST));
        assert_eq!(stored.control().unwrap(), control);
        let small = Control { weights: [("big".to_owned(), 80)].into(), ..Control::default() };
        let stored = StoredControl::of(&small, 9, &BTreeMap::new()).unwrap();
        assert_eq!((stored.apart.len(), stored.control().unwrap()), (0, small));
    }

    #[test]
    fn what_did_not_change_stays_where_it_is() {
        let before = StoredControl::of(&held(50), 9, &BTreeMap::new()).unwrap();
        let mut control = held(50);
        control.weights.insert("big".to_owned(), 1);
        let after = StoredControl::of(&control, 10, &before.apart).unwrap();
        let versions: Vec<_> = after.references().map(|(name, at)| (name, at.version)).collect();
        assert_eq!(versions, [("campaign_holds", 9), ("weights", 10)]);
    }

    /// A poller does not read the counts of bounces, and must not lose them.
    #[test]
    fn a_member_that_was_not_read_is_kept_through_a_change() {
        let mut stored = StoredControl::of(&held(50), 9, &BTreeMap::new()).unwrap();
        stored.apart.remove("campaign_holds");
        let mut read = stored.control().unwrap();
        assert!(read.campaign_holds.is_empty() && read.weights.len() == 50);
        read.weights.clear();
        let written = StoredControl::of(&read, 10, &stored.apart).unwrap();
        let expected = ("campaign_holds", Reference { version: 9, pages: 1 });
        assert_eq!(written.references().collect::<Vec<_>>(), [expected]);
    }

    proptest! {
        #[test]
        fn pages_are_the_text_and_none_is_too_large(text in "[aé🙂]{0,40}", times in 0_usize..9_000) {
            let text = text.repeat(times);
            let pages = pages(&text);
            prop_assert_eq!(&pages.concat(), &text);
            prop_assert!(pages.iter().all(|page| (1..=PAGE).contains(&page.len())));
        }
    }
}
