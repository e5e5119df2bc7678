//! Limits that a seed has besides those of its deployment: by rate and by the clock, warm-ups and adaptive ones, of
//! campaigns, senders and domains; and an SES tenant.

#![expect(clippy::unwrap_used, reason = "a test's own settings")]

use std::ops::Range;
use std::time::Duration;

use tidegate_core::limits::{Limit, LimitChanges, LimitKey, LimitTable};
use tidegate_core::rate::Rate;
use tidegate_core::{Timestamp, Window};
use tidegate_fakes::SesArrival;

use super::Chaos;
use super::draw::Draw;
use super::shrink::Parts;
use crate::simulation::mail::produced;
use crate::simulation::{FEEDBACK, World, WorldSettings, measure, rate};

/// The limits that a seed adds to those of its deployment, in force from the begin.
#[derive(Clone, Debug, Default)]
pub(super) struct DrawnLimits {
    limit: Option<(&'static str, Limit)>,
    /// The first instant at which the small campaign may send.
    begin: Option<Timestamp>,
    /// The minute in which the limit's hours let nothing through.
    closed: Option<Range<Timestamp>>,
    /// Whether SES reports the mail that a provider deferred.
    heard: bool,
}

/// The small campaign's tenant, which may be paused during the storm.
const TENANT: &str = "acme,identity/example.org";
const PAUSED: &str = "acme,paused,identity/example.org";

/// Settings in which the small campaign has a tenant, if the seed has one.
pub(super) fn with_tenant(seed: u64, settings: WorldSettings) -> WorldSettings {
    if Draw::new(seed.rotate_left(21)).one_in(4) {
        settings.tenant("small", "acme")
    } else {
        settings
    }
}

/// Sets the tenant's state, in a world that has one.
pub(super) fn pause_tenant(world: &World, paused: bool) {
    let state = if paused { PAUSED } else { TENANT };
    world.ses.set_tenants(vec![state.parse().unwrap()]);
}

/// The domains of a key such as `domain:a.example+b.example`.
fn domains_of(key: &str) -> Vec<&str> {
    key.strip_prefix("domain:").unwrap_or_default().split('+').collect()
}

impl DrawnLimits {
    pub(super) fn draw(seed: u64, world: &World, heard: bool) -> Self {
        let draw = Draw::new(seed.rotate_left(16) ^ 0x1357_9bdf_2468_ace0);
        if draw.one_in(2) {
            return Self::default();
        }
        let (key, limit) = draw.pick(&[
            ("campaign:small", r#"{"rate": "2/s"}"#),
            ("campaign:small", r#"{"rate": "30/m"}"#),
            ("campaign:big", r#"{"rate": "50%"}"#),
            ("campaign:*", r#"{"rate": "60%"}"#),
            ("sender:example.org", r#"{"rate": "60%"}"#),
            ("sender:news@example.org", r#"{"rate": "3/s"}"#),
            // The last day's number goes on.
            ("sender:example.org", r#"{"ramp": {"from": "2026-11-19", "days": [9, 150000]}}"#),
            ("campaign:small", r#"{"ramp": {"from": "2026-11-20", "days": [90000]}}"#),
            ("domain:c.example", r#"{"rate": "2/s", "adaptive": true}"#),
            ("domain:a.example+b.example", r#"{"rate": "50%", "adaptive": true}"#),
        ]);
        let mut limit: Limit = serde_json::from_str(limit).unwrap();
        let begin = world.next_window().plus(5 + draw.below(90)).opens();
        let begin = draw.one_in(3).then_some(begin);
        let key_of: LimitKey = key.parse().unwrap();
        let may_queue = key_of.campaign().is_none() && !key_of.is_each();
        limit.queue = (draw.one_in(2) && may_queue).then(|| world.limit_queues() - 1);
        // A warm-up's hours have no break.
        let closed = (draw.one_in(3) && limit.ramp.is_none()).then(|| {
            // The world begins at 20:36:40.
            limit.hours = Some("00:00-20:37, 20:38-24:00".parse().unwrap());
            let from: Window = "2026-11-20T20:37:00Z".parse().unwrap();
            from.opens()..from.plus(60).opens()
        });
        Self { limit: Some((key, limit)), begin, closed, heard }
    }

    pub(super) const fn are_some(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether a campaign has a rate of its own, so that its mail is received from its own queue.
    pub(super) fn pace_campaign(&self, campaign: &str) -> bool {
        self.limit.as_ref().is_some_and(|(key, _)| {
            let all = *key == "campaign:*" && (self.begin.is_none() || campaign != "small");
            all || *key == format!("campaign:{campaign}")
        })
    }

    pub(super) fn story(&self) -> String {
        let limit = self.limit.as_ref();
        let limit = limit.map(|(key, limit)| match limit.queue {
            Some(_) => format!("{key}={limit}, queued"),
            None => format!("{key}={limit}"),
        });
        let begin = self.begin.map(|begin| format!("; campaign small not before {begin}"));
        format!("{}{}", limit.unwrap_or_default(), begin.unwrap_or_default())
    }

    /// The changes of the control record that make them.
    pub(super) fn changes(&self) -> LimitChanges {
        let mut changes = LimitChanges::new();
        let Some((key, limit)) = self.limit.clone() else { return changes };
        changes.insert(key.parse().unwrap(), Some(limit));
        if let Some(begin) = self.begin {
            let small = changes.entry("campaign:small".parse().unwrap()).or_default();
            small.get_or_insert_with(Limit::default).not_before = Some(begin.into());
        }
        changes
    }

    /// Sets them, as operators do. The provider of an adaptive limit takes one mail a second.
    pub(super) async fn set(&self, world: &World) {
        let changes = self.changes();
        if changes.is_empty() {
            return;
        }
        if let Some((key, _)) = self.limit.as_ref().filter(|(_, limit)| limit.adaptive) {
            world.ses.provider(&domains_of(key), 1);
        }
        world.control(|control| control.limits = changes).await;
    }

    /// One window of a storm: SES reports deferrals, and the tenant is paused or released now and then.
    pub(super) async fn trouble(&self, world: &World, number: u64, parts: &mut Parts) {
        self.report(world).await;
        let draw = Draw::new(world.settings.seed.rotate_left(21) ^ number);
        if world.settings.tenants.is_empty() || !draw.one_in(10) {
            return;
        }
        let paused = draw.one_in(2);
        let what = if paused { "tenant paused" } else { "tenant released" };
        if parts.has(what, &format!("in window {number}")) {
            pause_tenant(world, paused);
        }
    }

    /// SES reports what providers deferred since it was last asked, the newest first and some twice.
    pub(super) async fn report(&self, world: &World) {
        let mut deferred = world.ses.take_deferrals();
        deferred.reverse();
        let doubled: Vec<String> = deferred.iter().step_by(5).cloned().collect();
        let all: Vec<_> = deferred.into_iter().chain(doubled).map(produced).collect();
        if self.heard {
            world.put_raw(FEEDBACK, &all).await;
        }
    }
}

impl Chaos {
    /// No second above the bound, nothing before the begin, and nothing outside the hours.
    pub(super) fn the_limits_hold(&self, broken: &mut Vec<String>) {
        let arrivals = self.world.ses.arrivals();
        let of = |campaign: &str| -> Vec<SesArrival> {
            arrivals.iter().filter(|arrival| arrival.campaign == campaign).cloned().collect()
        };
        if let Some(begin) = self.limits.begin {
            let early = of("small").iter().filter(|a| a.at + self.apart < begin).count();
            if early > 0 {
                broken.push(format!("{early} mails of small before {begin}"));
            }
        }
        let Some((key, limit)) = &self.limits.limit else { return };
        let limited = match *key {
            // A campaign with a limit of its own does not fall under it.
            "campaign:*" if self.limits.begin.is_some() => vec![of("big")],
            "campaign:*" => vec![of("big"), of("small")],
            "campaign:small" => vec![of("small")],
            "campaign:big" => vec![of("big")],
            key if key.starts_with("domain:") => {
                vec![measure::to_domains(&arrivals, &domains_of(key))]
            }
            _ => vec![arrivals.clone()],
        };
        if let Some(closed) = &self.limits.closed {
            // A mail that was under way reaches SES within the network's 200 ms.
            let begin = closed.start + self.apart + Duration::from_millis(200);
            let is_in = |at: Timestamp| at >= begin && at + self.apart < closed.end;
            let count = limited.iter().flatten().filter(|arrival| is_in(arrival.at)).count();
            if count > 0 {
                broken.push(format!("{count} mails of {key} outside its hours"));
            }
        }
        let quota = rate(self.highest_quota);
        let Some(limit) = limit.rate.map(|rate| rate.of(quota)).or_else(|| {
            // The largest day, evenly.
            limit.ramp.as_ref().map(|_| rate(150_000.0 / 86_400.0))
        }) else {
            return;
        };
        let most = self.most_in_a_second(limit);
        for limited in limited {
            let worst = measure::worst_second(&limited);
            if worst > most {
                broken.push(format!("{worst} of {key} in one second, {most} allowed"));
            }
        }
    }

    /// ⌈q⌉ + 2r − 1, as many more as clocks that differ let through; a mail of more recipients than the limit lets
    /// through in a window counts as one.
    pub(super) fn most_in_a_second(&self, limit: Rate) -> u64 {
        let drift = limit.as_per_second() * self.apart.as_secs_f64() / 1.02;
        let drift: u64 = format!("{:.0}", drift.ceil()).parse().unwrap_or(0);
        let largest = u64::from(self.largest);
        let fits = largest < limit.ceil();
        drift + if fits { limit.ceil() + 2 * largest - 1 } else { (limit.ceil() + 1) * largest }
    }

    /// The limits of the deployment and those that operators added.
    pub(super) fn limit_table(&self) -> Option<LimitTable> {
        let config = self.world.settings.poller().ok()?;
        Some(LimitTable::of(&config.limits.initial, &self.limits.changes()))
    }
}
