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
mod check;
mod command;
mod deliver;
mod fingerprint;
mod journal;
mod preview;
mod progress;
mod replace;
mod report;
mod rows;
mod runs;
mod session;
mod test_mail;
mod text;
mod upload;

pub use address_list::{AddressList, RecipientFilter, recipient};
pub use check::{CheckOptions, InputSummary, MailNotes, RestOfRows, check};
pub use command::SendArgs;
pub(crate) use command::{MailProgressBar, addresses, read_sources, run, suppressed_of};
pub use deliver::SendPorts;
pub(crate) use deliver::is_refusal;
pub use fingerprint::{fingerprint, fingerprint_of};
pub use journal::{
    AcknowledgedRows, JOURNAL_VERSION, JournalContents, JournalError, JournalFile, JournalHeader,
    JournalInput, JournalRecord, JournalWriter, read_journal,
};
pub use preview::{Preview, PreviewedMail};
pub use progress::{RunEnd, SendProgress};
pub use replace::{ReplaceError, ReplaceReport, replace_draft};
pub use report::{DryRun, Estimate, FaultReport, InputReport, PreviewReport, SendReport};
pub use rows::{InputFormat, InputRows};
pub use runs::{
    KnownList, RunError, RunKey, RunRecord, add_sent, admitted, baseline, cancelled_rows, chain,
    check_resend, in_words, record_rest, rest_name,
};
pub(crate) use runs::{depth_of, recipient_of, record_returned};
pub use session::{SendError, SendLimits, Session, journalled_rows};
pub use test_mail::{TestMail, TestMailError, TestReport, send_test};
pub use text::{PreviewedText, TextRow, TextTally};
pub(crate) use tidegate_core::draft::for_sqs;
pub use tidegate_core::draft::{
    CampaignDraft, DraftContent, FileLine, InputFault, InputRow, MailOrigin, PartPrice,
    RenderedMessage, TemplatePart, TemplateSource, Templates, TextDraft,
};
pub use upload::{Upload, UploadError, UploadReport};
