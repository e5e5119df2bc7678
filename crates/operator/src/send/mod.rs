//! `tidegate send`: a campaign from a file.
//!
//! There are two passes over the input. The first renders every row and parses each message as the
//! poller will; if there is a fault, nothing is sent ([`check`]). The second renders the rows
//! again, packs them into batches and puts these on the campaign's queue ([`Session`]).
//! Acknowledged rows are written to a journal ([`read_journal`]), from which an interrupted run is
//! resumed.
//!
//! A message's id is given in the input, or derived from campaign, run, row number and content. A
//! repeated run gets the same ids, so deduplication recognises a mail that is enqueued twice.

mod address_list;
mod backlog;
mod baseline;
mod batch;
mod check;
mod command;
mod csv;
mod deliver;
mod draft;
mod fault;
mod fingerprint;
mod form;
mod input_report;
mod journal;
mod json;
mod notes;
mod preview;
mod progress;
mod report;
mod rows;
mod runs;
mod session;
mod template;
mod test_mail;
mod text;

pub use address_list::{AddressList, RecipientFilter, recipient};
pub use baseline::baseline;
pub use check::{CheckOptions, InputSummary, RestOfRows, check};
pub use command::SendArgs;
pub(crate) use command::{MailProgressBar, SUPPRESSED, addresses, run};
pub use deliver::DeliverError;
pub use draft::{CampaignDraft, DraftContent, MailOrigin, RenderedMessage};
pub use fault::{FileLine, InputFault};
pub use fingerprint::{fingerprint, fingerprint_of};
pub use input_report::InputReport;
pub use journal::{
    AcknowledgedRows, JournalContents, JournalError, JournalFile, JournalHeader, JournalInput,
    JournalReader, JournalRecord, JournalSink, JournalWriter, SettingDifference, read_journal,
};
pub use notes::MailNotes;
pub use preview::{Preview, PreviewedMail};
pub use progress::{RunState, SendProgress};
pub use report::{DryRun, Estimate, FaultReport, PreviewReport, RunEnd, SendReport, UnfinishedRun};
pub use rows::{InputFormat, InputRow, InputRows};
pub use runs::{
    KnownList, RunError, RunKey, RunRecord, add_sent, admitted, cancelled_rows, chain,
    check_resend, extend_cancel, in_words, record_rest, rest_name,
};
pub(crate) use runs::{recipient_of, record_returned};
pub use session::{SendError, SendLimits, SendPorts, Session, run_state};
pub use template::{Columns, TemplatePart, TemplateSource, Templates};
pub use test_mail::{TestMailError, TestReport, send_test};
pub use text::{PartPrice, PartPrices, PreviewedText, TextDraft, TextRow, TextTally};
