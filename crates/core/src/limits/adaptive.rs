//! Adaptive limits: a provider's deferrals lower the limit of its domains, and time raises it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::number::{real, whole};
use crate::rate::{Rate, RateMargin};
use crate::stored::is_default;
use crate::timestamp::{SECOND, Window};

/// Factor 1 in millionths: the limit as it was set.
const FULL: u64 = 1_000_000;
/// Least factor, in millionths.
const FLOOR: u64 = 50_000;
/// One decrease leaves half of the factor at least, and 97 % at most.
const LEFT: std::ops::RangeInclusive<f64> = 0.5..=0.97;
/// Windows between two increases, where deferrals are known within 12 s.
const RISES_EVERY: u64 = 15;
/// Longest lateness that counts, in windows: a bounce after hours of tries is no measure.
const LATEST: u64 = 900;
/// One increase is this part of the lowered factor.
const RISE: u64 = 40;
/// Increases after which they become four times as large: a provider that deferred nothing for a minute may take
/// far more.
const SLOW_RISES: u64 = 4;
/// Windows until a lowered limit is in force. Deferrals of mail that was sent before say nothing of it.
const SETTLES: u64 = 2;
/// Deferrals in a row at the least factor that close a limit. The row ends after 30 s without one.
const CLOSES: usize = 5;
/// Windows for which a limit is closed then.
const CLOSED: u64 = 300;
/// The most limits that are lowered at once, or watched; `*` may have many domains.
const MOST: usize = 50;
/// A deferral raises a [`DeferralLevel`] by this, and each mail that the limit allows lowers it by 1. So one mail in a
/// hundred may be deferred: mail that a provider takes at a second look, and replies that SES takes for bounces, say
/// nothing of the provider's pace.
const DEFERRAL: u64 = 100;
/// Windows whose mail counts at most, or 500 mails. Deferrals of some seconds may be heard together.
const OF_LATE: u64 = 60;
/// The highest level. Once the deferrals end, it is soon gone.
const HIGHEST: u64 = 5 * DEFERRAL;

/// How far a provider's deferrals have lowered an adaptive limit.
///
/// Where more than a hundredth of the mail is deferred ([`DeferralLevel`]), it is lowered multiplicatively, by that
/// share: a provider that takes a quarter of the mail is reached in a few decreases. Every 15 seconds without one raise it additively. The
/// factor follows from the time, so all pollers know that of every window. Where deferrals are known late, the
/// increases come as slowly: else a limit would rise further than it was lowered before the next deferral is known.
///
/// ```
/// use tidegate_core::limits::Adapted;
/// use tidegate_core::{Window, rate::Rate};
/// let (at, rate) = (Window::from_epoch_second, Rate::per_second(40.0)?);
/// // In second 98, 5 mails were deferred, which is a tenth of 50.
/// let lowered = Adapted::deferred(None, &[at(98); 5], rate, at(100)).unwrap();
/// assert_eq!([100, 114, 115, 175].map(|s| lowered.millionths(at(s))), [900_000, 900_000, 922_500, 1_000_000]);
/// // A deferral of mail that was sent before the limit was lowered changes nothing.
/// assert_eq!(Adapted::deferred(Some(lowered), &[at(101)], rate, at(102)), None);
/// # Ok::<(), tidegate_core::rate::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapted {
    millionths: u64,
    /// The window of the last decrease.
    since: Window,
    /// Windows after which the newest of the deferrals was known. Deferrals after an increase come as late.
    #[serde(default, skip_serializing_if = "is_default")]
    late: u64,
    /// Deferrals in a row at the least factor.
    #[serde(default, skip_serializing_if = "is_default")]
    at_floor: usize,
    /// Nothing is sent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opens: Option<Window>,
}

/// The adaptive limits that are lowered, by their tag ([`super::LimitTable::tag`]).
pub type AdaptedLimits = BTreeMap<String, Adapted>;

impl Adapted {
    /// The factor in `window`, in millionths of the limit as it was set: 50,000 to 1,000,000.
    pub fn millionths(&self, window: Window) -> u64 {
        let passed = window.epoch_second().saturating_sub(self.since.epoch_second());
        let risen = passed / self.rises_every();
        let risen = risen + 3 * risen.saturating_sub(SLOW_RISES);
        risen.saturating_mul(self.millionths / RISE).saturating_add(self.millionths).min(FULL)
    }

    /// An increase waits until deferrals of the one before would be known.
    fn rises_every(&self) -> u64 {
        RISES_EVERY.max(self.late + self.late / 4)
    }

    /// A limit of `rate` in `window`, as far as it is `lowered`.
    pub(super) fn rate(lowered: Option<&Self>, rate: Rate, window: Window) -> Rate {
        lowered.map_or(rate, |lowered| rate.scaled(lowered.millionths(window)))
    }

    /// The window in which the limit opens again, if it is closed in `window`.
    pub fn opens(&self, window: Window) -> Option<Window> {
        self.opens.filter(|opens| window < *opens)
    }

    /// The limit after mail that was `sent` in these windows was deferred; `None` if it stays as it is. `rate` is
    /// that of the limit as it was set.
    pub fn deferred(
        before: Option<Self>,
        sent: &[Window],
        rate: Rate,
        now: Window,
    ) -> Option<Self> {
        let settled = before.map_or(Window::default(), |before| before.since.plus(SETTLES));
        let sent = || sent.iter().filter(|sent| **sent >= settled).map(|sent| sent.epoch_second());
        let (first, last) = (sent().min()?, sent().max()?);
        let factor = before.map_or(FULL, |before| before.millionths(now));
        let per_second = rate.scaled(factor).as_per_second();
        // The time of at least fifty mails, so that one deferral of a slow limit is no large share.
        let seconds = real(last - first + 1).max(50.0 / per_second);
        let share = real(sent().count() as u64) / (per_second * seconds);
        let left = (1.0 - share).clamp(*LEFT.start(), *LEFT.end());
        let millionths = whole(real(factor) * left).max(FLOOR);
        let in_a_row = before.filter(|of| now < of.since.plus(2 * of.rises_every()));
        let at_floor = if factor > FLOOR + FLOOR / 10 { 0 } else { sent().count() };
        let at_floor = at_floor + in_a_row.map_or(0, |before| before.at_floor);
        let opens = (at_floor >= CLOSES).then(|| now.plus(CLOSED));
        let late = now.epoch_second().saturating_sub(last).min(LATEST);
        Some(Self { millionths, since: now, late, at_floor, opens })
    }
}

/// How much more than a hundredth of the mail that a limit allows was deferred of late.
///
/// ```
/// use tidegate_core::limits::DeferralLevel;
/// use tidegate_core::{Window, rate::Rate};
/// let (at, rate) = (Window::from_epoch_second, Rate::per_second(100.0)?);
/// let mut level = DeferralLevel::default();
/// // One of a thousand, for as long as it may be, and two that are heard together.
/// assert!((0..100).all(|n| !level.add(1, rate, at(1_000 + 10 * n))));
/// assert!(!level.add(2, rate, at(2_010)));
/// assert!(level.add(3, rate, at(2_011)), "more than one of a hundred");
/// # Ok::<(), tidegate_core::rate::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferralLevel {
    level: u64,
    /// The window of the last deferral.
    at: Window,
}

impl DeferralLevel {
    /// Adds deferrals of a limit that has this rate now. True if more than the tolerated share was deferred.
    pub fn add(&mut self, deferrals: u64, rate: Rate, now: Window) -> bool {
        let mails =
            |seconds: u64| seconds.saturating_mul(SECOND) / rate.period(RateMargin::default());
        let passed = now.epoch_second().saturating_sub(self.at.epoch_second());
        let allowed = mails(passed).min(mails(OF_LATE).max(HIGHEST));
        let level = (self.level + DEFERRAL * deferrals).saturating_sub(allowed);
        *self = Self { level: level.min(HIGHEST), at: now };
        level > DEFERRAL
    }
}

/// Removes what time has raised to the full limit again, what was not deferred for a while, and the oldest beyond 50.
pub(super) fn tidy(
    adapted: &mut AdaptedLimits,
    levels: &mut BTreeMap<String, DeferralLevel>,
    now: Window,
) {
    levels.retain(|_, level| now < level.at.plus(LATEST));
    keep_newest(levels, |level| level.at);
    adapted.retain(|_, of| of.millionths(now) < FULL || of.opens(now).is_some());
    keep_newest(adapted, |of| of.since);
}

fn keep_newest<T>(all: &mut BTreeMap<String, T>, at: impl Fn(&T) -> Window) {
    while all.len() > MOST {
        let oldest = all.iter().min_by_key(|(_, one)| at(one)).map(|(tag, _)| tag.clone());
        all.remove(&oldest.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: u64) -> Window {
        Window::from_epoch_second(second)
    }

    fn rate(per_second: f64) -> Rate {
        Rate::per_second(per_second).unwrap()
    }

    proptest! {
        #[test]
        fn the_factor_stays_in_its_range_and_falls_by_half_at_most(
            deferrals in prop::collection::vec((1_u64..60, prop::collection::vec(0_u64..30, 0..40)), 1..50),
            per_second in 0.01_f64..1_000.0,
        ) {
            let (mut adapted, mut now) = (None::<Adapted>, 1_000);
            for (after, ago) in deferrals {
                now += after;
                let before = adapted.map_or(FULL, |of| of.millionths(at(now)));
                let sent: Vec<Window> = ago.iter().map(|ago| at(now - ago)).collect();
                let Some(next) = Adapted::deferred(adapted, &sent, rate(per_second), at(now)) else { continue };
                let factor = next.millionths(at(now));
                prop_assert!((FLOOR..=FULL).contains(&factor));
                prop_assert!(factor >= before / 2 && (factor < before || before == FLOOR));
                prop_assert!(next.millionths(at(now + 7_200)) == FULL, "two hours raise it");
                adapted = Some(next);
            }
        }
    }

    #[test]
    fn a_provider_that_takes_a_quarter_is_reached_in_a_few_decreases() {
        let (mut adapted, mut now) = (None, 100);
        for _ in 0..8 {
            let sent = adapted.map_or(40, |of: Adapted| of.millionths(at(now)) * 40 / FULL);
            let deferred: Vec<Window> = (10..sent).map(|_| at(now + 3)).collect();
            now += 5;
            adapted = Adapted::deferred(adapted, &deferred, rate(40.0), at(now)).or(adapted);
        }
        let factor = adapted.unwrap().millionths(at(now));
        assert!((235_000..=300_000).contains(&factor), "{factor}");
    }

    #[test]
    fn a_provider_that_takes_nothing_is_left_alone_for_five_minutes() {
        let (mut adapted, mut now) = (None, 1_000);
        while adapted.is_none_or(|of: Adapted| of.opens(at(now)).is_none()) {
            now += 5;
            assert!(now < 1_200, "it closes");
            let deferred = vec![at(now - 1); 40];
            adapted = Adapted::deferred(adapted, &deferred, rate(40.0), at(now));
        }
        let closed = adapted.unwrap();
        assert_eq!(closed.opens(at(now)), Some(at(now + 300)));
        assert_eq!(closed.opens(at(now + 300)), None);
    }

    #[test]
    fn deferrals_that_are_known_minutes_later_lower_a_limit_for_good() {
        for late in [20, 60, 300, 600] {
            let (mut adapted, mut deferred) = (None::<Adapted>, Vec::new());
            let (mut sent, mut taken) = (0, 0);
            for second in 0..14_400 {
                let now = at(second);
                let factor = adapted.map_or(FULL, |of| of.millionths(now));
                let mails = 40 * factor * (second + 1) / FULL - 40 * factor * second / FULL;
                deferred.extend((10..mails).map(|_| at(second)));
                if second >= 7_200 {
                    (sent, taken) = (sent + mails, taken + mails.min(10));
                }
                let known = deferred.partition_point(|of| of.plus(late) <= now);
                let known: Vec<Window> = deferred.drain(..known).collect();
                adapted = Adapted::deferred(adapted, &known, rate(40.0), now).or(adapted);
            }
            assert!((sent - taken) * 100 <= sent * 2, "{late}: {} of {sent}", sent - taken);
            assert!(taken * 100 >= 72_000 * 90, "{late}: {taken} of 72,000");
        }
    }

    #[test]
    fn of_every_rate_the_share_of_the_mail_that_was_deferred_decides() {
        for (per_second, tenths) in [(0.1, 1), (1.0, 10), (40.0, 400), (1_000.0, 10_000_u64)] {
            let lowers = |one_of: u64| {
                let mut level = DeferralLevel::default();
                let deferred = |second: u64| second * tenths * 10 / 102 / one_of;
                (10_000..20_000).any(|second| {
                    let new = deferred(second + 1) - deferred(second);
                    new > 0 && level.add(new, rate(per_second), at(second))
                })
            };
            assert!(!lowers(200), "half a per cent at {per_second}/s");
            assert!(lowers(50), "two per cent at {per_second}/s");
        }
    }

    #[test]
    fn one_deferral_of_a_slow_limit_lowers_it_by_3_percent() {
        let lowered = Adapted::deferred(None, &[at(98)], rate(0.1), at(100)).unwrap();
        assert_eq!(lowered.millionths(at(100)), 970_000);
    }

    #[test]
    fn deferrals_are_in_a_row_if_less_than_two_increases_are_between_them() {
        let at_floor =
            Adapted { millionths: FLOOR, since: at(1_000), late: 0, at_floor: 3, opens: None };
        let after = |seconds: u64| {
            let now = at(1_000 + seconds);
            Adapted::deferred(Some(at_floor), &[now], rate(0.1), now).unwrap().at_floor
        };
        assert_eq!((after(5), after(30)), (4, 1));
    }

    #[test]
    fn an_increase_waits_a_quarter_longer_than_deferrals_are_late() {
        let lowered = |late: u64| {
            let sent = vec![at(1_000); 40];
            Adapted::deferred(None, &sent, rate(40.0), at(1_000 + late)).unwrap()
        };
        assert_eq!(lowered(2).rises_every(), RISES_EVERY);
        assert_eq!(lowered(600).rises_every(), 750);
    }

    #[test]
    fn of_many_limits_the_oldest_are_forgotten() {
        let adapted = |since| Adapted {
            millionths: FLOOR,
            since: at(since),
            late: 0,
            at_floor: 0,
            opens: None,
        };
        let mut all: AdaptedLimits =
            (100..200).map(|second| (second.to_string(), adapted(second))).collect();
        tidy(&mut all, &mut BTreeMap::new(), at(200));
        assert_eq!(
            (all.len(), all.contains_key("149"), all.contains_key("150")),
            (50, false, true)
        );
        tidy(&mut all, &mut BTreeMap::new(), at(1_000_000));
        assert!(all.is_empty());
    }
}
