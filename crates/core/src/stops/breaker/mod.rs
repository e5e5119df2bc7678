//! The circuit breaker: if SES fails for a while, it stops sending. Then one mail at a time probes
//! whether SES works again.
//!
//! The state is part of the control record, so every poller follows it. The states have the names of
//! their effects: *allowing*, *blocking*, *probing*.
//!
//! Example with the default policy: more than 20 % of the sends fail from window 0 on. In window 60 the
//! breaker blocks. From window 90 on one poller sends one mail. If SES accepts it, the breaker allows;
//! if not, it blocks for another 30 s.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timestamp::Window;

/// Settings of the breaker: the failures that make it block, and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// `TIDEGATE_BREAKER_SHARE`, in millionths: the breaker blocks if a larger share of the outcomes
    /// are failures.
    pub share: u64,
    /// `TIDEGATE_BREAKER_SECONDS`: seconds for which this must last before the breaker blocks.
    pub after: u64,
    /// The least number of outcomes for a judgement.
    pub outcomes: u64,
    /// Seconds for which nothing is sent before a probe.
    pub stop: u64,
    /// Seconds after which another poller takes the place of one that
    /// probes and has not reported.
    pub probe: u64,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { share: 200_000, after: 60, outcomes: 20, stop: 30, probe: 15 }
    }
}

/// Permission for the poller of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The poller sends its window's mail as usual.
    Send,
    /// It may send one mail, if it first becomes the prober by a conditional write.
    Probe,
    /// The poller sends no mail in this window.
    Nothing,
}

/// The breaker's state, as the control record holds it.
///
/// ```
/// use tidegate_core::Window;
/// use tidegate_core::breaker::{Breaker, BreakerPolicy, Outcomes, Permit};
/// let (policy, at) = (BreakerPolicy::default(), Window::from_epoch_second);
/// let mut breaker = Breaker::default();
/// for second in 0..=60 {
///     let failing = Outcomes { all: 14, failures: 14 };
///     breaker = breaker.observed(at(1_000 + second), failing, &policy).unwrap();
/// }
/// assert_eq!(breaker.permit(at(1_089), &policy), Permit::Nothing);
/// assert_eq!(breaker.permit(at(1_090), &policy), Permit::Probe);
/// let probing = breaker.probing(at(1_090), "the prober's token", &policy).unwrap();
/// assert_eq!(probing.permit(at(1_091), &policy), Permit::Nothing);
/// let allowing = probing.probed(at(1_091), "the prober's token", true, &policy).unwrap();
/// assert_eq!(allowing.permit(at(1_092), &policy), Permit::Send);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Breaker {
    /// Mail is sent; the breaker counts failures.
    Allowing {
        /// The counts since the first window with too many failures; none if failures are few.
        #[serde(skip_serializing_if = "Option::is_none")]
        watch: Option<Watch>,
    },
    /// No mail is sent until `until`.
    Blocking {
        /// The first window in which nothing was sent.
        since: Window,
        /// The first window whose poller may probe.
        until: Window,
    },
    /// One poller sends one mail; all others send none.
    Probing {
        /// The first window in which nothing was sent; kept through all probes of one outage.
        blocked: Window,
        /// The window of the poller that probes.
        since: Window,
        /// The token of the claim of the poller that probes; only it may report the result.
        prober: String,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Allowing { watch: None }
    }
}

impl Breaker {
    /// True in the state allowing, with or without watched failures.
    pub const fn is_allowing(&self) -> bool {
        matches!(self, Self::Allowing { .. })
    }

    /// The time for which nothing but probes has been sent; none if the breaker allows.
    pub fn blocked_for(&self, now: Window) -> Option<Duration> {
        match self {
            Self::Allowing { .. } => None,
            Self::Blocking { since: blocked, .. } | Self::Probing { blocked, .. } => {
                Some(Duration::from_secs(now.saturating_since(*blocked)))
            }
        }
    }

    /// The permission for the poller of `window`. A poller may probe once the blocking time is over, or
    /// once another's probe is older than [`BreakerPolicy::probe`].
    pub fn permit(&self, window: Window, policy: &BreakerPolicy) -> Permit {
        let due = match self {
            Self::Allowing { .. } => return Permit::Send,
            Self::Blocking { until, .. } => *until,
            Self::Probing { since, .. } => since.plus(policy.probe),
        };
        if window >= due { Permit::Probe } else { Permit::Nothing }
    }

    /// True if failures in `window` are probably SES's and not the mail's own. This can be so before
    /// there are enough outcomes to block. The mail's last attempt is then not spent.
    pub fn suspects_an_outage(&self, window: Window, policy: &BreakerPolicy) -> bool {
        match self {
            Self::Allowing { watch } => watch.is_some_and(|watch| watch.is_outage(window, policy)),
            Self::Blocking { .. } | Self::Probing { .. } => true,
        }
    }

    /// The state after the outcomes of `window`; `None` if it stays the same.
    pub fn observed(
        &self,
        window: Window,
        outcomes: Outcomes,
        policy: &BreakerPolicy,
    ) -> Option<Self> {
        let Self::Allowing { watch } = self else { return None };
        if outcomes.all == 0 {
            return None;
        }
        let next = match Watch::after(*watch, window, outcomes, policy) {
            Some(watch) if watch.trips(window, outcomes, policy) => {
                Self::blocking(window, window, policy)
            }
            watch => Self::Allowing { watch },
        };
        (next != *self).then_some(next)
    }

    /// The state in which the poller of `window` with this claim token probes; `None` if it may not
    /// probe.
    pub fn probing(&self, window: Window, token: &str, policy: &BreakerPolicy) -> Option<Self> {
        let (Self::Blocking { since: blocked, .. } | Self::Probing { blocked, .. }) = self else {
            return None;
        };
        let next = Self::Probing { blocked: *blocked, since: window, prober: token.to_owned() };
        (self.permit(window, policy) == Permit::Probe).then_some(next)
    }

    /// The state after the probe of the poller with this token, which ended in `window`; `None` if
    /// another poller has taken its place. A failed probe blocks again, from `window` on.
    pub fn probed(
        &self,
        window: Window,
        token: &str,
        worked: bool,
        policy: &BreakerPolicy,
    ) -> Option<Self> {
        match self {
            Self::Probing { prober, .. } if prober != token => None,
            Self::Probing { .. } if worked => Some(Self::default()),
            Self::Probing { blocked, .. } => Some(Self::blocking(*blocked, window, policy)),
            Self::Allowing { .. } | Self::Blocking { .. } => None,
        }
    }

    const fn blocking(since: Window, now: Window, policy: &BreakerPolicy) -> Self {
        Self::Blocking { since, until: now.plus(policy.stop) }
    }
}

const MILLION: u128 = 1_000_000;

/// Counts of how sends ended. A permanent refusal of one mail is no failure here: SES works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// All sends that SES accepted or refused, or that failed on the way.
    pub all: u64,
    /// Those of them that SES refused for the rate or that failed and can be retried.
    pub failures: u64,
}

impl Outcomes {
    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.saturating_add(other.all),
            failures: self.failures.saturating_add(other.failures),
        }
    }

    /// True if more than the policy's share of all are failures. A share of exactly 20 % is not more
    /// than 20 %.
    fn are_bad(self, policy: &BreakerPolicy) -> bool {
        u128::from(self.failures) * MILLION > u128::from(self.all) * u128::from(policy.share)
    }
}

/// The outcomes since the first window with too many failures.
///
/// A watch ends if failures are no longer too many: in the sum since its beginning, or in the last
/// group alone. A group covers a third of [`BreakerPolicy::after`] and at least
/// [`BreakerPolicy::outcomes`] outcomes. Groups keep an outage that is over from blocking later.
///
/// Example: all sends fail for 30 s, then all succeed. The sum has more than 20 % failures until second
/// 150. The groups cover seconds 0–20, 21–41 and 42–62; the third has no failures, so the watch ends in
/// second 62.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    since: Window,
    sum: Outcomes,
    group_since: Window,
    group: Outcomes,
    /// True if two or more mails failed in one window: one mail that fails alone may itself be the
    /// cause.
    #[serde(default)]
    several: bool,
}

impl Watch {
    /// The watch after the outcomes of `window`, given the watch `before`; none if failures are few.
    fn after(
        before: Option<Self>,
        window: Window,
        outcomes: Outcomes,
        policy: &BreakerPolicy,
    ) -> Option<Self> {
        let new = Self { since: window, group_since: window, ..Self::default() };
        let mut watch = before.unwrap_or(new);
        watch.sum = watch.sum.plus(outcomes);
        watch.group = watch.group.plus(outcomes);
        watch.several |= outcomes.failures > 1;
        // Failures are few in all: the watch ends.
        if !watch.sum.are_bad(policy) {
            return None;
        }
        // The group is not complete yet, so it does not decide.
        let length = window.saturating_since(watch.group_since);
        if length < policy.after / 3 || watch.group.all < policy.outcomes {
            return Some(watch);
        }
        // A complete group without too many failures ends the watch; after a bad one the next group
        // begins.
        let next = Self { group_since: window.plus(1), group: Outcomes::default(), ..watch };
        watch.group.are_bad(policy).then_some(next)
    }

    /// True if nothing was accepted since the watch began, several mails failed, and this lasted for
    /// the policy's time. Then SES fails, however few outcomes there are.
    fn is_outage(self, window: Window, policy: &BreakerPolicy) -> bool {
        self.several
            && self.sum.failures == self.sum.all
            && window.saturating_since(self.since) >= policy.after
    }

    /// True if the breaker must block: the watch is old enough, has enough outcomes, and this window's
    /// are bad too.
    fn trips(self, window: Window, now: Outcomes, policy: &BreakerPolicy) -> bool {
        window.saturating_since(self.since) >= policy.after
            && self.sum.all >= policy.outcomes
            && now.are_bad(policy)
    }
}

#[cfg(test)]
mod tests;
