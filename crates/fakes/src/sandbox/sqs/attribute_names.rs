//! Attribute names that live as long as the program, as the `Queues` port wants them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The most that are kept: more names than any program has.
const MOST: usize = 1_000;

/// Interned names.
#[derive(Debug, Default)]
pub(crate) struct AttributeNames(Mutex<HashSet<&'static str>>);

impl AttributeNames {
    /// `name` for ever; none where too many different ones came.
    pub(crate) fn keep(&self, name: &str) -> Option<&'static str> {
        let mut attribute_names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = attribute_names.get(name) {
            return Some(known);
        }
        let room = attribute_names.len() < MOST;
        room.then(|| {
            let kept: &'static str = Box::leak(name.into());
            attribute_names.insert(kept);
            kept
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_endless_new_ones_are_refused() {
        let attribute_names = AttributeNames::default();
        let first = attribute_names.keep("campaign").unwrap();
        assert!(std::ptr::eq(first, attribute_names.keep(&String::from("campaign")).unwrap()));
        let kept = (0..2 * MOST).filter(|n| attribute_names.keep(&n.to_string()).is_some()).count();
        assert_eq!((kept, attribute_names.keep("campaign")), (MOST - 1, Some("campaign")));
    }
}
