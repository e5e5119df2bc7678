//! Fills the campaigns' queues from the store: with timed mail whose time comes, with deferred mail once the
//! level is clear, and with rows of lists, of which it makes the messages; the oldest object first.
//!
//! After every hundred mails the object's progress is written, and an object is deleted once all of its mails are in
//! their queue. A crash at any point loses nothing. At most a hundred mails are sent twice then; both copies have the
//! same pass, so the merge queue drops the second within five minutes, and deduplication drops it at any time.
//!
//! For example, an object of 250 mails is sent in groups of 100, 100 and 50, each in batches of ten. After a crash
//! between the second group and its write, the progress says 100: the next run sends lines 100 to 249, lines 100 to
//! 199 for the second time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt as _};
use tidegate_core::config::{Campaign, queue_key};
use tidegate_core::counters::Counter;
use tidegate_core::email::Priority;
use tidegate_core::idle::QueueChecks;
use tidegate_core::number::real;
use tidegate_core::parts::Upkeep;
use tidegate_core::store::refill::{due_until, portions, room};
use tidegate_core::store::rows::run_of;
use tidegate_core::store::{ObjectName, Progress, Waits};
use tidegate_core::{Timestamp, Window, in_full};

pub use super::destinations::Destinations;
use super::lines::{GROUP, Line, RowMaker, group, lines};
use super::rows::{RunsDone, begun};
use crate::poll::pack;
use crate::ports::{
    Clock, Entropy, Entry, FailureKind, Ledger, LedgerReport, Monotonic, Outgoing, PortError,
    QueueUrl, Queues, Runs, Standing, Store, Version,
};

/// An object belongs to the run that works on it until this long after its last write. Then another run may
/// continue, as after a crash.
const TAKEN_FOR: Duration = Duration::from_mins(2);
/// Campaigns that are filled at once; each holds an object in memory, of up to 8 MiB packed and unpacked.
const AT_ONCE: usize = 2;
/// Campaigns whose queues' depths are asked for at once.
const DEPTHS_AT_ONCE: usize = 16;
/// No group begins later than this after the run began.
const WITHIN: Duration = Duration::from_secs(40);
/// If nothing was stored since the store was listed, it is listed only this often, and when timed mail is due.
const LISTED_EVERY: Duration = Duration::from_hours(1);

/// Limits of one run.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The most deferred mails; an object may be brought back in part.
    pub deferred: u64,
    /// The last window whose timed mail is brought back.
    pub timed: Window,
    /// Mails a second that the stack sends, by which timed mail and rows fill their queue.
    pub mails_a_second: f64,
    /// No group begins at or after this time.
    pub until: Monotonic,
}

/// The reason why an object was left in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// No campaign of this name is listed.
    NoCampaign,
    /// The campaign is held, or its weight is 0.
    Held,
    /// Another run works on this object now.
    Taken,
    /// The object cannot be read as mail; the text says why.
    Unreadable(String),
    /// SQS refused some of the object's mails; the text is SQS's error code.
    Refused(String),
}

/// An object that was left in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftObject {
    /// The object.
    pub object: ObjectName,
    /// The reason why it was left.
    pub why: Why,
}

/// The mails and objects that a run has brought back so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroughtBack {
    /// Mails sent to their campaign queues.
    pub mails: u64,
    /// Objects whose mails are all in their queues; these objects are deleted.
    pub objects: u64,
    /// Objects that were left in the store, with the reason.
    pub left: Vec<LeftObject>,
    /// Whether the run brought back all that its bounds allow but for what was left.
    pub through: bool,
    /// The latest `not_before` of the timed mails among them.
    pub latest: Option<Window>,
    /// The window of the first timed mail that is not due yet.
    pub next: Option<Window>,
    /// How far it came with runs whose rows are in the store.
    pub runs: RunsDone,
}

impl BroughtBack {
    /// Whether an object was left for a reason that waiting does not cure: an unknown campaign, a refusal or
    /// an unreadable object.
    pub fn needs_somebody(&self) -> bool {
        let waits = |why: &Why| matches!(why, Why::Taken | Why::Held);
        self.left.iter().any(|left| !waits(&left.why))
    }

    /// Whether nothing that is due is left.
    pub fn is_all(&self) -> bool {
        self.through && self.left.is_empty()
    }
}

/// The ports and facts that a run needs.
#[derive(Clone, Copy, Debug)]
pub struct RefillPorts<'a, S, Q, C> {
    /// The store.
    pub store: &'a S,
    /// The queues to which stored mail is sent.
    pub queues: &'a Q,
    /// The clocks, for the bounds and for [`Progress::until`].
    pub clock: &'a C,
    /// The queues into which mail may return.
    pub destinations: &'a Destinations,
    /// A name that no other run has, such as a random token.
    pub me: &'a str,
}

/// Brings back as much as `bounds` allow. `done` is updated as the work goes on, so it is right even after an
/// error and if this future is dropped.
///
/// # Errors
/// The first [`PortError`] of an object, after the others, or that of the list. A later call continues with the rest.
pub async fn bring_back<S: Store, Q: Queues, C: Clock>(
    site: RefillPorts<'_, S, Q, C>,
    bounds: &Bounds,
    done: &RefCell<BroughtBack>,
) -> Result<(), PortError> {
    let (mut objects, listed_all) = site.due(bounds, done).await?;
    let rooms = site.rooms(bounds, &objects).await;
    let has_rows = objects.iter().any(|object| object.waits == Waits::Rows);
    // A chunk is not read for a few of its rows.
    let is_worth = |campaign: &str| rooms.get(campaign).is_none_or(|room| room.empty() > 0.5);
    objects.retain(|object| object.waits != Waits::Rows || is_worth(&object.campaign));
    // A chunk stays until the ledger knows of it: so there is more to do as long as there is one.
    let listed_all = listed_all && !has_rows;
    let left = rooms.iter().map(|(campaign, room)| (campaign.clone(), room.left)).collect();
    let portions = portions(&objects, left, bounds.deferred);
    let through =
        listed_all && objects.iter().zip(&portions).all(|(o, portion)| o.mails == *portion);
    let mut campaigns = BTreeMap::<String, Vec<(ObjectName, u64)>>::new();
    for (object, portion) in objects.into_iter().zip(portions).filter(|(_, portion)| *portion > 0) {
        campaigns.entry(object.campaign.clone()).or_default().push((object, portion));
    }
    // Timed mail first, and then the emptiest queue: the run may end before the last.
    let mut campaigns: Vec<(String, Vec<(ObjectName, u64)>)> = campaigns.into_iter().collect();
    campaigns.sort_by(|(a, of_a), (b, of_b)| {
        let is_timed = |of: &[(ObjectName, u64)]| of[0].0.waits == Waits::Timed;
        let empty = |campaign: &str| rooms.get(campaign).map_or(1.0, Room::empty);
        is_timed(of_b).cmp(&is_timed(of_a)).then(empty(b).total_cmp(&empty(a)))
    });
    let failed = RefCell::new(None);
    let fill = async |objects: Vec<(ObjectName, u64)>| {
        for (object, portion) in objects {
            if site.is_over(bounds) {
                break;
            }
            match site.object(&object, portion, bounds, done).await {
                Ok(None) => {}
                Ok(Some(why)) => {
                    done.borrow_mut().left.push(LeftObject { object, why });
                }
                // It may be this object alone: the others go on.
                Err(error) => drop(failed.borrow_mut().get_or_insert(error)),
            }
        }
    };
    let campaigns = campaigns.into_iter().map(|(_, objects)| objects);
    stream::iter(campaigns).for_each_concurrent(AT_ONCE, fill).await;
    done.borrow_mut().through = through && !site.is_over(bounds);
    failed.into_inner().map_or(Ok(()), Err)
}

/// The mails that a campaign's queue has room for: now, and if it is empty.
struct Room {
    left: u64,
    whole: u64,
}

impl Room {
    /// The part of the queue that is empty, 0 to 1.
    fn empty(&self) -> f64 {
        real(self.left) / real(self.whole)
    }
}

impl<S: Store, Q: Queues, C: Clock> RefillPorts<'_, S, Q, C> {
    fn is_over(&self, bounds: &Bounds) -> bool {
        self.clock.monotonic() >= bounds.until
    }

    /// The objects that may be brought back, in the order in which they are; and whether that is all of them. Those
    /// whose campaign is held or unknown are noted as left.
    async fn due(
        &self,
        bounds: &Bounds,
        done: &RefCell<BroughtBack>,
    ) -> Result<(Vec<ObjectName>, bool), PortError> {
        let (mut due, mut all) = (Vec::new(), true);
        let tokens = begun(self.store).await?;
        let has_runs = done.borrow_mut().runs.begin(tokens);
        let (mut ended, mut noted) = (BTreeMap::new(), BTreeSet::new());
        for waits in Waits::ALL {
            let (mut after, mut mails) = (None, 0);
            let bound = match waits {
                Waits::Deferred => bounds.deferred,
                Waits::Rows if !has_runs => 0,
                Waits::Timed | Waits::Rows => u64::MAX,
            };
            'folder: while mails < bound {
                let page = self.store.list(waits.as_str(), after.as_deref()).await?;
                for object in page.objects.iter().filter_map(|object| object.key.parse().ok()) {
                    let object: ObjectName = object;
                    if waits != Waits::Deferred && object.window > bounds.timed {
                        let next = done.borrow().next.into_iter().chain([object.window]).min();
                        done.borrow_mut().next = next;
                        break 'folder;
                    }
                    if waits == Waits::Rows && !done.borrow_mut().runs.see(&object) {
                        continue;
                    }
                    if waits == Waits::Rows && self.is_cancelled(&object, &mut ended).await? {
                        done.borrow_mut().runs.cancel(object);
                        continue;
                    }
                    match self.reason_to_leave(&object.campaign) {
                        None => {
                            mails += object.mails;
                            due.push(object);
                        }
                        // A run may have thousands of chunks.
                        Some(_)
                            if waits == Waits::Rows && !noted.insert(object.campaign.clone()) => {}
                        Some(why) => {
                            done.borrow_mut().left.push(LeftObject { object, why });
                        }
                    }
                    if mails >= bound {
                        break 'folder;
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            all &= mails < bound || bound == 0;
        }
        Ok((due, all))
    }

    /// Whether a cancel has ended the run of a chunk. `ended` has the runs that were looked at.
    async fn is_cancelled(
        &self,
        chunk: &ObjectName,
        ended: &mut BTreeMap<String, bool>,
    ) -> Result<bool, PortError> {
        let Some(cancel) = self.destinations.cancels.get(&chunk.campaign) else { return Ok(false) };
        let token = run_of(&chunk.token);
        if let Some(known) = ended.get(token) {
            return Ok(*known);
        }
        let maker = RowMaker::of(self.store, chunk).await?;
        let is_ended = maker.is_ok_and(|maker| maker.is_ended_by(*cancel));
        ended.insert(token.to_owned(), is_ended);
        Ok(is_ended)
    }

    fn reason_to_leave(&self, campaign: &str) -> Option<Why> {
        match self.destinations.queues.get(campaign) {
            _ if self.destinations.held.contains(campaign) => Some(Why::Held),
            None => Some(Why::NoCampaign),
            Some(_) => None,
        }
    }

    /// The room on the queues of the campaigns with timed mail and rows; none where a queue does not answer.
    async fn rooms(&self, bounds: &Bounds, objects: &[ObjectName]) -> BTreeMap<String, Room> {
        let by_room = objects.iter().filter(|object| object.waits != Waits::Deferred);
        let campaigns: BTreeSet<&str> = by_room.map(|object| object.campaign.as_str()).collect();
        let Destinations { queues, weights, .. } = self.destinations;
        let weight = |campaign: &str| weights.get(campaign).copied().unwrap_or(1);
        let sum: u64 = campaigns.iter().map(|campaign| weight(campaign)).sum();
        let room = async |campaign: &str| {
            let mut depth = 0_u64;
            for key in Priority::ALL.map(|priority| queue_key(campaign, priority)) {
                let Some(queue) = queues.get(&key) else { continue };
                depth = match self.queues.depth(queue).await {
                    Ok(found) => depth.saturating_add(found.all()),
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(campaign, error, "its queue is not filled from the store");
                        u64::MAX
                    }
                };
            }
            let share = real(weight(campaign)) / real(sum.max(1));
            let of = |depth| room(depth, bounds.mails_a_second, share);
            (campaign.to_owned(), Room { left: of(depth), whole: of(0) })
        };
        stream::iter(campaigns).map(room).buffer_unordered(DEPTHS_AT_ONCE).collect().await
    }

    /// Brings up to `portion` mails of one object back. Returns the reason if it is left, else `None`.
    async fn object(
        &self,
        name: &ObjectName,
        portion: u64,
        bounds: &Bounds,
        done: &RefCell<BroughtBack>,
    ) -> Result<Option<Why>, PortError> {
        let maker = match name.waits {
            Waits::Rows => match RowMaker::of(self.store, name).await? {
                Ok(maker) if self.destinations.level.defers(maker.priority()) => {
                    return Ok(Some(Why::Held));
                }
                Ok(maker) => Some(maker),
                Err(error) => return Ok(Some(Why::Unreadable(error))),
            },
            Waits::Timed | Waits::Deferred => None,
        };
        let Some(mut mark) = self.take(name).await? else { return Ok(Some(Why::Taken)) };
        let Some((bytes, _)) = self.store.get(&name.to_string()).await? else {
            // Another run finished this object after it was listed.
            self.store.delete(&name.progress_key()).await?;
            return Ok(None);
        };
        let (lines, rows) = match lines(&bytes, maker.is_some()) {
            Ok(lines) => lines,
            Err(error) => return Ok(Some(Why::Unreadable(in_full(&error)))),
        };
        drop(bytes);
        if let Some(maker) = &maker
            && maker.bind(&mut mark.progress, &rows, mark.may_have_gone)
            && !self.write(name, &mut mark).await?
        {
            return Ok(Some(Why::Taken));
        }
        let (whole, now) = (lines.len(), self.clock.wall());
        let portion = usize::try_from(portion).unwrap_or(usize::MAX);
        let rest = (0..).zip(lines).filter(|(line, _)| !mark.progress.has(*line)).take(portion);
        let rest: Vec<(usize, Line)> = rest.collect();
        let latest = rest.iter().filter_map(|(_, line)| line.sent_from(now)).max();
        let noted = done.borrow().latest.max(latest);
        done.borrow_mut().latest = noted;
        let mut rest = rest.into_iter().peekable();
        let mut why = None;
        while rest.peek().is_some() && why.is_none() {
            let maker = maker.as_ref();
            let group = group(&mut rest, maker, self.store, &mut mark.progress, now).await?;
            let sent = self.send(&self.queue(name, maker), group).await?;
            for (line, answer) in sent {
                match answer {
                    Ok(()) => {
                        mark.progress.note(line);
                        done.borrow_mut().mails += 1;
                    }
                    Err(error) => why = Some(Why::Refused(error.code)),
                }
            }
            let over = self.is_over(bounds) || why.is_some();
            // After the last group the object is free at once, so that the next run need not wait.
            mark.progress.until =
                (!over && rest.peek().is_some()).then(|| self.taken_until().into());
            if !self.write(name, &mut mark).await? {
                return Ok(Some(Why::Taken));
            }
            if over {
                break;
            }
        }
        if maker.is_some() {
            done.borrow_mut().runs.note(name, &rows, &mark.progress);
        } else if mark.progress.count() >= whole {
            self.store.delete(&name.to_string()).await?;
            self.store.delete(&name.progress_key()).await?;
        }
        if mark.progress.count() >= whole {
            done.borrow_mut().objects += 1;
        }
        Ok(why)
    }

    /// The queue for the mails of an object.
    fn queue(&self, name: &ObjectName, maker: Option<&RowMaker>) -> QueueUrl {
        let queues = &self.destinations.queues;
        let own = maker.and_then(|maker| queues.get(&queue_key(&name.campaign, maker.priority())));
        own.unwrap_or(&queues[&name.campaign]).clone()
    }

    async fn send(
        &self,
        queue: &QueueUrl,
        group: Vec<(usize, Outgoing)>,
    ) -> Result<Vec<(usize, Entry)>, PortError> {
        let batches = pack(group, |(_, mail)| mail.bytes());
        let sent = try_join_all(batches.into_iter().map(async |batch| {
            let (lines, mails): (Vec<usize>, Vec<Outgoing>) = batch.into_iter().unzip();
            let answers = self.queues.send(queue, &mails).await?;
            Ok::<_, PortError>(lines.into_iter().zip(answers))
        }));
        Ok(sent.await?.into_iter().flatten().collect())
    }

    fn taken_until(&self) -> Timestamp {
        self.clock.wall() + TAKEN_FOR
    }

    /// Claims an object for this run by a conditional write; `None` if another run works on it.
    async fn take(&self, name: &ObjectName) -> Result<Option<ObjectProgress>, PortError> {
        let (progress, version) = progress(self.store, name).await?.unzip();
        let progress = progress.unwrap_or_default();
        if progress.is_taken(self.me, self.clock.wall().into()) {
            return Ok(None);
        }
        let may_have_gone = if progress.until.is_some() { GROUP } else { 0 };
        let until = Some(self.taken_until().into());
        let progress = Progress { by: self.me.to_owned(), until, ..progress };
        let mut mark = ObjectProgress { progress, version, may_have_gone };
        Ok(self.write(name, &mut mark).await?.then_some(mark))
    }

    /// Writes the object's progress; false if another run has written since.
    async fn write(&self, name: &ObjectName, mark: &mut ObjectProgress) -> Result<bool, PortError> {
        let key = name.progress_key();
        let bytes = serde_json::to_vec(&mark.progress).map_err(|error| unread(&key, error))?;
        let written = self.store.replace(&key, bytes, mark.version.as_ref()).await?;
        let ours = written.is_some();
        mark.version = written.or(mark.version.take());
        Ok(ours)
    }
}

/// An object's progress, and the version under which it was last written or read.
struct ObjectProgress {
    progress: Progress,
    version: Option<Version>,
    /// Lines that a run which was killed may have enqueued without noting it.
    may_have_gone: usize,
}

/// Reads an object's progress; `None` if no run has begun with it.
///
/// # Errors
/// [`PortError`] if the store does not answer, or has something else under the progress's key.
pub async fn progress(
    store: &impl Store,
    name: &ObjectName,
) -> Result<Option<(Progress, Version)>, PortError> {
    let key = name.progress_key();
    let Some((bytes, version)) = store.get(&key).await? else { return Ok(None) };
    let progress = serde_json::from_slice(&bytes).map_err(|error| unread(&key, error))?;
    Ok(Some((progress, version)))
}

fn unread(key: &str, error: serde_json::Error) -> PortError {
    PortError {
        operation: "GetObject",
        resource: key.to_owned(),
        kind: FailureKind::Refused("an object that is no progress".to_owned()),
        source: Some(error.into()),
    }
}

/// The scheduler's memory of the store from the run before; empty after a cold start.
#[derive(Debug, Default)]
pub struct RefillMemory(Cell<Option<LastList>>);

/// The last list of the store that found nothing due.
#[derive(Clone, Copy, Debug)]
struct LastList {
    at: Timestamp,
    /// The counters of mails ever stored at that time.
    stored: i64,
    /// The window of the first timed mail.
    next: Option<Window>,
    /// Whether deferred mail was listed, too.
    deferred: bool,
}

/// The result of a scheduler's run over the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefillReport {
    /// The mails and objects that were brought back.
    pub done: BroughtBack,
    /// Whether the run failed, or left an object that an operator must look at.
    pub failed: bool,
}

/// The ports of a scheduler's run over the store.
#[derive(Clone, Copy, Debug)]
pub struct Refill<'a, S, Q, E> {
    /// The store; `None` without one.
    pub store: Option<&'a S>,
    /// The queues.
    pub queues: &'a Q,
    /// Random tokens; one names the run.
    pub entropy: &'a E,
    /// The memory of earlier runs.
    pub memory: &'a RefillMemory,
}

/// How much may be brought back, by the look at the back-pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Allowance {
    /// The most deferred mails; 0 while the level is above clear, or was lately.
    pub(crate) deferred: u64,
    /// Mails a second that the stack sends; 0 if no quota is known yet.
    pub(crate) mails_a_second: f64,
}

impl<S: Store, Q: Queues, E: Entropy> Refill<'_, S, Q, E> {
    /// Fills the queues by the ledger as it was read. `report` stays `None` if nothing can be due; it is right even if
    /// this future is dropped.
    pub(crate) async fn run(
        &self,
        campaigns: &[Campaign],
        standing: &Standing,
        allowance: Allowance,
        clock: &impl Clock,
        ledger: &(impl Ledger + Runs),
        report: &RefCell<Option<RefillReport>>,
    ) {
        let (now, began) = clock.now();
        let counters = [Counter::Deferred, Counter::Timed, Counter::Uploaded];
        let stored = counters.iter().map(|counter| counter.sum(&standing.counters)).sum();
        let timed = due_until(now);
        let may_have = self.memory.0.get().is_none_or(|last| {
            last.stored != stored
                || last.next.is_some_and(|next| next <= timed)
                || now.saturating_since(last.at) >= LISTED_EVERY
                || allowance.deferred > 0 && !last.deferred
        });
        let Some(store) = self.store.filter(|_| may_have) else { return };
        let destinations = &Destinations::of(campaigns, standing, now);
        let (queues, me) = (self.queues, self.entropy.token());
        let site = RefillPorts { store, queues, clock, destinations, me: &me };
        let bounds = Bounds {
            deferred: allowance.deferred,
            timed,
            mails_a_second: allowance.mails_a_second,
            until: began + WITHIN,
        };
        let done = RefCell::default();
        let mut ended = bring_back(site, &bounds, &done).await;
        let done: BroughtBack = done.into_inner();
        let settled = done.runs.settle(store, clock, ledger).await;
        ended = ended.and(settled);
        for left in &done.left {
            let LeftObject { object, why } = left;
            let campaign = &object.campaign;
            tracing::warn!(%object, campaign, ?why, "stored mail left where it is");
        }
        if let Err(error) = &ended {
            let error = error as &dyn std::error::Error;
            tracing::error!(error, "stored mail not brought back");
        }
        if done.mails > 0 {
            let (mails, objects) = (done.mails, done.objects);
            tracing::info!(mails, objects, "stored mail brought back");
        }
        let last = LastList { at: now, stored, next: done.next, deferred: allowance.deferred > 0 };
        let is_all = ended.is_ok() && done.is_all();
        self.memory.0.set(is_all.then_some(last));
        if let Some(latest) = done.latest {
            announce(ledger, standing, latest).await;
        }
        if done.mails > 0 || ended.is_err() || !done.left.is_empty() {
            let failed = ended.is_err() || done.needs_somebody();
            *report.borrow_mut() = Some(RefillReport { done, failed });
        }
    }
}

/// Tells the pollers that mail becomes visible until window `latest`: until then the stack does not sleep.
async fn announce(ledger: &impl Ledger, standing: &Standing, latest: Window) {
    let report = LedgerReport {
        window: latest,
        looks: QueueChecks { due: standing.looks.due.max(Some(latest)), ..QueueChecks::default() },
        upkeep: Upkeep { parts: standing.parts, ..Upkeep::default() },
        ..LedgerReport::default()
    };
    if let Err(error) = ledger.report(&report).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "the ledger does not know that mail is due: it may be a minute late");
    }
}
