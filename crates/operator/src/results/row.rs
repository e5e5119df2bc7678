use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantNames};
use tidegate_core::control::{CANCELLED, Cancel};
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{SuppressionReason, VISIBILITY_TIMEOUT};

use super::RunJournal;
use super::facts::{LAG, RunFacts};
use crate::dead::{Doubt, Letter};
use crate::send::{InputRow, recipient};
use tidegate_core::email::plain_address;
use tidegate_core::format::time;

/// The columns of the results. The recipient comes first, so that `tidegate send --only` takes the file.
pub const COLUMNS: [&str; 8] =
    ["to", "row", "id", "status", "at", "ses_message_id", "detail", "version"];

/// The end of a row's mail, or the place where it is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RowStatus {
    /// SES accepted it.
    Sent,
    /// SES accepted it, and its address has bounced since.
    Bounced,
    /// SES accepted it, and its recipient has complained since.
    Complained,
    /// SES accepted it and delivers it to nobody: its address was on the suppression list before.
    Suppressed,
    /// SES accepted it and then sent it to nobody.
    Dropped,
    /// A poller is sending it.
    Sending,
    Waiting,
    /// It was given up.
    Dead,
    /// An operator took it back.
    Cancelled,
    /// The run left it out, or its recipient is on the exclusion list.
    Excluded,
    /// The run is not finished and has not come to it.
    NotEnqueued,
    /// No record names it, and the queues that it may be on are empty.
    Missing,
    /// No record tells whether it was sent.
    Unknown,
}

/// One row of the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowResult {
    pub to: String,
    pub row: u64,
    /// The mail's id; `None` if it was not enqueued.
    pub id: Option<String>,
    pub status: RowStatus,
    /// Time of the status, as far as it is known.
    pub at: Option<EpochMillis>,
    /// SES's message id, of a mail that it accepted.
    pub ses_message_id: Option<String>,
    pub detail: Option<String>,
    /// The version of the templates, if the stack made the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

impl RowResult {
    /// The values in the order of [`COLUMNS`].
    pub fn cells(&self) -> [String; 8] {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        [
            self.to.clone(),
            self.row.to_string(),
            text(&self.id),
            self.status.into_str().to_owned(),
            self.at.map(time).unwrap_or_default(),
            text(&self.ses_message_id),
            text(&self.detail),
            self.version.map(|version| version.to_string()).unwrap_or_default(),
        ]
    }
}

/// A status with its time and reason.
type Judgement = (RowStatus, Option<EpochMillis>, Option<String>);

impl RunFacts {
    /// Judges a row by its mail's mark, and by the one that says that SES dropped it.
    pub(super) fn result(
        &self,
        journal: &RunJournal,
        row: &InputRow,
        mark: Option<&Mark>,
        dropped: Option<&Mark>,
    ) -> RowResult {
        let identity = journal.identity(row.number);
        let to = journal.recipient(row);
        let accepted = mark.and_then(|mark| mark.accepted.as_ref());
        let drop = |mark: &Mark| {
            let why = format!("SES accepted it and did not send it: {}", mark.token);
            (RowStatus::Dropped, Some(mark.since), Some(why))
        };
        let (status, at, detail) = match (&identity, mark) {
            (None, _) if journal.refused(row.number) => {
                let why = "a later version of its template refused it".to_owned();
                (RowStatus::Excluded, None, Some(why))
            }
            (None, _) if journal.ended.is_some() => (RowStatus::Excluded, None, None),
            (None, _) => (RowStatus::NotEnqueued, None, None),
            (Some(_), Some(mark)) if mark.state == MarkState::Sent => {
                dropped.map_or_else(|| self.sent(journal, &to, mark), drop)
            }
            (Some(identity), mark) => {
                let letter = self.dead.get(identity);
                let is_excluded = letter.is_none() && mark.is_none() && self.excludes(&to);
                let why = "its recipient is on the exclusion list".to_owned();
                let excluded = is_excluded.then_some((RowStatus::Excluded, None, Some(why)));
                let enqueued_at = journal.enqueued_at(row.number);
                excluded.unwrap_or_else(|| self.unsent(enqueued_at, letter, mark))
            }
        };
        RowResult {
            to,
            row: row.number,
            id: journal.id(row.number).map(str::to_owned),
            status,
            at,
            ses_message_id: accepted.map(|accepted| accepted.ses_message_id.clone()),
            detail,
            version: journal.version(row.number),
        }
    }

    fn excludes(&self, to: &str) -> bool {
        self.has_marks && recipient(to).is_ok_and(|to| self.excluded.contains(&to))
    }

    /// SES accepted it. Whether it arrived can only be told from the suppression list, which has one entry for
    /// each address: a bounce of a later mail counts as this one's, too.
    fn sent(&self, journal: &RunJournal, to: &str, mark: &Mark) -> Judgement {
        let at = mark.accepted.as_ref().map_or(mark.since, |Acceptance { at, .. }| *at);
        // The clocks of producer and poller may differ, so a mark just before the begin is this run's.
        if journal.header.at.saturating_since(mark.since) > LAG {
            let why = "its id was sent before this run began: deduplication deletes this one";
            return (RowStatus::Sent, Some(at), Some(why.to_owned()));
        }
        let Some(entry) = self.suppressed.get(&plain_address(to)) else {
            return (RowStatus::Sent, Some(at), None);
        };
        let when = format!("the address is on the suppression list since {}", time(entry.since));
        let status = match entry.reason {
            _ if entry.since < at => RowStatus::Suppressed,
            SuppressionReason::Bounce => RowStatus::Bounced,
            SuppressionReason::Complaint => RowStatus::Complained,
        };
        (status, Some(at), Some(when))
    }

    /// No mark says that it was sent.
    fn unsent(
        &self,
        enqueued_at: Option<EpochMillis>,
        letter: Option<&Letter>,
        mark: Option<&Mark>,
    ) -> Judgement {
        let is_young = |mark: &&Mark| self.now.saturating_since(mark.since) <= VISIBILITY_TIMEOUT;
        let sending = mark.filter(|mark| mark.state == MarkState::Sending).filter(is_young);
        if let Some(mark) = sending {
            return (RowStatus::Sending, Some(mark.since), None);
        }
        // A poller that gave it up knew its outcome; one that took it out for a cancel did not.
        let dead = letter.map(dead);
        if let Some(dead) =
            dead.filter(|(status, ..)| mark.is_none() || *status != RowStatus::Cancelled)
        {
            return dead;
        }
        if let Some(mark) = mark {
            let said = "a poller began to send it, and no outcome came".to_owned();
            return (RowStatus::Unknown, Some(mark.since), Some(said));
        }
        if !self.has_marks {
            return (RowStatus::Unknown, None, None);
        }
        let concerns = |cancel: &Cancel| enqueued_at.is_some_and(|at| cancel.concerns(at));
        match self.cancel.filter(concerns) {
            Some(cancel) => (RowStatus::Cancelled, Some(cancel.at), None),
            None if self.waiting.all() > 0 => (RowStatus::Waiting, None, None),
            None => {
                (RowStatus::Missing, None, Some("no record, and the queues are empty".to_owned()))
            }
        }
    }
}

fn dead(letter: &Letter) -> Judgement {
    let code = letter.code().unwrap_or("no code");
    let said = letter.entry().map_or("", |entry| entry.last_error.provider_message.as_str());
    let status = match letter.doubt() {
        _ if code == CANCELLED => RowStatus::Cancelled,
        Doubt::Unknown => RowStatus::Unknown,
        Doubt::None | Doubt::Perhaps => RowStatus::Dead,
    };
    (status, Some(letter.since), Some(format!("{code}: {said}")))
}
