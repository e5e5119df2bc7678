//! Sorts a batch's answer into the order of its entries.

use aws_sdk_sqs::types::BatchResultErrorEntry;
use tidegate_delivery::ports::{Entry, EntryError};

/// The answers to a batch whose entries use their index as id: success for those in `done`, SQS's error for
/// those in `failed`. An entry that SQS mentions in neither counts as failed.
pub(super) fn in_order<'a>(
    entries: usize,
    done: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
) -> Vec<Entry> {
    let unanswered = || EntryError {
        code: "Unanswered".to_owned(),
        message: "the answer does not name this entry".to_owned(),
    };
    let mut answer: Vec<Entry> = (0..entries).map(|_| Err(unanswered())).collect();
    let mut set = |id: &str, entry: Entry| {
        if let Some(slot) = id.parse().ok().and_then(|index: usize| answer.get_mut(index)) {
            *slot = entry;
        }
    };
    for id in done {
        set(id, Ok(()));
    }
    for refused in failed {
        let message = refused.message().unwrap_or_default().to_owned();
        set(refused.id(), Err(EntryError { code: refused.code().to_owned(), message }));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_the_order_of_the_entries_whatever_order_they_came_in() {
        let refused = BatchResultErrorEntry::builder()
            .id("1")
            .code("InvalidMessageContents")
            .message("bad")
            .sender_fault(true)
            .build()
            .unwrap();
        let answer = in_order(4, ["3", "0", "9", "x"].into_iter(), &[refused]);
        let codes: Vec<_> =
            answer.iter().map(|e| e.as_ref().map_err(|e| e.code.as_str())).collect();
        let expected = [Ok(&()), Err("InvalidMessageContents"), Err("Unanswered"), Ok(&())];
        assert_eq!(codes, expected);
    }
}
