use std::collections::BTreeMap;
use std::future::Future;

use serde::Serialize;
use tidegate_core::format::count;
use tidegate_core::runs::RowRanges;
use tidegate_delivery::ports::{Clock, History, Marks, Queues, Runs};

use super::letter::{Letter, LetterFilter};
use super::list::{Grouping, LetterGroups, groups};
use super::read::LetterSnapshot;
use super::replay::{LetterPorts, LetterProgress, LetterWork, ReplayPace, carry_out};
use super::report::{LetterAction, LetterError, LetterReport};
use crate::page::{Page, Tone, View};
use crate::redact::AddressVisibility;
use crate::send::{RunKey, cancelled_rows, record_returned};
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
    /// The rows of cancelled mails among them: what the ledger is told before the letters go.
    #[serde(skip)]
    returned: BTreeMap<RunKey, RowRanges>,
}

impl DiscardReview {
    /// The letters of `reading` that `filter` admits, whether Tidegate wrote them or not.
    pub fn of(
        reading: &LetterSnapshot,
        filter: &LetterFilter,
        addresses: AddressVisibility,
    ) -> Self {
        Self {
            filter: filter.to_string(),
            groups: groups(reading, filter, Grouping::Reason, addresses),
            ids: reading.admitted(filter).map(|letter| letter.message_id.clone()).collect(),
            returned: cancelled_rows(reading.admitted(filter)),
        }
    }

    /// The letters of cancelled mails of these runs alone.
    pub fn of_runs(
        reading: &LetterSnapshot,
        filter: &LetterFilter,
        addresses: AddressVisibility,
        is_one: impl Fn(&RunKey) -> bool,
    ) -> Self {
        let own = |letter: &&Letter| cancelled_rows([*letter]).keys().any(&is_one);
        let letters = reading.letters.iter().filter(own).cloned().collect();
        Self::of(&LetterSnapshot { letters, ..reading.clone() }, filter, addresses)
    }

    /// How many letters would be deleted.
    pub fn letters(&self) -> u64 {
        self.ids.len() as u64
    }
}

/// Deletes exactly the letters of the review for good; letters that arrived later are left alone. The
/// history says who did it, and why. Of cancelled mails the ledger is told first which rows of which run were taken back,
/// so that `tidegate send --rest-of` finds their recipients.
///
/// # Errors
/// As those of [`replay`](super::replay()).
pub async fn discard(
    site: &LetterPorts<'_, impl Queues, impl Marks + History + Runs, impl Clock>,
    review: &DiscardReview,
    author: &Author,
    stop: impl Future<Output = ()>,
    progress: impl FnMut(LetterProgress),
) -> Result<LetterReport, LetterError> {
    record_returned(site.ledger, &review.returned).await.map_err(LetterError::NotReturned)?;
    let work = LetterWork {
        action: LetterAction::Discard,
        filter: review.filter.clone(),
        deletions: review.ids.clone(),
        ..LetterWork::default()
    };
    carry_out(site, work, author, PACE, stop, progress).await
}

impl View for DiscardReview {
    fn view(&self, page: &mut Page) {
        self.groups.view(page);
        let all = count(self.letters());
        page.line(Tone::Strong, format!("{all} would be deleted for good ({})", self.filter));
    }
}
