use std::time::Duration;

use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Clock as _, VISIBILITY_TIMEOUT};
use tidegate_operator::dead::{
    DiscardReview, LetterDetails, LetterFilter, LetterReport, LetterSnapshot, discard, show,
};
use tidegate_operator::steer::Author;
use tokio::time::{Instant, sleep};

use super::job::JobError;
use super::{Engine, PortTypes};

/// Interval of reads for a letter that somebody else hides.
const AGAIN: Duration = Duration::from_secs(1);

impl<P: PortTypes> Engine<P> {
    /// All that is known of the letters with this id, with masked addresses unless the console shows them.
    pub(super) async fn show_letter(&self, id: &str) -> Result<Vec<LetterDetails>, JobError> {
        let reading = self.read_letter(id).await?;
        let now = EpochMillis::from(self.site.clock.wall());
        Ok(show(&reading, id, now, self.site.addresses(), true))
    }

    /// Reads until the letter with this id is seen, or all were. Another reader hides letters for as long as it
    /// reads, or for the visibility timeout if it was killed.
    pub(super) async fn read_letter(&self, id: &str) -> Result<LetterSnapshot, JobError> {
        let begun = Instant::now();
        loop {
            let reading = self.read().await?;
            if reading.letters.iter().any(|letter| letter.is(id)) {
                return Ok(reading);
            }
            if reading.coverage.hidden_before == 0 || begun.elapsed() >= VISIBILITY_TIMEOUT {
                return Err(JobError::NoLetter(id.to_owned()));
            }
            sleep(AGAIN).await;
        }
    }

    /// Deletes the letter with this id for good. The history says who did it, and why.
    pub(super) async fn discard(
        &self,
        id: String,
        author: Author,
    ) -> Result<LetterReport, JobError> {
        let reading = self.read_letter(&id).await?;
        let filter = LetterFilter { ids: vec![id], ..LetterFilter::default() };
        let review = DiscardReview::of(&reading, &filter, self.site.addresses());
        let report = {
            let _reader = self.reader.lock().await;
            let queue = self.site.dead_letters();
            let ports = self.site.letter_ports(&queue);
            discard(&ports, &review, &self.author(author), self.ended(), |_| {}).await?
        };
        tracing::info!(letters = report.dropped, by = report.by, "discarded a dead letter");
        self.look_now.notify_one();
        self.dead_now.notify_one();
        Ok(report)
    }
}
