//! Bringing deferred mail back to its campaigns' queues: the oldest object first, a batch at a time.
//!
//! After every batch it is written down how far the object is, and an object is deleted once all of it
//! stands in its queue. Whoever is killed anywhere in between loses nothing, and leaves at most one
//! batch to be brought back twice; such copies have one pass, so the merge queue takes them for one
//! mail within five minutes, and deduplication at any time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::deferral::{ObjectName, Progress, unpack};

use crate::poll::pack;
use crate::ports::{
    Clock, DeferralStore, FailureKind, Monotonic, Outgoing, PortError, QueueUrl, Queues, Version,
};

/// How long an object is left to whoever is at it, from the last batch on.
const TAKEN_FOR: Duration = Duration::from_mins(2);

/// Where mail may go back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// The campaigns' queues, by name.
    pub queues: BTreeMap<String, QueueUrl>,
    /// Campaigns that are held: their mail stays where it is.
    pub held: BTreeSet<String>,
}

/// How much is brought back.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Mails at most.
    pub mails: u64,
    /// No batch begins after this; none is no limit.
    pub until: Option<Monotonic>,
    /// Of this campaign alone.
    pub campaign: Option<String>,
}

/// Why an object was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why", content = "detail")]
pub enum Why {
    /// There is no such campaign (any more).
    NoCampaign,
    /// The campaign is held.
    Held,
    /// Another brings it back right now.
    Taken,
    /// It is no object of deferred mail; what is wrong with it.
    Unreadable(String),
    /// The queue refused some of its mails; the code.
    Refused(String),
}

/// An object that was left where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftObject {
    /// Its name.
    pub object: String,
    /// Whose mails it holds.
    pub campaign: String,
    /// Why.
    #[serde(flatten)]
    pub why: Why,
}

/// What was brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BroughtBack {
    /// Mails that stand in their queues again.
    pub mails: u64,
    /// These, by campaign.
    pub campaigns: BTreeMap<String, u64>,
    /// Objects that are brought back whole, and deleted.
    pub objects: u64,
    /// Objects that were left.
    pub left: Vec<LeftObject>,
    /// Whether every object was looked at.
    pub through: bool,
}

impl BroughtBack {
    /// Whether an object is left that needs somebody: it does not come back by waiting.
    pub fn needs_somebody(&self) -> bool {
        let waits = |why: &Why| matches!(why, Why::Taken | Why::Held);
        self.left.iter().any(|left| !waits(&left.why))
    }

    /// Whether nothing that could be brought back is left.
    pub fn is_all(&self) -> bool {
        self.through && self.left.is_empty()
    }
}

/// What bringing back works on.
#[derive(Clone, Copy, Debug)]
pub struct DeferralReplayPorts<'a, S, Q, C> {
    /// The deferred mail.
    pub deferral: &'a S,
    /// The queues.
    pub queues: &'a Q,
    /// Time.
    pub clock: &'a C,
    /// Where mail may go back to.
    pub destinations: &'a Destinations,
    /// Who brings it back: nobody else's name.
    pub me: &'a str,
}

/// Brings back what `bounds` allow; what was done stands in `done`, wherever this ends.
///
/// # Errors
/// [`PortError`]: what is left can be brought back by another call.
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
            // The last object may have been too large for what was left of the bounds.
            done.borrow_mut().through = site.room(bounds, done) > 0;
            return Ok(());
        }
    }
}

impl<S: DeferralStore, Q: Queues, C: Clock> DeferralReplayPorts<'_, S, Q, C> {
    /// Mails that may still be brought back.
    fn room(&self, bounds: &Bounds, done: &RefCell<BroughtBack>) -> u64 {
        let over = bounds.until.is_some_and(|until| self.clock.monotonic() >= until);
        if over { 0 } else { bounds.mails.saturating_sub(done.borrow().mails) }
    }

    /// Brings an object back as far as `bounds` allow; gives why it is left.
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
                // Another was through with it since it was listed.
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
            // Whoever comes next need not wait for one who is through.
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

    /// Makes an object this one's; none where another is at it.
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

    /// Writes how far it is; false where another came first.
    async fn write(&self, name: &ObjectName, mark: &mut ObjectProgress) -> Result<bool, PortError> {
        let stands = mark.version.as_ref();
        let written = self.deferral.set_progress(name, &mark.progress, stands).await?;
        let ours = written.is_some();
        mark.version = written.or(mark.version.take());
        Ok(ours)
    }
}

/// How far an object is, and as what that stands.
struct ObjectProgress {
    progress: Progress,
    version: Option<Version>,
}

fn note(done: &RefCell<BroughtBack>, campaign: &str) {
    let mut done = done.borrow_mut();
    done.mails += 1;
    *done.campaigns.entry(campaign.to_owned()).or_insert(0) += 1;
}

fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
