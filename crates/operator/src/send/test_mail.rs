//! Test mails: the first rows as they would be sent, to another address.

use std::io::Read;

use serde::Serialize;
use tidegate_core::channel::Channel;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{EntryError, Outgoing, PortError, QueueUrl, Queues};

use super::rows::{InputFormat, InputRows};
use crate::page::{Page, Span, Tone, View};
use tidegate_core::draft::CampaignDraft;
use tidegate_core::draft::InputFault;
use tidegate_core::format::counted;

/// The test mails that were put on a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestReport {
    pub channel: Channel,
    pub to: String,
    pub queue: String,
    /// Whether they go ahead of all campaigns, and count for none: the stack has an express queue.
    pub express: bool,
    /// The mails' ids, for `tidegate why`.
    pub ids: Vec<String>,
}

/// Why no test mail, or not all, could be sent.
#[derive(Debug, thiserror::Error)]
pub enum TestMailError {
    #[error("{0}")]
    Input(Box<InputFault>),
    #[error("{done} of {all} test mails were put on the queue")]
    Queue { done: usize, all: usize, source: PortError },
    #[error("{done} of {all} test mails were put on the queue")]
    Refused { done: usize, all: usize, source: EntryError },
}

/// The first rows of an input, to one address instead of their own.
#[derive(Clone, Copy, Debug)]
pub struct TestMail<'a> {
    pub draft: &'a CampaignDraft,
    pub file: &'a str,
    pub format: InputFormat,
    pub to: &'a str,
    /// The number of rows, from the first one.
    pub rows: usize,
    pub queue: &'a QueueUrl,
    pub express: bool,
}

/// Puts the first `rows` rows of `input` on `queue`, rendered with their own columns and addressed to `to`.
/// Their ids contain `at`, so that no earlier test mail is taken for the same.
///
/// # Errors
/// [`TestMailError`]. After [`TestMailError::Input`] nothing was sent.
pub async fn send_test(
    test: TestMail<'_>,
    input: impl Read,
    queues: &impl Queues,
    at: EpochMillis,
) -> Result<TestReport, TestMailError> {
    let TestMail { draft, file, format, to, rows, queue, express } = test;
    let refused = |fault| TestMailError::Input(Box::new(fault));
    let mut mails = Vec::new();
    for row in InputRows::new(file, format, input).map_err(refused)?.take(rows) {
        let row = row.map_err(refused)?;
        let id = format!("test-{}-{}", at.as_millis(), row.number);
        mails.push((id.clone(), draft.test_body(&row, to, &id).map_err(refused)?));
    }
    if mails.is_empty() {
        return Err(refused(InputFault::bare(file, 1, "rows", "must be at least one")));
    }
    let all = mails.len();
    let mut ids = Vec::new();
    for (id, body) in mails {
        let done = ids.len();
        let entries = queues.send(queue, &[Outgoing::new(body)]).await;
        let entries = entries.map_err(|source| TestMailError::Queue { done, all, source })?;
        for entry in entries {
            entry.map_err(|source| TestMailError::Refused { done, all, source })?;
        }
        ids.push(id);
    }
    let (channel, to) = (draft.rules.channel, to.to_owned());
    Ok(TestReport { channel, to, queue: queue.to_string(), express, ids })
}

impl View for TestReport {
    fn view(&self, page: &mut Page) {
        let test = format!("test {}", self.channel.words().message);
        let tests = counted(self.ids.len() as u64, &test);
        page.line(Tone::Good, format!("{tests} to {} on the queue", self.to));
        let place = if self.express {
            Span::from("express: ahead of all campaigns, and counted for none")
        } else {
            let said = "the campaign's, with priority critical: the stack has no express queue, so \
                        they wait for the campaign's turn and count for it";
            Span::new(Tone::Warning, said)
        };
        page.fields([("queue", place), ("ids", Span::from(self.ids.join(", ")))]);
        page.line(Tone::Faint, "Links in them are those of the rows' recipients.");
    }
}
