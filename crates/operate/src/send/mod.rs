//! `tidegate send`: a campaign from a file.
//!
//! Two passes over the input. The first renders every row and reads each message as the poller will:
//! one fault, and nothing is sent ([`check`]). The second renders them again, packs them into batches
//! and puts them on the campaign's queue ([`Session`]); what SQS acknowledged stands in a journal
//! ([`read`]), by which an interrupted run goes on.
//!
//! A mail's id is the input's own, or made from campaign, run, row number and what the mail says: a
//! repeated run gives the same ids, so that the duplicate guard knows a mail that is enqueued twice.

mod backlog;
mod batch;
mod before;
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

pub use before::before;
pub use check::{Checked, Checking, check};
pub use deliver::DeliverError;
pub use draft::{Draft, Message, Words, fingerprint};
pub use fault::{Fault, Place};
pub use journal::{
    Acknowledged, Before, Contents, Difference, Header, JournalError, JournalFile, Log, Ranges,
    Record, Records, Writer, read,
};
pub use preview::{Preview, PreviewedMail};
pub use report::{DryRun, Ended, Estimate, Refused, SendReport, Shown, Unfinished};
pub use restart::{RestartError, Resume, once_more, restarted};
pub use rows::{Format, Row, Rows};
pub use session::{Limits, Ports, Progress, SendError, Session, Standing, standing};
pub use template::{Columns, Part, Source, Templates};
