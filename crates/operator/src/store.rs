//! Runs `tidegate store`: lists the mail in the store.

use std::collections::BTreeMap;

use clap::Args;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::format::{bytes, count, counted, span};
use tidegate_core::identity::EpochMillis;
use tidegate_core::store::{ObjectName, Waits};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{Clock as _, PortError, Store};
use tidegate_delivery::schedule::refill::progress;

use crate::page::{Page, TextTable, Tone, View};
use crate::shell::{CommandError, CommandResult, Shell};
use crate::stack::OnStack;

/// Objects whose progress is asked for at once.
const AT_ONCE: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    pub objects: u64,
    /// Mails; an object that is partly brought back counts with all of its mails.
    pub mails: u64,
    pub bytes: u64,
    /// The window of the first object: of deferred mail the oldest, of timed mail the one that is due first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Window>,
}

impl Stored {
    fn add(&mut self, window: Window, mails: u64, bytes: u64) {
        self.objects += 1;
        self.mails += mails;
        self.bytes += bytes;
        self.first = Some(self.first.map_or(window, |first| first.min(window)));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreList {
    pub location: String,
    #[serde(flatten)]
    pub all: Stored,
    /// By campaign, and by what the mail waits for.
    pub campaigns: BTreeMap<String, BTreeMap<Waits, Stored>>,
    /// Campaigns with mail in the store that the stack does not have, so that the mail cannot come back.
    pub unknown_campaigns: Vec<String>,
    /// Keys of other software's objects.
    pub strange: Vec<String>,
    #[serde(skip)]
    pub now: EpochMillis,
}

/// Lists all objects.
///
/// # Errors
/// [`PortError`]; never a part of the list.
pub async fn list(
    store: &impl Store,
    location: &str,
    campaigns: &[String],
    now: EpochMillis,
) -> Result<StoreList, PortError> {
    let (objects, strange) = stored(store, Waits::ALL).await?;
    let mut all = Stored::default();
    let mut of = BTreeMap::<String, BTreeMap<Waits, Stored>>::new();
    for (name, bytes) in objects {
        all.add(name.window, name.mails, bytes);
        let own = of.entry(name.campaign).or_default().entry(name.waits).or_default();
        own.add(name.window, name.mails, bytes);
    }
    let unknown_campaigns = of.keys().filter(|name| !campaigns.contains(name)).cloned().collect();
    let location = location.to_owned();
    Ok(StoreList { location, all, campaigns: of, unknown_campaigns, strange, now })
}

/// Counts the mails of a campaign that have not come back yet, also those of objects that are partly brought back. Rows of
/// lists are no mails yet.
///
/// # Errors
/// [`PortError`]; never a part of the count.
pub async fn left(store: &impl Store, campaign: &str) -> Result<u64, PortError> {
    let of = async |name: ObjectName| {
        let progress = progress(store, &name).await?;
        let back = progress.map_or(0, |(progress, _)| progress.count() as u64);
        Ok::<_, PortError>(name.mails.saturating_sub(back))
    };
    let own = stored(store, Waits::ALL).await?.0.into_iter().map(|(name, _)| name);
    let own = own.filter(|name| name.campaign == campaign && name.waits != Waits::Rows);
    let counts = stream::iter(own).map(of).buffer_unordered(AT_ONCE);
    counts.try_fold(0, |sum, mails| async move { Ok(sum + mails) }).await
}

/// As [`left`] of a stack; none without a store.
pub(crate) async fn left_of(campaign: &str, stack: &Stack) -> Result<u64, PortError> {
    let Some(location) = stack.store() else { return Ok(0) };
    left(&stack.clients().store(location), campaign).await
}

/// All objects that wait for this with their sizes, and the keys that are no object's.
pub(crate) async fn stored(
    store: &impl Store,
    waiting: impl IntoIterator<Item = Waits>,
) -> Result<(Vec<(ObjectName, u64)>, Vec<String>), PortError> {
    let (mut objects, mut strange) = (Vec::new(), Vec::new());
    for waits in waiting {
        let mut after = None;
        loop {
            let page = store.list(waits.as_str(), after.as_deref()).await?;
            for object in page.objects {
                match object.key.parse() {
                    Ok(name) => objects.push((name, object.bytes)),
                    Err(_) => strange.push(object.key),
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok((objects, strange))
}

impl View for StoreList {
    fn view(&self, page: &mut Page) {
        if self.all.objects == 0 {
            page.line(Tone::Good, format!("no message waits in {}", self.location));
        } else {
            let mails = counted(self.all.mails, "message");
            let objects = counted(self.all.objects, "object");
            page.heading(format!("{mails} in {objects} in {}", self.location));
            let columns = ["campaign", "waits", "messages", "objects", "size", "first"];
            let mut table = TextTable::new(columns).right(2).right(3).right(4).right(5);
            let kinds =
                self.campaigns.iter().flat_map(|(name, of)| of.iter().map(move |of| (name, of)));
            for (name, (waits, stored)) in kinds {
                table.row([
                    name.clone(),
                    waits.as_str().to_owned(),
                    count(stored.mails),
                    count(stored.objects),
                    bytes(stored.bytes),
                    self.first(stored),
                ]);
            }
            page.table(table);
        }
        if !self.unknown_campaigns.is_empty() {
            let names = self.unknown_campaigns.join(", ");
            page.line(
                Tone::Warning,
                format!("there is no campaign {names}: its messages cannot come back"),
            );
        }
        if !self.strange.is_empty() {
            let strange = counted(self.strange.len() as u64, "object");
            page.line(Tone::Warning, format!("also stored there: {strange} of other software"));
        }
    }
}

impl StoreList {
    fn first(&self, stored: &Stored) -> String {
        let now = Timestamp::from(self.now);
        stored.first.map_or_else(String::new, |first| match first.opens() {
            due if due > now => format!("in {}", span(due.saturating_since(now))),
            since => format!("{} ago", span(now.saturating_since(since))),
        })
    }
}

/// Show the mail in the store
///
/// It is listed by campaign and by what it waits for: timed mail for its `not_before`, deferred mail for the level to be
/// clear or for its campaign's limit to begin again, rows of a list for room on their queue. The scheduler brings it back
/// to its queue in time: deferred mail, the oldest first, once the level has been clear for ten minutes.
///
/// Exit code: 0; 2 where the stack has no store; 3 where the stack or S3 cannot be reached.
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &StoreArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let location = stack.store().ok_or_else(|| {
        let said = "this stack has no store: its functions have no TIDEGATE_STORE";
        CommandError::Input(said.to_owned())
    })?;
    let store = stack.clients().store(location.clone());
    let names: Vec<String> = stack.standing().await?.1.into_iter().map(|c| c.name).collect();
    let now = stack.clock().wall().into();
    shell.done(&list(&store, &location.to_string(), &names, now).await?)
}

#[cfg(test)]
mod tests;
