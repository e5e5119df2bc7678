//! The parts of a seed's world, and the least of them with which it still fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use tidegate_core::Timestamp;

use super::Chaos;
use crate::simulation::PollerEnd;

/// What is left out of a seed's world.
#[derive(Clone, Debug, Default)]
pub struct Reduction {
    /// Parts by their texts.
    without: BTreeSet<String>,
    /// How often the number of mails is halved.
    halvings: u32,
}

/// The parts that a world has: faults, events and kinds of mail. Each is drawn whether or not it is left out, so that the others
/// stay what they were.
#[derive(Debug)]
pub(super) struct Parts {
    reduction: Reduction,
    /// The kind of each, and its text.
    told: Vec<(&'static str, String)>,
}

impl Parts {
    pub(super) fn new(reduction: &Reduction) -> Self {
        Self { reduction: reduction.clone(), told: Vec::new() }
    }

    /// Whether the world has this part, which was drawn.
    pub(super) fn has(&mut self, kind: &'static str, detail: &str) -> bool {
        let text = format!("{kind} {detail}");
        let has = !self.reduction.without.contains(&text);
        if has {
            self.told.push((kind, text));
        }
        has
    }

    /// So many, or none where they are left out.
    pub(super) fn count<T: Copy + Default + PartialEq + Display>(
        &mut self,
        kind: &'static str,
        drawn: T,
    ) -> T {
        let none = T::default();
        if drawn != none && self.has(kind, &drawn.to_string()) { drawn } else { none }
    }

    /// How many of so many mails are not left out.
    pub(super) fn fewer(&self, mails: usize) -> usize {
        mails.checked_shr(self.reduction.halvings).unwrap_or(0)
    }

    pub(super) fn told(&self) -> impl Iterator<Item = &str> {
        self.told.iter().map(|(_, text)| text.as_str())
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.told.iter().map(|(kind, _)| *kind)
    }
}

/// Leaves out whatever is not needed for `run` to make a world that `fails`: parts, first many at once, then one by one, and
/// mails. Returns none if even the whole world does not fail.
pub fn shrink(
    run: impl Fn(&Reduction) -> Box<Chaos>,
    fails: impl Fn(&Chaos) -> bool,
) -> Option<Box<Chaos>> {
    let mut least = Some(run(&Reduction::default())).filter(|whole| fails(whole))?;
    let attempt = |reduction: &Reduction| Some(run(reduction)).filter(|less| fails(less));
    let mut at_once = least.parts.told.len();
    while at_once > 0 {
        let texts: Vec<String> = least.parts.told().map(str::to_owned).collect();
        for some in texts.chunks(at_once) {
            let mut reduction = least.parts.reduction.clone();
            reduction.without.extend(some.iter().cloned());
            least = attempt(&reduction).unwrap_or(least);
        }
        // One by one for as long as something goes: a part may be needed only by another.
        if at_once > 1 || least.parts.told.len() == texts.len() {
            at_once /= 2;
        }
    }
    loop {
        let mut reduction = least.parts.reduction.clone();
        reduction.halvings += 1;
        match attempt(&reduction) {
            Some(less) if reduction.halvings < 12 => least = less,
            _ => return Some(least),
        }
    }
}

impl Chaos {
    /// The world in words: its settings, its parts, and the story of a mail that `found` names.
    pub fn told(&self, found: &str) -> String {
        let enqueued = self.world.enqueued.borrow();
        let names = |id: &&String| {
            found.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == *id)
        };
        let story = enqueued.keys().find(names).map(|id| self.story_of(id)).unwrap_or_default();
        let settings = self.story.iter().map(String::as_str);
        let mails = format!("{} mails", enqueued.len());
        let parts = self.parts.told().map(str::trim_end);
        let lines = settings.chain([mails.as_str()]).chain(parts);
        lines.chain(story.iter().map(String::as_str)).collect::<Vec<_>>().join("\n  ")
    }

    /// What happened to a mail, in order.
    fn story_of(&self, id: &str) -> Vec<String> {
        let world = &self.world;
        let mut events: BTreeMap<Timestamp, Vec<String>> = BTreeMap::new();
        let mut tell = |at, text: String| events.entry(at).or_default().push(text);
        for url in world.queues.urls() {
            let name = url.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            for (at, identity) in world.queues.taken(&url) {
                if identity.rsplit(':').next() == Some(id) {
                    tell(at, format!("put on {name}"));
                }
            }
            for (at, body) in world.queues.doubled(&url) {
                if body.contains(&format!("\"{id}\"")) {
                    tell(at, format!("{name} delivers it once more"));
                }
            }
        }
        for strike in world.mail_faults.strikes().into_iter().chain(world.faults.strikes()) {
            if strike.resource.rsplit(['/', ':']).next() == Some(id) {
                tell(strike.at, format!("{} of {:?}", strike.fault, strike.operation));
            }
        }
        for arrival in world.ses.arrivals().into_iter().filter(|arrival| arrival.id == id) {
            let verdict = arrival
                .verdict
                .as_ref()
                .map_or_else(|refused| refused.message.clone(), |_| "accepted".to_owned());
            tell(arrival.at, format!("SES, from environment {}: {verdict}", arrival.environment));
        }
        for run in world.poller_runs().iter() {
            if let PollerEnd::Crashed = run.end {
                tell(run.ended, format!("the poller of environment {} is killed", run.environment));
            }
        }
        let lines = events
            .into_iter()
            .flat_map(|(at, texts)| texts.into_iter().map(move |text| format!("  {at} {text}")));
        [format!("the story of {id}:")].into_iter().chain(lines).collect()
    }
}
