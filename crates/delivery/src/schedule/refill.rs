//! Fills the campaigns' queues from the store: with timed mail whose time comes, and with deferred mail once the
//! level is clear, the oldest object first.
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
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tidegate_core::config::Campaign;
use tidegate_core::counters::Counter;
use tidegate_core::idle::QueueChecks;
use tidegate_core::limits::InitialLimits;
use tidegate_core::number::real;
use tidegate_core::parts::Upkeep;
use tidegate_core::store::refill::{delay, due_until, portions, room};
use tidegate_core::store::{ObjectName, Progress, Waits, unpack};
use tidegate_core::{Timestamp, Window, in_full};

use crate::poll::pack;
use crate::ports::{
    Clock, Entropy, FailureKind, Ledger, LedgerReport, Monotonic, Outgoing, PortError, QueueUrl,
    Queues, Standing, Store, Version,
};

/// An object belongs to the run that works on it until this long after its last write. Then another run may
/// continue, as after a crash.
const TAKEN_FOR: Duration = Duration::from_mins(2);
/// Batches that are sent at once; then the progress is written.
const GROUP: usize = 10;
/// Campaigns that are filled at once; each holds an object in memory, of up to 8 MiB packed and unpacked.
const AT_ONCE: usize = 2;
/// No group begins later than this after the run began.
const WITHIN: Duration = Duration::from_secs(40);
/// If nothing was stored since the store was listed, it is listed only this often, and when timed mail is due.
const LISTED_EVERY: Duration = Duration::from_hours(1);

/// The queues into which stored mail may return.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Destinations {
    /// The campaign queues, by campaign name.
    pub queues: BTreeMap<String, QueueUrl>,
    /// The weights in force, by campaign name.
    pub weights: BTreeMap<String, u64>,
    /// Names of held campaigns; their mail stays in the store.
    pub held: BTreeSet<String>,
}

impl Destinations {
    /// The queues of these campaigns, and which of them are held, or have mail that is deferred as their limit has
    /// ended.
    pub fn of(campaigns: &[Campaign], standing: &Standing, now: Timestamp) -> Self {
        let (control, window) = (&standing.control, Window::containing(now));
        let limits = control.limit_table(&InitialLimits::default());
        let weight = |campaign: &Campaign| control.weight(&campaign.name, campaign.weight);
        let is_held = |campaign: &Campaign| {
            control.holds_campaign(&campaign.name) && control.probed_hold(&campaign.name).is_none()
                || weight(campaign) == 0
                || limits.defers_campaign(&campaign.name, window)
        };
        let queue = |c: &Campaign| (c.name.clone(), QueueUrl::new(c.queue_url.as_str()));
        let held = campaigns.iter().filter(|campaign| is_held(campaign));
        Self {
            queues: campaigns.iter().map(queue).collect(),
            weights: campaigns.iter().map(|c| (c.name.clone(), u64::from(weight(c)))).collect(),
            held: held.map(|campaign| campaign.name.clone()).collect(),
        }
    }
}

/// Limits of one run.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The most deferred mails; an object may be brought back in part.
    pub deferred: u64,
    /// The last window whose timed mail is brought back.
    pub timed: Window,
    /// Mails a second that the stack sends, by which timed mail fills its queue; `None` fills it with all.
    pub mails_a_second: Option<f64>,
    /// No group begins at or after this time; `None` means no limit.
    pub until: Option<Monotonic>,
    /// The mail of this campaign only; `None` means all campaigns.
    pub campaign: Option<String>,
}

/// The reason why an object was left in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why", content = "detail")]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftObject {
    /// The object's name, as the store lists it.
    pub object: String,
    /// The campaign whose mails the object contains.
    pub campaign: String,
    /// The reason why it was left.
    #[serde(flatten)]
    pub why: Why,
}

/// The mails and objects that a run has brought back so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BroughtBack {
    /// Mails sent to their campaign queues.
    pub mails: u64,
    /// The same mails, by campaign name.
    pub campaigns: BTreeMap<String, u64>,
    /// Objects whose mails are all in their queues; these objects are deleted.
    pub objects: u64,
    /// Objects that were left in the store, with the reason.
    pub left: Vec<LeftObject>,
    /// Whether the run brought back all that its bounds allow but for what was left.
    pub through: bool,
    /// The latest `not_before` of the timed mails among them.
    #[serde(skip)]
    pub latest: Option<Window>,
    /// The window of the first timed mail that is not due yet.
    #[serde(skip)]
    pub next: Option<Window>,
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
/// [`PortError`] if the store or a queue does not answer. A later call continues with the rest.
pub async fn bring_back<S: Store, Q: Queues, C: Clock>(
    site: RefillPorts<'_, S, Q, C>,
    bounds: &Bounds,
    done: &RefCell<BroughtBack>,
) -> Result<(), PortError> {
    let (objects, listed_all) = site.due(bounds, done).await?;
    let rooms = site.rooms(bounds, &objects).await?;
    let portions = portions(&objects, rooms, bounds.deferred);
    let through =
        listed_all && objects.iter().zip(&portions).all(|(o, portion)| o.mails == *portion);
    let mut campaigns = BTreeMap::<String, Vec<(ObjectName, u64)>>::new();
    for (object, portion) in objects.into_iter().zip(portions).filter(|(_, portion)| *portion > 0) {
        campaigns.entry(object.campaign.clone()).or_default().push((object, portion));
    }
    let fill = async |objects: Vec<(ObjectName, u64)>| {
        for (object, portion) in objects {
            if site.is_over(bounds) {
                break;
            }
            if let Some(why) = site.object(&object, portion, bounds, done).await? {
                let (object, campaign) = (object.to_string(), object.campaign);
                done.borrow_mut().left.push(LeftObject { object, campaign, why });
            }
        }
        Ok(())
    };
    let all = stream::iter(campaigns.into_values().map(Ok));
    all.try_for_each_concurrent(AT_ONCE, fill).await?;
    done.borrow_mut().through = through && !site.is_over(bounds);
    Ok(())
}

impl<S: Store, Q: Queues, C: Clock> RefillPorts<'_, S, Q, C> {
    fn is_over(&self, bounds: &Bounds) -> bool {
        bounds.until.is_some_and(|until| self.clock.monotonic() >= until)
    }

    /// The objects that may be brought back, in the order in which they are; and whether that is all of them. Those
    /// whose campaign is held or unknown are noted as left.
    async fn due(
        &self,
        bounds: &Bounds,
        done: &RefCell<BroughtBack>,
    ) -> Result<(Vec<ObjectName>, bool), PortError> {
        let (mut due, mut all) = (Vec::new(), true);
        for waits in Waits::ALL {
            let (mut after, mut mails) = (None, 0);
            let bound = if waits == Waits::Deferred { bounds.deferred } else { u64::MAX };
            'folder: while mails < bound {
                let page = self.store.list(waits.as_str(), after.as_deref()).await?;
                for object in page.objects.iter().filter_map(|object| object.key.parse().ok()) {
                    let object: ObjectName = object;
                    if waits == Waits::Timed && object.window > bounds.timed {
                        done.borrow_mut().next = Some(object.window);
                        break 'folder;
                    }
                    if bounds.campaign.as_ref().is_some_and(|of| *of != object.campaign) {
                        continue;
                    }
                    match self.reason_to_leave(&object.campaign) {
                        None => {
                            mails += object.mails;
                            due.push(object);
                        }
                        Some(why) => {
                            let (object, campaign) = (object.to_string(), object.campaign);
                            done.borrow_mut().left.push(LeftObject { object, campaign, why });
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

    fn reason_to_leave(&self, campaign: &str) -> Option<Why> {
        match self.destinations.queues.get(campaign) {
            _ if self.destinations.held.contains(campaign) => Some(Why::Held),
            None => Some(Why::NoCampaign),
            Some(_) => None,
        }
    }

    /// The room on the queues of the campaigns with timed mail.
    async fn rooms(
        &self,
        bounds: &Bounds,
        objects: &[ObjectName],
    ) -> Result<BTreeMap<String, u64>, PortError> {
        let Some(mails_a_second) = bounds.mails_a_second else { return Ok(BTreeMap::new()) };
        let timed = objects.iter().filter(|object| object.waits == Waits::Timed);
        let campaigns: BTreeSet<&str> = timed.map(|object| object.campaign.as_str()).collect();
        let Destinations { queues, weights, .. } = self.destinations;
        let weight = |campaign: &str| weights.get(campaign).copied().unwrap_or(1);
        let sum: u64 = campaigns.iter().map(|campaign| weight(campaign)).sum();
        let room = async |campaign: &str| {
            let depth = self.queues.depth(&queues[campaign]).await?.all();
            let share = real(weight(campaign)) / real(sum.max(1));
            Ok((campaign.to_owned(), room(depth, mails_a_second, share)))
        };
        stream::iter(campaigns).map(room).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Brings up to `portion` mails of one object back. Returns the reason if it is left, else `None`.
    async fn object(
        &self,
        name: &ObjectName,
        portion: u64,
        bounds: &Bounds,
        done: &RefCell<BroughtBack>,
    ) -> Result<Option<Why>, PortError> {
        let Some(mut mark) = self.take(name).await? else { return Ok(Some(Why::Taken)) };
        let Some((bytes, _)) = self.store.get(&name.to_string()).await? else {
            // Another run finished this object after it was listed.
            self.store.delete(&name.progress_key()).await?;
            return Ok(None);
        };
        let mails = match unpack(&bytes) {
            Ok(mails) => mails,
            Err(error) => return Ok(Some(Why::Unreadable(in_full(&error)))),
        };
        drop(bytes);
        let (whole, now) = (mails.len(), self.clock.wall());
        let rest = (0..).zip(mails).filter(|(line, _)| !mark.progress.has(*line));
        let portion = usize::try_from(portion).unwrap_or(usize::MAX);
        let mut latest = None;
        let rest = rest.take(portion).map(|(line, (mail, envelope))| {
            let attributes = envelope.put_back().to_attributes();
            let not_before = mail.not_before.map(Timestamp::from);
            latest = latest.max(not_before.map(Window::containing));
            let delay = not_before.map_or(Duration::ZERO, |at| delay(at, now));
            (line, Outgoing { body: mail.body.into(), attributes, delay, fifo: None })
        });
        let batches = pack(rest.collect(), |(_, mail)| mail.bytes());
        let noted = done.borrow().latest.max(latest);
        done.borrow_mut().latest = noted;
        let queue = &self.destinations.queues[&name.campaign];
        let mut groups = batches.chunks(GROUP).peekable();
        while let Some(group) = groups.next() {
            let sent = try_join_all(group.iter().map(async |batch: &Vec<(usize, Outgoing)>| {
                let (lines, mails): (Vec<usize>, Vec<Outgoing>) = batch.iter().cloned().unzip();
                let answers = self.queues.send(queue, &mails).await?;
                Ok::<_, PortError>(lines.into_iter().zip(answers).collect::<Vec<_>>())
            }));
            let mut refused = None;
            for (line, answer) in sent.await?.into_iter().flatten() {
                match answer {
                    Ok(()) => {
                        mark.progress.note(line);
                        note(done, &name.campaign);
                    }
                    Err(error) => refused = Some(Why::Refused(error.code)),
                }
            }
            let over = self.is_over(bounds) || refused.is_some();
            let last = over || groups.peek().is_none();
            // After the last group the object is free at once, so that the next run need not wait.
            mark.progress.until = (!last).then(|| self.taken_until().into());
            if !self.write(name, &mut mark).await? {
                return Ok(Some(Why::Taken));
            }
            if refused.is_some() {
                return Ok(refused);
            }
            if over {
                break;
            }
        }
        if mark.progress.count() >= whole {
            self.store.delete(&name.to_string()).await?;
            self.store.delete(&name.progress_key()).await?;
            done.borrow_mut().objects += 1;
        }
        Ok(None)
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
        let until = Some(self.taken_until().into());
        let progress = Progress { by: self.me.to_owned(), until, ..progress };
        let mut mark = ObjectProgress { progress, version };
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

fn note(done: &RefCell<BroughtBack>, campaign: &str) {
    let mut done = done.borrow_mut();
    done.mails += 1;
    *done.campaigns.entry(campaign.to_owned()).or_insert(0) += 1;
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
    /// Mails a second that the stack sends; `None` if no quota is known.
    pub(crate) mails_a_second: Option<f64>,
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
        ledger: &impl Ledger,
        report: &RefCell<Option<RefillReport>>,
    ) {
        let (now, began) = clock.now();
        let stored =
            Counter::Deferred.sum(&standing.counters) + Counter::Timed.sum(&standing.counters);
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
            until: Some(began + WITHIN),
            campaign: None,
        };
        let done = RefCell::default();
        let ended = bring_back(site, &bounds, &done).await;
        let done: BroughtBack = done.into_inner();
        for left in &done.left {
            let (object, campaign, why) = (&left.object, &left.campaign, &left.why);
            tracing::warn!(object, campaign, ?why, "stored mail left where it is");
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
        self.memory.0.set((ended.is_ok() && done.is_all()).then_some(last));
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
