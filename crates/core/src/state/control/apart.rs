//! How the ledger stores the control record. Small members stay in the item that each claim reads and
//! rewrites. Large members are items of their own, and the claim's item holds references to them.
//!
//! The weights and holds of 1,000 campaigns, their list, and the counts of bounces grow with the number
//! of campaigns. A poller keeps the members that it has read together with their references. It reads a
//! member again only after the reference has changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::Control;

/// Bytes of members in the claim's item. The shortest members go there first, as many as fit.
const INLINE: usize = 320;
/// First character of a reference's name, for example `@weights`.
const REFERENCE: char = '@';
/// Bytes of the longest member: the holds of 1,000 campaigns with long names and long details.
pub const LONGEST: usize = 3_000_000;
/// Bytes of one page. DynamoDB allows 400 KB per item.
const PAGE: usize = 300_000;

/// Name of the member with the version of the record's form. A record without it is of the first.
const FORMAT: &str = "format";
/// The only form that this version reads.
const KNOWN_FORMAT: u64 = 1;

/// The reasons why a stored control record cannot be used.
#[derive(Debug, Error)]
pub enum ControlError {
    /// A newer version wrote it, in a form whose holds this version may not understand.
    #[error(
        "the control record has format {0}, and this version reads format {KNOWN_FORMAT} alone: deploy the \
         version that wrote it, or a newer one"
    )]
    Format(Value),
    /// A member is not valid JSON of its type.
    #[error("the control record has a member of another form")]
    Member(#[from] serde_json::Error),
}

/// The member that a claim does not read. Pollers need only the holds that follow from it, and it
/// changes with every bounce.
pub const NOT_FOR_POLLERS: &str = "reputation";

/// Reference to a member in items of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Version of the control record with which the member was last written.
    pub version: u64,
    /// Number of items (pages) that the member fills.
    pub pages: usize,
}

/// The control record in the form in which the ledger stores it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredControl {
    /// Members in the claim's item: small ones, and references to the others.
    pub inline: Map<String, Value>,
    /// Members in items of their own: by name, the reference and the JSON text.
    pub apart: BTreeMap<String, (Reference, String)>,
}

impl StoredControl {
    /// Divides `control` for storage as `version`. A member whose text is the same in `stands` (the
    /// stored members) keeps its old reference and is not written again.
    ///
    /// # Errors
    /// An error of `serde_json`; no value of this type causes one.
    pub fn of(
        control: &Control,
        version: u64,
        stands: &BTreeMap<String, (Reference, String)>,
    ) -> Result<Self, serde_json::Error> {
        let mut stored = Self::default();
        let Value::Object(members) = serde_json::to_value(control)? else { return Ok(stored) };
        let mut members: Vec<(String, Value, String)> = members
            .into_iter()
            .filter(|(name, value)| !is_empty(value) || control.unknown.contains_key(name))
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

    /// Puts the record together. A reference whose text was not read stays a reference, in
    /// [`Control::unknown`], so a later write keeps it.
    ///
    /// # Errors
    /// [`ControlError`] for a record in the form of a newer version, or with a member of another type.
    pub fn control(&self) -> Result<Control, ControlError> {
        let mut members = self.inline.clone();
        if let Some(format) = members.remove(FORMAT)
            && format != KNOWN_FORMAT
        {
            return Err(ControlError::Format(format));
        }
        for (name, (_, text)) in &self.apart {
            members.remove(&format!("{REFERENCE}{name}"));
            members.insert(name.clone(), serde_json::from_str(text)?);
        }
        Ok(serde_json::from_value(Value::Object(members))?)
    }

    /// Bytes of the members in the claim's item, as JSON text.
    pub fn inline_bytes(&self) -> usize {
        serde_json::to_string(&self.inline).map_or(0, |text| text.len())
    }

    /// The names and references of the members in items of their own.
    pub fn references(&self) -> impl Iterator<Item = (&str, Reference)> {
        self.inline.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix(REFERENCE)?;
            Some((name, Reference::deserialize(value).ok()?))
        })
    }
}

/// Whether a member that this version knows is left out, since reading gives the same without it.
fn is_empty(member: &Value) -> bool {
    match member {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Cuts a member's text into pages of at most 300,000 bytes, between two characters.
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

    /// A poller does not read the counts of bounces; a change that it writes must keep them.
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

    #[test]
    fn a_record_in_the_form_of_a_newer_version_is_refused_and_one_of_the_first_form_is_not() {
        let with = |format: &str| StoredControl {
            inline: serde_json::from_str(&format!(r#"{{"format": {format}, "moon": 1}}"#)).unwrap(),
            ..StoredControl::default()
        };
        assert_eq!(with("1").control().unwrap().unknown["moon"], 1);
        for format in ["2", "0", "1.5", "\"1\"", "null", "[]"] {
            let error = with(format).control().unwrap_err();
            assert!(matches!(&error, ControlError::Format(_)), "{format}: {error}");
        }
        let said = with("2").control().unwrap_err().to_string();
        assert_eq!(
            said,
            "the control record has format 2, and this version reads format 1 alone: deploy the version \
             that wrote it, or a newer one"
        );
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
