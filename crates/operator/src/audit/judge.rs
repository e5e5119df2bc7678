//! The promises, each judged over all records.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::audit::{AuditRecord, SendOutcome, SendRecord};
use tidegate_core::control::ChangeRecord;
use tidegate_core::number::real;
use tidegate_core::timestamp::SECOND;
use tidegate_core::{Timestamp, Window};

use super::{AuditPromise, AuditReport, Event, Judge};

/// A copy may wait on a held campaign's queue before it is sent.
const AFTERMATH: Duration = Duration::from_hours(48);
/// A merge queue knows a copy for five minutes; waits are recorded in whole minutes.
const FORGOTTEN_NS: u64 = 4 * 60 * SECOND;
/// Windows in which mail is sent that was fed before.
const SETTLED: u64 = 10;

#[derive(Clone, Copy, Debug)]
struct Start<'a> {
    /// Nanoseconds since the epoch, by the poller's clock.
    at: u64,
    record: &'a AuditRecord,
    send: &'a SendRecord,
}

impl Judge {
    /// Judges what was read; `changes` is the ledger's history.
    pub fn report(mut self, mut changes: Vec<ChangeRecord>) -> AuditReport {
        let mut records = std::mem::take(&mut self.records);
        records.sort_by(|a, b| (a.window, a.part, &a.request).cmp(&(b.window, b.part, &b.request)));
        // Two files may have the same line.
        records.dedup();
        let undone = "3, 5, 6, 9 or 10: a delete, move or write failed";
        for record in records.iter().filter(|record| record.part == 0) {
            self.event(record.window.opens(), undone, record.undone);
        }
        for change in changes.iter().filter(|change| change.action == "replay") {
            self.event(change.at.into(), "8: a replay", u64::MAX);
        }
        let windows = self.windows(&records);
        let mut at_slots = AuditPromise::of("starts at slots only, and never too late for theirs");
        let mut starts: Vec<_> =
            records.iter().flat_map(|record| starts(record, &mut at_slots)).collect();
        starts.sort_unstable_by_key(|start| start.at);
        let rate = self.worst_second(&starts);
        starts.sort_unstable_by_key(|start| (start.send.identity, start.at));
        let twice = self.twice(&starts);
        let shares = self.shares(&records);
        changes.retain(|change| ["pause", "resume", "lift"].contains(&change.action.as_str()));
        AuditReport {
            windows: records.first().zip(records.last()).map(|(a, b)| [a.window, b.window]),
            promises: vec![windows, at_slots, rate, shares, twice],
            figures: self.figures,
            holds: changes,
        }
    }

    fn windows(&mut self, records: &[AuditRecord]) -> AuditPromise {
        let mut promise = AuditPromise::of("every window served once, or counted as missed");
        let (mut last, mut early, mut claims) = (None::<&AuditRecord>, Vec::new(), Vec::new());
        for record in records.iter().filter(|record| record.part == 0) {
            self.count("windows with a record", 1.0);
            claims.push(record.claim.took_ms);
            match last.replace(record) {
                Some(last) if last.window == record.window => {
                    promise.broke(record, &format!("request {} served it, too", last.request));
                }
                Some(last)
                    if record.claim.previous.is_some_and(|previous| previous < last.window) =>
                {
                    promise.broke(record, &format!("claimed as if {} were not", last.window));
                }
                _ => {}
            }
            let (Some(missed), Some(previous)) = (record.claim.missed, record.claim.previous)
            else {
                continue;
            };
            early.push(record.claim.early_ms);
            self.count("windows missed", real(missed));
            let (grid, next) = (record.grid(), previous.plus(1));
            let begin = grid.first_from(next.opens());
            let slots = grid.first_from(record.window.opens()).saturating_sub(begin);
            let gap = record.window.saturating_since(next).min(slots);
            if gap > missed {
                let how = format!("{gap} windows before it were not served, {missed} counted");
                promise.broke(record, &how);
            }
        }
        for (figure, mut values) in
            [("ms that a tick came early", early), ("ms of a claim", claims)]
        {
            values.sort_unstable();
            for hundredth in [1, 50, 99] {
                let value = values.get(values.len() * hundredth / 100).copied().unwrap_or(0);
                self.count(&format!("{figure}, p{hundredth}"), real(value));
            }
        }
        promise
    }

    fn worst_second(&mut self, starts: &[Start<'_>]) -> AuditPromise {
        let mut promise = AuditPromise::of("no second above the quota");
        let (mut end, mut sum, mut worst) = (0, 0_u64, 0);
        for (begin, first) in starts.iter().enumerate() {
            while let Some(start) = starts.get(end).filter(|start| start.at < first.at + SECOND) {
                sum += u64::from(start.send.recipients);
                end += 1;
            }
            worst = worst.max(sum);
            // Most seconds are below the bound for mails of one recipient.
            if sum > first.record.rate.ceil() {
                let most_of = |of: fn(&Start<'_>) -> u64| starts[begin..end].iter().map(of).max();
                let rate = most_of(|start| start.record.rate.ceil()).unwrap_or(0);
                let largest = most_of(|start| start.send.recipients.into()).unwrap_or(1);
                let most = rate + largest - 1;
                if sum > most {
                    let at = Timestamp::from_nanos(first.at);
                    let how = format!("{sum} recipients in a second from {at} on, {most} allowed");
                    promise.broke(first.record, &how);
                }
            }
            sum -= u64::from(first.send.recipients);
        }
        let of = |outcome| starts.iter().filter(|start| start.send.outcome == outcome).count();
        self.count("sends", real(starts.len() as u64));
        self.count("recipients in the worst second", real(worst));
        self.count("sends refused for the rate", real(of(SendOutcome::Refused) as u64));
        self.count("sends without an answer", real(of(SendOutcome::Possible) as u64));
        promise
    }

    /// The causes are those of "At least once" in docs/guarantees.md.
    fn twice(&mut self, starts: &[Start<'_>]) -> AuditPromise {
        let mut promise = AuditPromise::of("every mail sent once, or twice with a cause");
        for mail in starts.chunk_by(|a, b| a.send.identity == b.send.identity) {
            let of = |outcome| mail.iter().filter(move |start| start.send.outcome == outcome);
            let lost = of(SendOutcome::Possible).map(|lost| lost.at).min();
            for (first, again) in of(SendOutcome::Accepted).zip(of(SendOutcome::Accepted).skip(1)) {
                let cause = if lost.is_some_and(|lost| lost <= again.at) {
                    Some("2: an answer was lost")
                } else {
                    first.unseen_cause(again).or_else(|| self.seen_cause(first.at, again.at))
                };
                if let Some(cause) = cause {
                    self.count(&format!("sent twice: {cause}"), 1.0);
                } else {
                    let before = Timestamp::from_nanos(first.at);
                    promise.broke(again.record, &format!("a mail that was sent at {before}, too"));
                }
            }
        }
        promise
    }

    /// An event before the second send that can explain it.
    fn seen_cause(&mut self, first: u64, again: u64) -> Option<&'static str> {
        let (first, again) = (Timestamp::from_nanos(first), Timestamp::from_nanos(again));
        let can = |event: &&mut Event| {
            event.left > 0 && event.at <= again && event.at + AFTERMATH >= first
        };
        let event = self.events.iter_mut().filter(can).max_by_key(|event| event.at)?;
        event.left -= 1;
        Some(event.cause)
    }

    /// By the hour: what campaigns were sent while the same ones, at least two, had mail, against their weights. They
    /// may be off by a fiftieth and two batches.
    fn shares(&mut self, records: &[AuditRecord]) -> AuditPromise {
        let mut promise = AuditPromise::of("shares by weight, in every hour");
        let hour = |window: Window| window.epoch_second() / 3_600;
        let with_mail = |record: &AuditRecord| {
            let campaigns = record.campaigns.iter().filter(|campaign| campaign.weight > 0);
            campaigns.cloned().collect::<Vec<_>>()
        };
        let mut hours: BTreeMap<(Window, String), [f64; 2]> = BTreeMap::new();
        for stretch in records.chunk_by(|a, b| {
            let is_next = a.window.plus(1) >= b.window && hour(a.window) == hour(b.window);
            is_next && with_mail(a) == with_mail(b)
        }) {
            let (begin, campaigns) = (&stretch[0], with_mail(&stretch[0]));
            let mut sent = BTreeMap::new();
            for record in stretch.iter().filter(|of| of.window >= begin.window.plus(SETTLED)) {
                for send in &record.sends {
                    let name = record.campaigns.get(send.campaign as usize).map(|of| &of.name);
                    *sent.entry(name).or_default() += f64::from(send.recipients);
                }
            }
            let sent_of = |name: &String| sent.get(&Some(name)).copied().unwrap_or(0.0);
            let all: f64 = campaigns.iter().map(|campaign| sent_of(&campaign.name)).sum();
            let weights: u64 = campaigns.iter().map(|campaign| campaign.weight).sum();
            for campaign in campaigns.iter().filter(|_| campaigns.len() > 1 && all > 0.0) {
                let due = all * real(campaign.weight) / real(weights);
                let (name, sent) = (&campaign.name, sent_of(&campaign.name));
                let of_hour = Window::from_epoch_second(hour(begin.window) * 3_600);
                let share = hours.entry((of_hour, name.clone())).or_default();
                *share = [share[0] + sent, share[1] + all];
                if (sent - due).abs() > 0.02 * all + 20.0 {
                    let how =
                        format!("from then on {name} had {sent:.0} of {all:.0}, due {due:.0}");
                    promise.broke(begin, &how);
                }
            }
        }
        for ((hour, campaign), [sent, all]) in hours {
            self.count(&format!("share of {campaign}, hour from {hour}"), sent / all);
        }
        promise
    }
}

impl Start<'_> {
    /// A cause that no log shows: a standard queue may deliver twice, and a merge queue takes a copy again after five
    /// minutes, or once it has returned to its campaign.
    fn unseen_cause(&self, again: &Self) -> Option<&'static str> {
        let put =
            |start: &Self| start.at.saturating_sub(start.send.waited_min.min(255) * 60 * SECOND);
        if self.send.waited_min.max(again.send.waited_min) > 253 {
            return Some("4, 7 or 9: from a standard queue");
        }
        if self.send.pass != again.send.pass {
            return Some("4 or 5: returned to its campaign");
        }
        let is_apart = put(again).abs_diff(put(self)) >= FORGOTTEN_NS;
        is_apart.then_some("4, 6 or 7: fed 5 minutes apart")
    }
}

/// The sends of a record, each compared with its slot.
fn starts<'a>(record: &'a AuditRecord, promise: &mut AuditPromise) -> Vec<Start<'a>> {
    let grid = record.grid();
    let slots = grid.slots_of(record.window);
    let start = |send: &'a SendRecord| {
        let slot = slots.start.saturating_add(send.slot).min(slots.end);
        let after = send.after_us.saturating_mul(1_000);
        let at = grid.at(slot).as_nanos().saturating_add_signed(after);
        if after < 0 || slot >= slots.end || at > grid.latest(slot).as_nanos() {
            let how = format!("a send {} µs after slot {}", send.after_us, send.slot);
            promise.broke(record, &how);
        }
        Start { at, record, send }
    };
    record.sends.iter().map(start).collect()
}
