//! Replays deferred mail into its campaigns' queues: the oldest object first, batch by batch.
//!
//! After every batch the object's progress is written, and an object is deleted once all of its mails are in
//! their queue. A crash at any point loses nothing. At most one batch is sent twice then; both copies have
//! the same pass, so the merge queue drops the second within five minutes, and deduplication drops it at any
//! time.
//!
//! For example, an object of 25 mails is sent in batches of 10, 10 and 5. After a crash between the second
//! batch and its write, the progress says 10: the next run sends lines 10 to 24, lines 10 to 19 for the
//! second time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::deferral::{ObjectName, Progress, unpack};
use tidegate_core::{Timestamp, in_full};

use crate::poll::pack;
use crate::ports::{
    Clock, DeferralStore, FailureKind, Monotonic, Outgoing, PortError, QueueUrl, Queues, Version,
};

/// An object belongs to the run that works on it until this long after its last write. Then another run may
/// continue, as after a crash.
const TAKEN_FOR: Duration = Duration::from_mins(2);

/// The queues into which mail may be replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// The campaign queues, by campaign name.
    pub queues: BTreeMap<String, QueueUrl>,
    /// Names of held campaigns; their deferred mail stays in the store.
    pub held: BTreeSet<String>,
}

/// Limits of one replay: mails, time and campaign.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The most mails to replay; an object may be replayed in part.
    pub mails: u64,
    /// No batch begins at or after this time; `None` means no limit.
    pub until: Option<Monotonic>,
    /// Replays the mail of this campaign only; `None` means all campaigns.
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
    /// The object cannot be read as deferred mail; the text says why.
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

/// The mails and objects that a replay has handled so far.
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
    /// Whether the replay reached the end of the list within its bounds.
    pub through: bool,
}

impl BroughtBack {
    /// Whether an object was left for a reason that waiting does not cure: an unknown campaign, a refusal or
    /// an unreadable object.
    pub fn needs_somebody(&self) -> bool {
        let waits = |why: &Why| matches!(why, Why::Taken | Why::Held);
        self.left.iter().any(|left| !waits(&left.why))
    }

    /// Whether the replay looked at every object and left none.
    pub fn is_all(&self) -> bool {
        self.through && self.left.is_empty()
    }
}

/// The ports and facts that a replay needs.
#[derive(Clone, Copy, Debug)]
pub struct DeferralReplayPorts<'a, S, Q, C> {
    /// The store that holds the deferred mail.
    pub deferral: &'a S,
    /// The queues to which deferred mail is sent.
    pub queues: &'a Q,
    /// The clocks, for the bounds and for [`Progress::until`].
    pub clock: &'a C,
    /// The queues into which mail may be replayed.
    pub destinations: &'a Destinations,
    /// A name that no other run has, such as a random token.
    pub me: &'a str,
}

/// Replays as much as `bounds` allow. `done` is updated as the work goes on, so it is right even after an
/// error and if this future is dropped.
///
/// # Errors
/// [`PortError`] if the store or a queue does not answer. A later call continues with the rest.
pub async fn bring_back<S: DeferralStore, Q: Queues, C: Clock>(
    site: DeferralReplayPorts<'_, S, Q, C>,
    bounds: &Bounds,
    done: &RefCell<BroughtBack>,
) -> Result<(), PortError> {
    let mut after = None;
    loop {
        let page = site.deferral.list(after.as_deref()).await?;
        let names = page.objects.into_iter().map(|object| object.name);
        let meant =
            |name: &ObjectName| bounds.campaign.as_ref().is_none_or(|c| *c == name.campaign);
        for name in names.filter(meant) {
            if site.room(bounds, done) == 0 {
                return Ok(());
            }
            if let Some(why) = site.object(&name, bounds, done).await? {
                let (object, campaign) = (name.to_string(), name.campaign);
                done.borrow_mut().left.push(LeftObject { object, campaign, why });
            }
        }
        after = page.next;
        if after.is_none() {
            // Without room the last object may be unfinished.
            done.borrow_mut().through = site.room(bounds, done) > 0;
            return Ok(());
        }
    }
}

impl<S: DeferralStore, Q: Queues, C: Clock> DeferralReplayPorts<'_, S, Q, C> {
    /// The number of mails that may still be replayed; 0 after `bounds.until`.
    fn room(&self, bounds: &Bounds, done: &RefCell<BroughtBack>) -> u64 {
        let over = bounds.until.is_some_and(|until| self.clock.monotonic() >= until);
        if over { 0 } else { bounds.mails.saturating_sub(done.borrow().mails) }
    }

    /// Replays one object as far as `bounds` allow. Returns the reason if it is left, else `None`.
    async fn object(
        &self,
        name: &ObjectName,
        bounds: &Bounds,
        done: &RefCell<BroughtBack>,
    ) -> Result<Option<Why>, PortError> {
        if self.destinations.held.contains(&name.campaign) {
            return Ok(Some(Why::Held));
        }
        let Some(queue) = self.destinations.queues.get(&name.campaign) else {
            return Ok(Some(Why::NoCampaign));
        };
        let Some(mut mark) = self.take(name).await? else { return Ok(Some(Why::Taken)) };
        let bytes = match self.deferral.get(name).await {
            Err(PortError { kind: FailureKind::NotFound, .. }) => {
                // Another run finished this object after it was listed.
                self.deferral.forget_progress(name).await?;
                return Ok(None);
            }
            got => got?,
        };
        let mails = match unpack(&bytes) {
            Ok(mails) => mails,
            Err(error) => return Ok(Some(Why::Unreadable(in_full(&error)))),
        };
        let whole = mails.len();
        let rest = (0..).zip(mails).filter(|(line, _)| !mark.progress.has(*line));
        let room = usize::try_from(self.room(bounds, done)).unwrap_or(usize::MAX);
        let rest = rest.take(room).map(|(line, (mail, envelope))| {
            let attributes = envelope.put_back().to_attributes();
            let delay = Duration::ZERO;
            (line, Outgoing { body: mail.body.into(), attributes, delay, fifo: None })
        });
        let mut batches = pack(rest.collect(), |(_, mail)| mail.bytes()).into_iter().peekable();
        while let Some(batch) = batches.next() {
            let (lines, mails): (Vec<usize>, Vec<Outgoing>) = batch.into_iter().unzip();
            let answers = self.queues.send(queue, &mails).await?;
            let mut refused = None;
            for (line, answer) in lines.iter().zip(answers) {
                match answer {
                    Ok(()) => {
                        mark.progress.note(*line);
                        note(done, &name.campaign);
                    }
                    Err(error) => refused = Some(Why::Refused(error.code)),
                }
            }
            let over = self.room(bounds, done) == 0 || refused.is_some();
            let last = over || batches.peek().is_none();
            // After the last batch the object is free at once, so that the next run need not wait.
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
            self.deferral.delete(name).await?;
            self.deferral.forget_progress(name).await?;
            done.borrow_mut().objects += 1;
        }
        Ok(None)
    }

    fn taken_until(&self) -> Timestamp {
        self.clock.wall() + TAKEN_FOR
    }

    /// Claims an object for this run by a conditional write; `None` if another run works on it.
    async fn take(&self, name: &ObjectName) -> Result<Option<ObjectProgress>, PortError> {
        let stands = self.deferral.progress(name).await?;
        let (progress, version) = match stands {
            Some((progress, version)) => (progress, Some(version)),
            None => (Progress::default(), None),
        };
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
        let stands = mark.version.as_ref();
        let written = self.deferral.set_progress(name, &mark.progress, stands).await?;
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

fn note(done: &RefCell<BroughtBack>, campaign: &str) {
    let mut done = done.borrow_mut();
    done.mails += 1;
    *done.campaigns.entry(campaign.to_owned()).or_insert(0) += 1;
}
