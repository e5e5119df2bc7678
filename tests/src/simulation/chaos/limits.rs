//! Limits of campaigns and senders that a seed has, by rate and by the clock.

use tidegate_core::Timestamp;
use tidegate_core::limits::{Limit, LimitKey, LimitRate};
use tidegate_fakes::SesArrival;

use super::Chaos;
use super::draw::Draw;
use crate::simulation::{World, measure, rate};

/// The limits that a seed adds to those of its deployment, in force from the begin.
#[derive(Clone, Debug, Default)]
pub(super) struct DrawnLimits {
    paced: Option<(&'static str, LimitRate)>,
    /// Whether limited mail without a queue waits in one of the stack's further queues.
    queued: bool,
    /// The first instant at which the small campaign may send.
    begin: Option<Timestamp>,
}

impl DrawnLimits {
    pub(super) fn draw(seed: u64, world: &World) -> Self {
        let draw = Draw::new(seed.rotate_left(16) ^ 0x1357_9bdf_2468_ace0);
        if draw.one_in(2) {
            return Self::default();
        }
        let (key, limit) = draw.pick(&[
            ("campaign:small", "2/s"),
            ("campaign:small", "30/m"),
            ("campaign:big", "50%"),
            ("campaign:*", "60%"),
            ("sender:example.org", "60%"),
            ("sender:news@example.org", "3/s"),
        ]);
        let begin = world.next_window().plus(5 + draw.below(90)).opens();
        let paced = limit.parse().ok().map(|limit| (key, limit));
        let begin = draw.one_in(3).then_some(begin);
        Self { paced, begin, queued: draw.one_in(2) }
    }

    pub(super) const fn are_some(&self) -> bool {
        self.paced.is_some()
    }

    /// Whether a campaign has a rate of its own, so that its mail is received from its own queue.
    pub(super) fn pace_campaign(&self, campaign: &str) -> bool {
        self.paced.is_some_and(|(key, _)| {
            let all = key == "campaign:*" && (self.begin.is_none() || campaign != "small");
            all || key == format!("campaign:{campaign}")
        })
    }

    pub(super) fn story(&self) -> String {
        let paced = self.paced.map(|(key, limit)| format!("{key}={limit}"));
        let begin = self.begin.map(|begin| format!("; campaign small not before {begin}"));
        let queued = if self.queued { " queued" } else { "" };
        format!("{}{queued}{}", paced.unwrap_or_default(), begin.unwrap_or_default())
    }

    /// Sets them, as operators do.
    #[expect(clippy::unwrap_used, reason = "a test's own settings")]
    pub(super) async fn set(&self, world: &World) {
        let Some((key, limit)) = self.paced else { return };
        let key: LimitKey = key.parse().unwrap();
        let queue = (self.queued && key.campaign().is_none() && !key.is_each())
            .then(|| world.domain_queues() - 1);
        let limit = Limit { queue, ..limit.into() };
        world
            .control(|control| {
                control.limits.insert(key.clone(), Some(limit));
                if let Some(begin) = self.begin {
                    let small: LimitKey = "campaign:small".parse().unwrap();
                    let small = control.limits.entry(small).or_default();
                    small.get_or_insert_with(Limit::default).not_before = Some(begin.into());
                }
            })
            .await;
    }
}

impl Chaos {
    /// ⌈q⌉ + 2r − 1 in any second, as many more as clocks that differ let through; and nothing before the
    /// begin.
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
        let Some((key, limit)) = self.limits.paced else { return };
        let limited = match key {
            // A campaign with a limit of its own does not fall under it.
            "campaign:*" if self.limits.begin.is_some() => vec![of("big")],
            "campaign:*" => vec![of("big"), of("small")],
            "campaign:small" => vec![of("small")],
            "campaign:big" => vec![of("big")],
            _ => vec![arrivals.clone()],
        };
        let limit = limit.of(rate(self.highest_quota));
        let drift = limit.as_per_second() * self.apart.as_secs_f64() / 1.02;
        let drift: u64 = format!("{:.0}", drift.ceil()).parse().unwrap_or(0);
        let largest = u64::from(self.largest);
        let fits = largest < limit.ceil();
        let most = if fits { limit.ceil() + 2 * largest - 1 } else { (limit.ceil() + 1) * largest };
        for limited in limited {
            let worst = measure::worst_second(&limited);
            if worst > most + drift {
                broken.push(format!("{worst} of {key} in one second, {most} + {drift} allowed"));
            }
        }
    }
}
