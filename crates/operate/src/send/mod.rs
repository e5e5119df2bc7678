//! `tidegate send`: a campaign from a file.
//!
//! Two passes over the input. The first renders every row and reads each message as the poller will:
//! one fault, and nothing is sent ([`check`]). The second renders them again, packs them into batches
//! and puts them on the campaign's queue ([`Session`]); what SQS acknowledged stands in a journal
//! ([`read_journal`]), by which an interrupted run goes on.
//!
//! A mail's id is the input's own, or made from campaign, run, row number and what the mail says: a
//! repeated run gives the same ids, so that deduplication knows a mail that is enqueued twice.

mod backlog;
mod baseline;
mod batch;
mod check;
mod csv_rows;
mod deliver;
mod draft;
mod fault;
mod journal;
mod preview;
mod report;
mod restart;
mod rows;
mod session;
mod template;

pub use baseline::baseline;
pub use check::{CheckOptions, InputSummary, check};
pub use deliver::DeliverError;
pub use draft::{CampaignDraft, DraftContent, RenderedMessage, fingerprint};
pub use fault::{FileLine, InputFault};
pub use journal::{
    AcknowledgedRows, Baseline, JournalContents, JournalError, JournalFile, JournalHeader,
    JournalReader, JournalRecord, JournalSink, JournalWriter, RowRanges, SettingDifference,
    read_journal,
};
pub use preview::{Preview, PreviewedMail};
pub use report::{DryRun, Estimate, FaultReport, PreviewReport, RunEnd, SendReport, UnfinishedRun};
pub use restart::{RestartError, Resume, check_resend, restart_run};
pub use rows::{InputFormat, InputRow, InputRows};
pub use session::{RunState, SendError, SendLimits, SendPorts, SendProgress, Session, run_state};
pub use template::{Columns, TemplatePart, TemplateSource, Templates};
