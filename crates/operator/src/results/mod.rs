//! `tidegate results`: says for each row of a run what became of its mail, and whether all are accounted for.
//!
//! The journal names the ids of the rows that were enqueued, the input their recipients. Deduplication's marks
//! tell which mails SES accepted, the dead-letter queue which were given up, and the account's suppression list
//! which recipients bounced or complained.

mod account;
mod command;
mod facts;
mod journal;
mod report;
mod row;

use std::collections::BTreeMap;
use std::io::{self, Read};

use tidegate_core::deduplication::Mark;
use tidegate_core::reputation::dropped_identity;
use tidegate_delivery::ports::{Marks, PortError};

use crate::dead::marks_of;
use crate::redact::AddressVisibility;
use crate::send::{InputFault, InputRow, InputRows, JournalError};
pub use account::{AccountVerdict, RunAccount, Tolerance};
pub use command::ResultsArgs;
pub(crate) use command::run;
pub use facts::{CountsSince, RunFacts, StackSettings, WaitingMail, facts, waiting};
pub use journal::RunJournal;
pub(crate) use journal::journals_in;
pub use report::ResultsReport;
pub use row::{COLUMNS, RowResult, RowStatus};

/// Rows that are looked up at once, by as many calls as they need.
const ROWS_AT_ONCE: usize = 800;

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("{journal}: its run enqueued nothing")]
    Empty { journal: String },
    #[error(
        "{file} has changed since the run, so its rows may not be those that were sent: restore it"
    )]
    InputChanged { file: String },
    #[error("{file} cannot be read")]
    Unreadable { file: String, source: io::Error },
    #[error(
        "{journal}: it is of campaign {campaign} on {queue}, which this stack does not have; it has: {has}"
    )]
    Stranger { journal: String, campaign: String, queue: String, has: String },
    #[error("{0}")]
    Input(Box<InputFault>),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("the results cannot be written")]
    Output(#[source] io::Error),
}

impl ResultsError {
    /// A fault of the input, with its addresses masked.
    fn of_input(fault: InputFault) -> Self {
        Self::Input(fault.shown(AddressVisibility::Masked).into())
    }
}

/// Calls `each` with the result of each row of `input`, in order, and counts them.
///
/// # Errors
/// [`ResultsError`]; `each` was then called for the rows before.
pub async fn results(
    marks: &impl Marks,
    facts: &RunFacts,
    journal: &RunJournal,
    input: impl Read,
    mut each: impl FnMut(&RowResult) -> io::Result<()>,
) -> Result<ResultsReport, ResultsError> {
    let mut rows = InputRows::new(&journal.file(), journal.header.input.format, input)
        .map_err(ResultsError::of_input)?;
    let dropped = |mark: &Mark| Some(dropped_identity(&mark.accepted.as_ref()?.ses_message_id));
    let mut by_status = BTreeMap::new();
    loop {
        // The input is the one that was sent: a row with a fault was left out.
        let batch: Vec<InputRow> = rows.by_ref().flatten().take(ROWS_AT_ONCE).collect();
        if batch.is_empty() {
            return Ok(ResultsReport::new(journal, facts, by_status));
        }
        let enqueued = batch.iter().filter(|_| facts.has_marks);
        let enqueued = enqueued.filter_map(|row| journal.identity(row.number));
        let marked = marks_of(enqueued, marks).await?;
        let drops = marks_of(marked.values().filter_map(dropped), marks).await?;
        for row in &batch {
            let mark = journal.identity(row.number).and_then(|identity| marked.get(&identity));
            let notice = mark.and_then(dropped).and_then(|id| drops.get(&id));
            let result = facts.result(journal, row, mark, notice);
            *by_status.entry(result.status).or_default() += 1;
            each(&result).map_err(ResultsError::Output)?;
        }
    }
}

#[cfg(test)]
mod tests;
