use std::collections::BTreeMap;

/// A set of row numbers as ranges, so that its size depends on the gaps and not on the rows.
///
/// ```
/// use tidegate_operate::send::RowRanges;
/// let mut rows = RowRanges::default();
/// rows.insert(1, 10);
/// rows.insert(21, 30);
/// rows.insert(11, 20);
/// assert_eq!((rows.count(), rows.contains(30), rows.contains(31)), (30, true, false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowRanges {
    /// First to last row of each range. Ranges neither overlap nor touch.
    stretches: BTreeMap<u64, u64>,
}

impl RowRanges {
    /// Adds the rows from `first` to `last`.
    pub fn insert(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last.max(first));
        // Those that begin at most one after this one's end; from behind, until one ends before it.
        while let Some((&from, &to)) = self.stretches.range(..=last.saturating_add(1)).next_back() {
            if to.saturating_add(1) < first {
                break;
            }
            self.stretches.remove(&from);
            first = first.min(from);
            last = last.max(to);
        }
        self.stretches.insert(first, last);
    }

    pub fn contains(&self, row: u64) -> bool {
        self.stretches.range(..=row).next_back().is_some_and(|(_, last)| *last >= row)
    }

    /// How many rows are in it.
    pub fn count(&self) -> u64 {
        self.stretches.iter().map(|(first, last)| last - first + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_what_was_put_in(
            stretches in proptest::collection::vec((0_u64..60, 0_u64..8), 0..20)
        ) {
            let mut ranges = RowRanges::default();
            let mut set = BTreeSet::new();
            for (first, more) in stretches {
                ranges.insert(first, first + more);
                set.extend(first..=first + more);
            }
            prop_assert_eq!(ranges.count(), set.len() as u64);
            prop_assert!((0..80).all(|row| ranges.contains(row) == set.contains(&row)));
            let ends: Vec<_> = ranges.stretches.iter().collect();
            prop_assert!(ends.windows(2).all(|pair| *pair[0].1 + 1 < *pair[1].0));
        }
    }
}
