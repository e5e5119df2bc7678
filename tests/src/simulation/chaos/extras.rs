//! Draws conditions that were added after the first seeds. They have a random generator of their
//! own, so that the faults of a known seed stay the same.

use std::time::Duration;

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, Rule};

use super::super::mail::{MailVariation as _, produced};
use super::super::{BodyForm, FEEDBACK, ProducedMail, World, WorldSettings, unkind_queues};
use super::Chaos;
use super::draw::Draw;
use super::shrink::Parts;

/// Operations of the store.
pub(super) const STORE: [Operation; 5] = [
    Operation::PutObject,
    Operation::ListObjects,
    Operation::GetObject,
    Operation::DeleteObject,
    Operation::ReplaceObject,
];
/// Minutes within which deferral is troubled: until the level has risen and some mail is back.
const TROUBLED: usize = 12;
/// Minutes in which a level falls two steps once nothing waits, and some more.
const FALLING: usize = 12;

/// Conditions that a seed has in addition to its faults.
#[derive(Debug)]
pub(super) struct Extras {
    draw: Draw,
    /// A shared bucket in front of SES; what becomes of mail while it is out of reach.
    bucket: Option<&'static str>,
    pub(super) defers: bool,
    /// Number of bounces and complaints that SES reports for one campaign.
    pub(super) reported: usize,
    /// Mails of 0.2 to 0.9 MB.
    large: u64,
    /// Mails that are due within the half hour, most of them beyond SQS's delay.
    timed: u64,
    /// Whether there is a store.
    pub(super) stores: bool,
    /// Mails whose content is in the store.
    pointers: u64,
    /// Rows of a list that was uploaded.
    rows: u64,
}

impl Extras {
    /// Those of a seed, less the parts that are left out.
    pub(super) fn draw(seed: u64, quota: f64, parts: &mut Parts) -> Self {
        let draw = Draw::new(seed ^ 0x9e37_79b9_7f4a_7c15);
        // Drawn beside the rest, so that a seed's story stays what it was.
        let times = Draw::new(!seed ^ 0x7f4a_7c15);
        let timed = if times.one_in(4) { 10 + times.below(80) } else { 0 };
        let without = Self {
            bucket: if draw.one_in(4) { Some(draw.pick(&["closed", "open"])) } else { None },
            // At a low quota a backlog of minutes is a few hundred mails.
            defers: draw.one_in(8) && quota < 10.0,
            reported: if draw.one_in(4) { draw.pick(&[1, 7, 60]) } else { 0 },
            large: if draw.one_in(8) { 1 + draw.below(3) } else { 0 },
            draw,
            timed,
            stores: false,
            pointers: 0,
            rows: 0,
        };
        let stores = without.defers || timed > 0 && !times.one_in(4);
        let more = Draw::new(seed ^ 0x5bd1_e995);
        let of_store = |most: u64| if stores && more.one_in(2) { 1 + more.below(most) } else { 0 };
        let (pointers, rows) = (of_store(20), of_store(300));
        Self {
            bucket: without.bucket.filter(|lost| parts.has("shared bucket", lost)),
            defers: without.defers && parts.has("deferral", ""),
            reported: parts.count("reports of SES", without.reported),
            large: parts.count("large mails", without.large),
            timed: parts.count("timed mails", without.timed),
            pointers: parts.count("pointers", pointers),
            rows: parts.count("rows", rows),
            stores,
            ..without
        }
    }

    /// `settings` with this, on queues as SQS may be.
    pub(super) fn settings(&self, settings: WorldSettings) -> WorldSettings {
        let mut settings = WorldSettings { queues: unkind_queues(), ..settings };
        if let Some(lost) = self.bucket {
            settings = settings
                .variable("TIDEGATE_SHARED_BUCKET", "redis://bucket.example")
                .variable("TIDEGATE_SHARED_BUCKET_LOST", lost);
        }
        if self.defers {
            settings = settings
                .variable("TIDEGATE_BACK_PRESSURE_BUSY", "depth=1m")
                .variable("TIDEGATE_BACK_PRESSURE_OVERLOADED", "depth=2m")
                .variable("TIDEGATE_DEFERRAL", "on");
        }
        if self.stores {
            settings = settings.variable("TIDEGATE_STORE", "s3://tides/store");
        }
        if self.reported > 0 {
            settings = settings
                .variable("TIDEGATE_FEEDBACK", self.draw.pick(&["count", "hold"]))
                .variable("TIDEGATE_FEEDBACK_MINIMUM", 100);
        }
        settings
    }

    /// Puts on the queues what belongs to this.
    pub(super) async fn fill(&self, world: &World) {
        world.bucket.set_latency(Duration::from_millis(2));
        for n in 0..self.large {
            let text = 200_000 + usize::try_from(self.draw.below(700_000)).unwrap_or(0);
            let forms = [BodyForm::Random, BodyForm::Repeated, BodyForm::Compressed];
            let mail = ProducedMail::new(format!("large-{n}"));
            world.put("big", &[mail.of_bytes(text, self.draw.pick(&forms))]).await;
        }
        let times = Draw::new(self.timed);
        let from = world.next_window().opens();
        let timed = (0..self.timed).map(|n| {
            let at = from + Duration::from_millis(times.below(1_800_000));
            ProducedMail::new(format!("timed-{n}-{}", at.as_millis())).not_before(at)
        });
        world.put("small", &timed.collect::<Vec<_>>()).await;
        for n in 0..self.pointers {
            let mail = ProducedMail::new(format!("pointer-{n}"));
            world.put_large("big", &mail.of_bytes(40_000, BodyForm::Repeated)).await;
        }
        if self.rows > 0 {
            world.upload("small", self.rows).await;
        }
        // The day's quota would take weeks for it.
        if self.defers && world.settings.daily_quota.is_none() {
            let count = if world.settings.quota < 4.0 { 400 } else { 1_000 };
            let low = ProducedMail::several("low", count, 1);
            world.put("big", &low.into_iter().map(|mail| mail.at("low")).collect::<Vec<_>>()).await;
        }
        let kinds = ["bounce", "complaint"];
        let reports = (0..self.reported).map(|n| {
            let kind = kinds[n % 2];
            produced(format!(r#"{{"kind": "{kind}", "campaign": "big", "id": "0102018f-{n}"}}"#))
        });
        world.put_raw(FEEDBACK, &reports.collect::<Vec<_>>()).await;
    }

    /// Draws a fault of calls that only the store or the feedback makes.
    pub(super) fn fault(&self) -> Option<Rule<FailureKind>> {
        let reading = [Operation::Receive, Operation::Delete];
        let failed = match self.draw.below(2) {
            0 => Fault::Before(FailureKind::TimedOut),
            _ => Fault::After(FailureKind::TimedOut),
        };
        let rule = Rule::new(failed);
        let rule = match (self.reported > 0, self.stores) {
            (false, false) => return None,
            (true, false) => rule.on(self.draw.pick(&reading)).at(FEEDBACK),
            _ => rule.on(self.draw.pick(&STORE)),
        };
        Some(rule.chance(self.draw.pick(&[0.05, 0.2, 0.5])))
    }

    /// Takes the shared bucket out of reach or brings it back, now and then.
    pub(super) fn trouble_bucket(&self, world: &World) {
        if self.bucket.is_some() && self.draw.one_in(4) {
            world.bucket.set_lost(self.draw.one_in(2));
        }
    }

    /// The minutes after the storm in which mail is deferred and comes back: calls to S3 fail, and
    /// pollers die.
    pub(super) async fn defer(&self, chaos: &mut Chaos) {
        let world = &chaos.world;
        world.bucket.set_lost(false);
        if !self.stores {
            return;
        }
        let parts = &mut chaos.parts;
        if let Some(rule) =
            self.fault().filter(|rule| parts.has("fault after the storm", &format!("{rule:?}")))
        {
            world.faults.add(rule);
        }
        let mut crashes = Vec::new();
        for minute in 0..TROUBLED {
            let crash = self.draw.one_in(3)
                && parts.has("crash after the storm", &format!("in minute {minute}"));
            let at = Duration::from_millis(self.draw.below(60_000));
            world
                .play(60, async |_| {
                    tokio::time::sleep(at).await;
                    if crash {
                        crashes.push(world.universe.now());
                        world.crash();
                    }
                })
                .await;
            super::operate(world).await;
        }
        world.faults.clear();
        chaos.crashes.extend(crashes);
    }

    /// Lets the level fall, where it rose.
    pub(super) async fn calm_down(&self, world: &World) {
        for _ in 0..FALLING {
            let level = world.ledger_now().await.control.level(world.universe.now().into());
            if self.defers && level != BackPressureLevel::Clear {
                world.run(60).await;
            }
        }
    }
}
