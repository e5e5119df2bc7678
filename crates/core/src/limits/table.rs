use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::adaptive::{Adapted, AdaptedLimits, DeferralLevel, tidy};
use super::key::{Dimension, LimitKey, OTHERS, TWICE};
use super::limit::Limit;
use super::limit::LimitRate;
use super::slots::LimitGrid;
use crate::channel::Content;
use crate::rate::{Rate, RateMargin};
use crate::text::InvalidText;
use crate::timestamp::Window;

/// The most groups that `TIDEGATE_LIMITS` may list, `*` not counted.
const MAX_GROUPS: usize = 20;

/// Stands between two limits' tags in [`LimitTable::tags`].
pub const TAGS: &str = "__";

/// The fault of an entry of a list of limits.
const NO_LIMIT: &str = "is no limit; allowed is a comma-separated list such as gmail.com+googlemail.com=10/s, tiny.example=6/m, *=25%: \
    domains joined by +, then a rate a second, minute, hour or day (/s /m /h /d), or a share of the account's quota in %";
const NO_DOMAIN: &str = "is no domain; allowed are domains such as gmail.com, and *. Other limits are set by tidegate limit";

/// `TIDEGATE_LIMITS`: a rate for each listed group of domains, and optionally one for every other
/// domain. These limits hold until an operator changes them ([`LimitTable::of`]).
///
/// ```
/// use tidegate_core::limits::InitialLimits;
/// let limits: InitialLimits = "gmail.com+googlemail.com=10/s, *=25%".parse()?;
/// assert_eq!((limits.len(), limits.to_string()), (2, "gmail.com+googlemail.com=10/s, *=25%".to_owned()));
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitialLimits(Vec<(LimitKey, LimitRate)>);

/// The limits that operators set and policies change, by key; `None` removes an initial one. The control
/// record has them.
pub type LimitChanges = BTreeMap<LimitKey, Option<Limit>>;

impl InitialLimits {
    /// Whether the list limits nothing.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of limits, which is the number of limit queues that they need.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// A number that differs for different limits, by which a claim notices a change; 0 if nothing is
    /// limited.
    pub fn digest(&self) -> u64 {
        if self.is_empty() { 0 } else { digest_of(&self.to_string()) }
    }

    /// The limits in the order of their queues: the groups as they are listed, then `*`.
    pub fn iter(&self) -> impl Iterator<Item = &(LimitKey, LimitRate)> {
        self.0.iter()
    }
}

impl FromStr for InitialLimits {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let mut limits: Vec<(LimitKey, LimitRate)> = Vec::new();
        for entry in text.split(',').map(str::trim) {
            let (names, rate) =
                entry.split_once('=').ok_or_else(|| InvalidText::new(entry, NO_LIMIT))?;
            let rate = rate.trim().parse()?;
            let names = names.trim();
            let is_named = names.contains(':') || names.contains('@');
            let key: LimitKey =
                if is_named { names.to_owned() } else { format!("domain:{names}") }.parse()?;
            if key.dimension != Dimension::Domain {
                return Err(InvalidText::new(&key.to_string(), NO_DOMAIN));
            }
            if let Some(name) = limits.iter().find_map(|(known, _)| known.shared_name(&key)) {
                return Err(InvalidText::new(name, TWICE));
            }
            limits.push((key, rate));
        }
        let groups = limits.iter().filter(|(key, _)| !key.is_each()).count();
        if groups > MAX_GROUPS {
            let fault = format!("are too many groups; allowed are at most {MAX_GROUPS}");
            return Err(InvalidText::new(&groups.to_string(), fault));
        }
        limits.sort_by_key(|(key, _)| key.is_each());
        Ok(Self(limits))
    }
}

impl fmt::Display for InitialLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, rate)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let names = if key.is_each() { "*".to_owned() } else { key.names.join("+") };
            write!(f, "{comma}{names}={rate}")?;
        }
        Ok(())
    }
}

/// A limit that a mail falls under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitRef {
    /// The limit's index in its [`LimitTable`].
    pub index: usize,
    /// Under `*`: the name, in lower case where case does not matter.
    pub name: Option<Box<str>>,
}

/// A mail's properties besides its content that limits may count.
#[derive(Clone, Copy, Debug)]
pub struct MailFacts<'a> {
    /// The campaign's name.
    pub campaign: &'a str,
    /// The configuration set by which it is sent; none without one.
    pub configuration_set: Option<&'a str>,
    /// SES's tenant for which it is sent; none without one.
    pub tenant: Option<&'a str>,
}

/// All limits in force: the initial ones, as operators and policies have changed them, and those that were
/// added.
///
/// ```
/// use tidegate_core::limits::{Limit, LimitChanges, LimitTable};
/// let added: Limit = serde_json::from_str(r#"{"rate": "5000/h"}"#)?;
/// let changes: LimitChanges = [("news".parse()?, Some(added)), ("*".parse()?, None)].into();
/// let table = LimitTable::of(&"gmail.com=10/s, *=25%".parse()?, &changes);
/// let limits: Vec<String> = table.limits().map(|(key, limit)| format!("{key}={limit}")).collect();
/// assert_eq!(limits, ["domain:gmail.com=10/s", "campaign:news=5000/h"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitTable {
    /// An initial limit that was removed keeps its place, for its queue.
    entries: Vec<(LimitKey, Option<Limit>)>,
    /// The number of initial limits: the first entries, each with a queue of its own.
    initial: usize,
    /// The limits that deferrals have lowered.
    adapted: AdaptedLimits,
}

impl LimitTable {
    /// The table of the `initial` limits and their `changes`.
    pub fn of(initial: &InitialLimits, changes: &LimitChanges) -> Self {
        let entry = |(key, rate): &(LimitKey, LimitRate)| (key.clone(), Some((*rate).into()));
        let entries = initial.iter().map(entry).collect();
        let mut table = Self { entries, initial: initial.len(), adapted: AdaptedLimits::new() };
        for (key, limit) in changes {
            match table.entries.iter_mut().find(|(known, _)| known == key) {
                Some((_, stood)) => stood.clone_from(limit),
                None if limit.is_none() => {}
                None => table.entries.push((key.clone(), limit.clone())),
            }
        }
        table
    }

    /// The same table with the adaptive limits as far as they are lowered.
    pub fn adapted(self, adapted: &AdaptedLimits) -> Self {
        Self { adapted: adapted.clone(), ..self }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.limits().next().is_none()
    }

    /// The limits in force, with their keys.
    pub fn limits(&self) -> impl Iterator<Item = (&LimitKey, &Limit)> {
        self.indexed().map(|(_, key, limit)| (key, limit))
    }

    /// As [`Self::limits`], with each limit's index in the table.
    pub fn indexed(&self) -> impl Iterator<Item = (usize, &LimitKey, &Limit)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, (key, limit))| Some((index, key, limit.as_ref()?)))
    }

    /// Key and limit of the entry with this index; `None` if it was removed.
    pub fn get(&self, index: usize) -> Option<(&LimitKey, &Limit)> {
        let (key, limit) = self.entries.get(index)?;
        Some((key, limit.as_ref()?))
    }

    /// A limit in force that shares a name with `key` and is another one: a mail would fall under both.
    pub fn conflict(&self, key: &LimitKey) -> Option<&LimitKey> {
        self.limits()
            .map(|(known, _)| known)
            .find(|known| *known != key && known.shared_name(key).is_some())
    }

    /// The limit of `name` in this dimension: the one that lists it (an address before its domain, the longest beginning
    /// of a number), else `*`.
    pub fn find(&self, dimension: Dimension, name: &str) -> Option<LimitRef> {
        let of = || self.indexed().filter(|(_, key, _)| key.dimension == dimension);
        let listed = of().filter_map(|(index, key, _)| Some((key.lists(name)?, index))).max();
        if let Some((_, index)) = listed {
            return Some(LimitRef { index, name: None });
        }
        let (index, ..) = of().filter(|(_, key, _)| key.is_each()).last()?;
        Some(LimitRef { index, name: Some(dimension.each_name(name).into_boxed_str()) })
    }

    /// The name of a limit in messages: a domain's alone, other names with their dimension.
    pub fn name(&self, of: &LimitRef) -> String {
        let Some((key, _)) = self.entries.get(of.index) else { return String::new() };
        let name = of.name.as_deref().unwrap_or(key.name());
        match key.dimension {
            Dimension::Domain => name.to_owned(),
            dimension => format!("{}:{name}", dimension.as_str()),
        }
    }

    /// The slot grid of a limit in `window`, shifted so that limits of one rate do not all send at the same instant; see
    /// [`Limit::grid`] and [`LimitGrid::shifted`].
    pub fn grid(
        &self,
        of: &LimitRef,
        window: Window,
        rates: (Rate, RateMargin),
    ) -> Option<LimitGrid> {
        let (_, limit) = self.get(of.index)?;
        let grid = limit.grid(window, rates.0, rates.1, self.lowered(of))?;
        Some(grid.shifted(of.index, of.name.as_deref().unwrap_or_default()))
    }

    /// How far deferrals have lowered a limit; `None` if they have not.
    pub fn lowered(&self, of: &LimitRef) -> Option<&Adapted> {
        let (_, limit) = self.get(of.index).filter(|_| !self.adapted.is_empty())?;
        if limit.adaptive { self.adapted.get(&self.tag(of)) } else { None }
    }

    /// The name of a limit as the value of an SES tag, which has letters, digits, - and _. Example:
    /// `gmail_com`.
    pub fn tag(&self, of: &LimitRef) -> String {
        self.name(of).replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_")
    }

    /// The tags of the limits of a mail that SES's notices about it concern, joined by two `_`; `None` without
    /// such a limit.
    pub fn tags(&self, demands: &Demands) -> Option<String> {
        let hears = |of: &LimitRef| self.get(of.index).is_some_and(|(_, limit)| limit.hears());
        let tags: Vec<String> =
            demands.iter().filter(|(of, _)| hears(of)).map(|(of, _)| self.tag(of)).collect();
        (!tags.is_empty()).then(|| tags.join(TAGS))
    }

    /// The demands of a mail, and the configuration set through which it is sent, if it does not keep to the limit
    /// `over` and that limit has a configuration set for the rest.
    pub fn overflow(&self, demands: &Demands, over: &LimitRef) -> Option<(Demands, &str)> {
        let set = self.get(over.index)?.1.overflow.as_deref()?;
        let recipients = demands.iter().find(|(of, _)| *of == over)?.1;
        let keeps = |(of, _): &(&LimitRef, u32)| {
            *of != over && self.dimension(of) != Some(Dimension::ConfigurationSet)
        };
        let kept = demands.iter().filter(keeps).map(|(of, recipients)| (of.clone(), recipients));
        let mut demands = Demands(kept.collect());
        demands.add(self.find(Dimension::ConfigurationSet, set), recipients);
        Some((demands, set))
    }

    /// Whether mail over this limit is sent through another configuration set.
    pub fn overflows(&self, of: &LimitRef) -> bool {
        self.get(of.index).is_some_and(|(_, limit)| limit.overflow.is_some())
    }

    /// The limit with this tag; `None` if there is none any more.
    pub fn tagged(&self, tag: &str) -> Option<LimitRef> {
        let named = self.indexed().filter(|(_, key, _)| !key.is_each());
        let mut named = named.map(|(index, ..)| LimitRef { index, name: None });
        named.find(|of| self.tag(of) == tag).or_else(|| {
            // No domain contains a _.
            self.find(Dimension::Domain, &tag.replace('_', ".")).filter(|of| of.name.is_some())
        })
    }

    /// Lowers the adaptive limits of which too much mail was deferred, and returns all that are lowered. `deferred`
    /// has, by tag, the windows in which that mail was sent; `levels` what was heard before.
    pub fn after_deferrals(
        &self,
        levels: &mut BTreeMap<String, DeferralLevel>,
        deferred: &BTreeMap<&str, Vec<Window>>,
        quota: Rate,
        now: Window,
    ) -> AdaptedLimits {
        let mut adapted = self.adapted.clone();
        for (tag, sent) in deferred {
            let limit = self.tagged(tag).and_then(|of| self.get(of.index));
            let Some((_, Limit { adaptive: true, rate: Some(rate), .. })) = limit else { continue };
            let before = adapted.get(*tag).copied();
            let rate = rate.of(quota);
            let level = levels.entry((*tag).to_owned()).or_default();
            let in_force = Adapted::rate(before.as_ref(), rate, now);
            if level.add(sent.len() as u64, in_force, now) {
                let lowered = Adapted::deferred(before, sent, rate, now);
                adapted.extend(lowered.map(|lowered| ((*tag).to_owned(), lowered)));
            }
        }
        tidy(&mut adapted, levels, now);
        adapted
    }

    /// Whether the limit of a campaign lets nothing through in `window`: outside its hours, before its begin,
    /// or after its end.
    pub fn closes_campaign(&self, campaign: &str, window: Window) -> bool {
        // The rates are no matter: no rate closes a limit.
        let rates = (Rate::MAX, RateMargin::default());
        let limit = self.find(Dimension::Campaign, campaign);
        let slots = limit.and_then(|limit| self.grid(&limit, window, rates));
        slots.is_some_and(LimitGrid::is_closed)
    }

    /// Whether a campaign's limit has ended by `window` and defers what is left.
    pub fn defers_campaign(&self, campaign: &str, window: Window) -> bool {
        let limit = self.find(Dimension::Campaign, campaign);
        let limit = limit.and_then(|limit| self.get(limit.index));
        limit.is_some_and(|(_, limit)| limit.defers && limit.has_ended(window))
    }

    /// The property by which a limit counts; `None` if it was removed.
    pub fn dimension(&self, of: &LimitRef) -> Option<Dimension> {
        self.get(of.index).map(|(key, _)| key.dimension)
    }

    /// The rate of a limit in recipients per second; `None` if it has none or one that is at least `quota`.
    pub fn rate(&self, of: &LimitRef, quota: Rate) -> Option<Rate> {
        let (_, limit) = self.get(of.index)?;
        limit.rate.map(|rate| rate.of(quota)).filter(|rate| *rate < quota)
    }

    /// The place of the limit's own queue in `TIDEGATE_LIMIT_QUEUES`: initial limits of groups have one, and
    /// others that got a queue which no initial limit has.
    pub fn queue_of(&self, of: &LimitRef) -> Option<usize> {
        if of.name.is_some() {
            return None;
        }
        if of.index < self.initial {
            return Some(of.index);
        }
        self.get(of.index)?.1.queue.filter(|place| *place >= self.initial)
    }

    /// The limit whose queue is at `place`, with its index; `None` if no limit has it.
    pub fn owner(&self, place: usize) -> Option<(usize, &LimitKey)> {
        let owns = |index: usize| self.queue_of(&LimitRef { index, name: None }) == Some(place);
        self.indexed().find(|(index, _, _)| owns(*index)).map(|(index, key, _)| (index, key))
    }

    /// The place of the queue of the initial limit `*`, in which mail of many domains waits; `None` if there
    /// is no such limit now.
    pub fn others_queue(&self) -> Option<usize> {
        let mut initial = self.indexed().take_while(|(place, ..)| *place < self.initial);
        initial.find(|(_, key, _)| key.is_each()).map(|(place, ..)| place)
    }

    /// The name of the queue at `place` in counters: the first name of its limit, or [`OTHERS`]; `None` for a
    /// queue that belongs to no limit.
    pub fn queue_name(&self, place: usize) -> Option<&str> {
        let (_, key) = self.owner(place)?;
        Some(if key.is_each() { OTHERS } else { key.name() })
    }
}

/// A number that differs for different changes of limits, by which a claim notices one; 0 if there are none.
pub fn digest(changes: &LimitChanges, adapted: &AdaptedLimits) -> u64 {
    match (changes.is_empty(), adapted.is_empty()) {
        (true, true) => 0,
        (false, true) => digest_of(changes),
        (_, false) => digest_of(&(changes, adapted)),
    }
}

/// The first 53 bits of the SHA-256 of `value` as JSON, because JSON readers that use doubles keep whole
/// numbers up to 2^53 only.
fn digest_of(value: &impl Serialize) -> u64 {
    // Raised when the same limits get other slots: to the next window they are other limits then.
    const GRIDS: u8 = 2;
    let text = serde_json::to_vec(&(GRIDS, value)).unwrap_or_default();
    let hash = Sha256::digest(&text);
    hash.iter().take(8).fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)) >> 11
}

/// The recipients of one mail that fall under limits, counted by limit; empty for most mails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands(Vec<(LimitRef, u32)>);

impl Demands {
    /// The slots of `content` under each limit of `table`: a mail's recipients (to, cc and bcc), a text's parts.
    pub fn of(content: &Content, facts: MailFacts<'_>, table: &LimitTable) -> Self {
        if table.is_empty() {
            return Self::default();
        }
        let mut demands = Self::default();
        for (_, domain) in content.recipients().filter_map(|to| to.rsplit_once('@')) {
            demands.add(table.find(Dimension::Domain, domain), 1);
        }
        let all = content.slots();
        let of = |dimension, name: Option<&str>| name.and_then(|name| table.find(dimension, name));
        demands.add(of(Dimension::Campaign, Some(facts.campaign)), all);
        let (from, phone) = match content {
            Content::Email(_) => (Dimension::Sender, None),
            Content::Text(text) => (Dimension::Origin, Some(text.to.as_str())),
        };
        demands.add(of(from, content.sender()), all);
        demands.add(of(Dimension::Country, phone), all);
        demands.add(of(Dimension::ConfigurationSet, facts.configuration_set), all);
        demands.add(of(Dimension::Tenant, facts.tenant), all);
        demands
    }

    fn add(&mut self, limit: Option<LimitRef>, recipients: u32) {
        let Some(limit) = limit else { return };
        match self.0.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, sum)) => *sum += recipients,
            None => self.0.push((limit, recipients)),
        }
    }

    /// Whether no recipient of the mail falls under a limit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each limit that the mail touches, with the number of its recipients under it.
    pub fn iter(&self) -> impl Iterator<Item = (&LimitRef, u32)> {
        self.0.iter().map(|(limit, recipients)| (limit, *recipients))
    }
}
