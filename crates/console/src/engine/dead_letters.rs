use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::identity::EpochMillis;
use tidegate_core::in_full;
use tidegate_delivery::ports::{Clock as _, PortError};
use tidegate_operator::dead::{
    Grouping, LetterFilter, LetterGroup, LetterSnapshot, LetterSummary, groups, list,
};
use tidegate_operator::redact::AddressVisibility;
use tokio::time::sleep;

use super::stack_ports::LETTERS;
use super::{Engine, PortTypes, to_json};
use crate::event::Telemetry;

/// Number of the newest letters that a page shows.
const SHOWN: usize = 20;
/// If this many letters were read, the limit was reached, and reading again would not show more.
const MANY: u64 = LETTERS as u64;
/// Shortest interval between reads, since reading hides the letters from everybody for a moment.
const EVERY: Duration = Duration::from_secs(15);

/// The dead letters, as a page shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetterView {
    pub read_at: EpochMillis,
    /// Whether every letter on the queue was read.
    pub whole: bool,
    pub read: u64,
    /// Approximate number of letters that were not read, by SQS's count.
    pub unread: u64,
    /// Counts by error code, the largest first.
    pub groups: Vec<LetterGroup>,
    /// The same of each campaign that has letters.
    pub campaigns: BTreeMap<String, Vec<LetterGroup>>,
    pub letters: Vec<LetterSummary>,
}

impl DeadLetterView {
    pub(super) fn of(
        reading: &LetterSnapshot,
        now: EpochMillis,
        addresses: AddressVisibility,
    ) -> Self {
        let all = LetterFilter::default();
        let by_code =
            |filter: &LetterFilter| groups(reading, filter, Grouping::Reason, addresses).groups;
        let of_campaign = |group: LetterGroup| {
            let campaigns = vec![group.key.clone()];
            (group.key, by_code(&LetterFilter { campaigns, ..LetterFilter::default() }))
        };
        let campaigns = groups(reading, &all, Grouping::Campaign, addresses).groups;
        let mut letters = list(reading, &all, now, addresses).letters;
        letters.reverse();
        letters.truncate(SHOWN);
        Self {
            read_at: now,
            whole: reading.coverage.is_whole(),
            read: reading.coverage.read,
            unread: reading.coverage.unread(),
            groups: by_code(&all),
            campaigns: campaigns.into_iter().map(of_campaign).collect(),
            letters,
        }
    }
}

impl<P: PortTypes> Engine<P> {
    /// Reads the dead letters whenever their number changes while a page is open.
    pub(super) async fn keep_reading_dead_letters(&self) {
        loop {
            // The first read does not wait for a change.
            self.hub.watched().await;
            if self.stack_view.borrow().dead_letters() != (0, 0) {
                let read = self.read_dead_letters().await;
                sleep(EVERY).await;
                match read {
                    // Another reader had received some of them: read again.
                    Ok(dead) if !dead.whole && dead.read < MANY => continue,
                    Ok(_) => {}
                    Err(error) => {
                        let error = in_full(&error);
                        tracing::warn!(error, "the dead letters cannot be read");
                    }
                }
            }
            self.dead_now.notified().await;
        }
    }

    /// Reads the dead letters, and shows them.
    pub(super) async fn read_dead_letters(&self) -> Result<DeadLetterView, PortError> {
        let reading = self.read().await?;
        let now = EpochMillis::from(self.site.clock.wall());
        let dead = DeadLetterView::of(&reading, now, self.site.addresses());
        let json = to_json(&dead);
        self.hub.change(|stack_view| stack_view.show(Telemetry::Dead, json.into()));
        Ok(dead)
    }
}
