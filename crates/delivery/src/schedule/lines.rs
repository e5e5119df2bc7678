//! The lines of the store's objects, and the mails that they become: a stored mail as it was, or the message of a row.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::draft::{CampaignDraft, RenderedMessage};
use tidegate_core::email::{LargeObject, Priority};
use tidegate_core::identity::{Envelope, EpochMillis};
use tidegate_core::redact::AddressVisibility;
use tidegate_core::store::refill::delay;
use tidegate_core::store::rows::{StoredDrafts, StoredRow, run_of, unpack_rows, version_of};
use tidegate_core::store::{ObjectName, Progress, StoredMail, Unreadable, unpack};
use tidegate_core::{Timestamp, Window, in_full};

use crate::ports::{BATCH, BATCH_BYTES, Body, Outgoing, PortError, Store};

/// Mails that are sent at once; then the progress is written.
pub(super) const GROUP: usize = 10 * BATCH;
/// Bytes from which a group is full.
const GROUP_BYTES: usize = 4 * BATCH_BYTES;

/// A line of an object.
pub(super) enum Line {
    Mail(Box<(StoredMail, Envelope)>),
    Row(StoredRow),
}

/// The lines of an object, and the numbers of its rows if it is a chunk of them.
pub(super) fn lines(bytes: &[u8], is_chunk: bool) -> Result<(Vec<Line>, Vec<u64>), Unreadable> {
    if is_chunk {
        let rows = unpack_rows(bytes)?;
        let numbers = rows.iter().map(|row| row.row).collect();
        return Ok((rows.into_iter().map(Line::Row).collect(), numbers));
    }
    let mails = unpack(bytes)?.into_iter();
    Ok((mails.map(|mail| Line::Mail(Box::new(mail))).collect(), Vec::new()))
}

impl Line {
    /// The window from which its mail is sent; `None` for deferred mail, of which the level says when.
    pub(super) fn sent_from(&self, now: Timestamp) -> Option<Window> {
        match self {
            Self::Mail(mail) => mail.0.not_before.map(|at| Window::containing(at.into())),
            // The queue is filled for longer than until the next run of the scheduler.
            Self::Row(_) => Some(Window::containing(now).plus(60)),
        }
    }
}

/// A stored mail as it goes back to its queue.
fn put_back(mail: StoredMail, envelope: Envelope, now: Timestamp) -> Outgoing {
    let attributes = envelope.put_back().to_attributes();
    let delay = mail.not_before.map_or(Duration::ZERO, |at| delay(at.into(), now));
    Outgoing { body: mail.body.into(), attributes, delay, fifo: None }
}

/// The mails of the next lines, at most a group. Lines that their template refuses are noted.
pub(super) async fn group(
    rest: &mut impl Iterator<Item = (usize, Line)>,
    maker: Option<&RowMaker>,
    store: &impl Store,
    progress: &mut Progress,
    now: Timestamp,
) -> Result<Vec<(usize, Outgoing)>, PortError> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    for (line, content) in rest.take(GROUP) {
        let mail = match (content, maker) {
            (Line::Mail(mail), _) => {
                let (mail, envelope) = *mail;
                Some(put_back(mail, envelope, now))
            }
            (Line::Row(row), Some(maker)) => {
                let number = row.row;
                let made = maker.message(row, progress).await;
                match &made {
                    None => progress.refuse(line, number),
                    // A row's object has the same name each time: a killed run leaves none behind.
                    Some(RenderedMessage { object: Some(LargeObject { key, bytes }), .. }) => {
                        store.put(key, bytes.clone()).await?;
                    }
                    Some(_) => {}
                }
                made.map(|made| Outgoing::new(Body::from(made.body).compress().to_queue()))
            }
            (Line::Row(_), None) => None,
        };
        bytes += mail.as_ref().map_or(0, Outgoing::bytes);
        group.extend(mail.map(|mail| (line, mail)));
        if bytes >= GROUP_BYTES {
            break;
        }
    }
    Ok(group)
}

/// Makes the messages of a run's rows.
pub(super) struct RowMaker {
    drafts: StoredDrafts,
    list: Arc<str>,
}

impl RowMaker {
    /// Of the run of this chunk; an error in words for a run that cannot be read.
    pub(super) async fn of(
        store: &impl Store,
        chunk: &ObjectName,
    ) -> Result<Result<Self, String>, PortError> {
        let key = StoredDrafts::key(run_of(&chunk.token));
        let Some((bytes, _)) = store.get(&key).await? else {
            return Ok(Err(format!("{key} is missing")));
        };
        let made = StoredDrafts::unpack(&bytes).map(|drafts| {
            let list = drafts.list.as_str().into();
            Self { drafts, list }
        });
        Ok(made.map_err(|error| in_full(&error)))
    }

    /// Whether a cancel at this time, the campaign's last, came after the run began.
    pub(super) fn is_ended_by(&self, cancel: EpochMillis) -> bool {
        self.drafts.cancelled_at != Some(cancel)
    }

    /// The priority of the run's messages.
    pub(super) fn priority(&self) -> Priority {
        self.drafts.drafts.last().map(CampaignDraft::parsed_priority).unwrap_or_default()
    }

    /// Gives each of the rows a version; whether one has another than before.
    pub(super) fn bind(&self, progress: &mut Progress, rows: &[u64], may_have_gone: usize) -> bool {
        progress.bind(rows, may_have_gone, self.drafts.current())
    }

    /// The message of a row as `tidegate send` makes it; `None`, with a line in the log, if its template refuses the row.
    pub(super) async fn message(
        &self,
        row: StoredRow,
        progress: &Progress,
    ) -> Option<RenderedMessage> {
        // A page of HTML takes a millisecond, and a scheduler's ticks are due meanwhile.
        give_way().await;
        let (number, version) = (row.row, version_of(&progress.versions, row.row)?);
        let draft = self.drafts.draft(version)?;
        match draft.message(&row.of_list(&self.list)) {
            Ok((message, _)) => Some(message),
            Err(fault) => {
                let (campaign, run) = (&draft.campaign, &draft.run);
                let fault = fault.shown(AddressVisibility::Masked).to_string();
                tracing::warn!(
                    campaign,
                    run,
                    row = number,
                    fault,
                    "a row is refused by its template"
                );
                None
            }
        }
    }
}

/// Lets the other futures of the task go on.
async fn give_way() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
