//! Another draft for the rows of a run that the stack has not enqueued yet.

use serde::Serialize;
use tidegate_core::draft::{CampaignDraft, InputFault};
use tidegate_core::format::counted;
use tidegate_core::in_full;
use tidegate_core::runs::Run;
use tidegate_core::store::rows::{StoredDrafts, run_of, unpack_rows};
use tidegate_core::store::{Unreadable, Waits};
use tidegate_delivery::ports::{PortError, Store};
use tidegate_delivery::schedule::refill::progress;

use crate::page::{Page, Span, Tone, View};

/// The draft stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error(
        "run {name} has no rows in the store: it is not of --upload, or over; nothing was changed"
    )]
    NoRows { name: String },
    #[error("{object}: {}; nothing was changed", in_full(.source))]
    Unreadable { object: String, source: Unreadable },
    #[error("the run's templates cannot be packed; nothing was changed")]
    Pack(#[source] std::io::Error),
    #[error(
        "somebody else replaced the run's templates meanwhile; nothing was changed: run the command again"
    )]
    Conflict,
    /// Faults of the new draft, or rows that it refuses.
    #[error("the templates are refused, or rows by them; nothing was changed")]
    Rows { faults: Vec<InputFault>, more: bool },
    #[error(transparent)]
    Port(#[from] PortError),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplaceReport {
    pub campaign: String,
    pub run: String,
    /// The version's number.
    pub version: u32,
    /// Rows that were left when they were checked.
    pub rows: u64,
}

/// Replaces the draft of the rows that are left by `changed`, which gets the one before. Each of them is checked.
///
/// # Errors
/// [`ReplaceError`], with at most `max_faults` faults.
pub async fn replace_draft(
    run: &Run,
    store: &impl Store,
    max_faults: usize,
    changed: impl FnOnce(CampaignDraft) -> Result<CampaignDraft, Vec<InputFault>>,
) -> Result<ReplaceReport, ReplaceError> {
    let none = || ReplaceError::NoRows { name: run.name.clone() };
    let token = &run.uploaded.as_ref().ok_or_else(none)?.token;
    let key = StoredDrafts::key(token);
    let (bytes, stands) = store.get(&key).await?.ok_or_else(none)?;
    let unreadable =
        |object: &str, source| ReplaceError::Unreadable { object: object.to_owned(), source };
    let mut stored = StoredDrafts::unpack(&bytes).map_err(|error| unreadable(&key, error))?;
    let draft = changed(stored.drafts.last().cloned().ok_or_else(none)?)
        .map_err(|faults| ReplaceError::Rows { faults, more: false })?;
    let list = stored.list.as_str().into();
    let (mut rows, mut faults) = (0, Vec::new());
    let objects = crate::store::stored(store, [Waits::Rows]).await?.0.into_iter();
    for (name, _) in objects.filter(|(name, _)| run_of(&name.token) == token) {
        let object = name.to_string();
        let progress =
            progress(store, &name).await?.map(|(progress, _)| progress).unwrap_or_default();
        let Some((bytes, _)) = store.get(&object).await? else { continue };
        let chunk = unpack_rows(&bytes).map_err(|error| unreadable(&object, error))?;
        for (_, row) in (0..).zip(chunk).filter(|(line, _)| !progress.has(*line)) {
            rows += 1;
            faults.extend(draft.message(&row.of_list(&list)).err());
            if faults.len() >= max_faults {
                return Err(ReplaceError::Rows { faults, more: true });
            }
        }
    }
    if !faults.is_empty() {
        return Err(ReplaceError::Rows { faults, more: false });
    }
    stored.drafts.push(draft);
    let packed = stored.pack().map_err(ReplaceError::Pack)?;
    let written = store.replace(&key, packed, Some(&stands)).await?;
    written.ok_or(ReplaceError::Conflict)?;
    let (campaign, version) = (run.campaign.clone(), stored.current());
    Ok(ReplaceReport { campaign, run: run.name.clone(), version, rows })
}

impl View for ReplaceReport {
    fn view(&self, page: &mut Page) {
        let Self { run, version, rows, .. } = self;
        let said = format!("version {version} of the templates of run {run}");
        page.line(Tone::Good, said);
        page.fields([(
            "for",
            Span::from(format!(
                "{} that were left, from the next minute on",
                counted(*rows, "row")
            )),
        )]);
    }
}
