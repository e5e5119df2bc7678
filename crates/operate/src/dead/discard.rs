use std::future::Future;

use serde::Serialize;
use tidegate_delivery::ports::{Clock, History, Marks, Queues};

use super::filter::LetterFilter;
use super::letter_report::{LetterAction, LetterError, LetterReport};
use super::read::LetterSnapshot;
use super::replay::{LetterPorts, LetterProgress, LetterWork, ReplayPace, carry_out};
use super::report::{Grouping, LetterGroups, groups};
use crate::redact::AddressVisibility;
use crate::steer::Author;

/// Nothing is sent, so the pace bounds only how many letters are received at once: ten.
const PACE: ReplayPace = ReplayPace { per_second: 1_000.0, backlog: u64::MAX };

/// The letters that a discard would delete.
#[derive(Clone, Debug, Serialize)]
pub struct DiscardReview {
    /// Which letters were asked for, in words.
    pub filter: String,
    /// The letters by reason.
    #[serde(flatten)]
    pub groups: LetterGroups,
    /// SQS's message ids.
    #[serde(skip)]
    ids: Vec<String>,
}

impl DiscardReview {
    /// The letters of `reading` that `filter` admits, whether Tidegate wrote them or not.
    pub fn of(
        reading: &LetterSnapshot,
        filter: &LetterFilter,
        addresses: AddressVisibility,
    ) -> Self {
        let admitted = reading.letters.iter().filter(|letter| filter.admits(letter));
        Self {
            filter: filter.to_string(),
            groups: groups(reading, filter, Grouping::Reason, addresses),
            ids: admitted.map(|letter| letter.message_id.clone()).collect(),
        }
    }

    /// How many letters would be deleted.
    pub fn letters(&self) -> u64 {
        self.ids.len() as u64
    }
}

/// Deletes exactly the letters of the review for good; letters that arrived later are left alone. The
/// history says who did it, and why.
///
/// # Errors
/// As those of [`replay`](super::replay()).
pub async fn discard(
    site: &LetterPorts<'_, impl Queues, impl Marks + History, impl Clock>,
    review: &DiscardReview,
    author: &Author,
    stop: impl Future<Output = ()>,
    progress: impl FnMut(LetterProgress),
) -> Result<LetterReport, LetterError> {
    let work = LetterWork {
        action: LetterAction::Discard,
        filter: review.filter.clone(),
        deletions: review.ids.clone(),
        ..LetterWork::default()
    };
    carry_out(site, work, author, PACE, stop, progress).await
}
