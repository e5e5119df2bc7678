//! The circuit breaker: when SES fails for a while, sending stops, and one mail at a time finds out
//! when it works again.
//!
//! Its state stands in the control record, so every poller obeys it. The states are named by their
//! effect: *allowing*, *blocking*, *probing*.

mod watch;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timestamp::Window;
pub use watch::{Outcomes, Watch};

/// When the breaker blocks, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// `TIDEGATE_BREAKER_SHARE`, in millionths: more refusals and failures than this are too many.
    pub share: u64,
    /// `TIDEGATE_BREAKER_SECONDS`: for longer than this.
    pub after: u64,
    /// `TIDEGATE_BREAKER_OUTCOMES`: fewer outcomes are no ground for a judgement.
    pub outcomes: u64,
    /// `TIDEGATE_BREAKER_STOP_SECONDS`: how long nothing is sent.
    pub stop: u64,
    /// `TIDEGATE_BREAKER_PROBE_SECONDS`: a prober older than this is replaced.
    pub probe: u64,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { share: 200_000, after: 60, outcomes: 20, stop: 30, probe: 15 }
    }
}

/// What a poller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Send.
    Send,
    /// Send one mail, if it becomes the prober.
    Probe,
    /// Nothing.
    Nothing,
}

/// The breaker's state.
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
    /// Mail is sent.
    Allowing {
        /// Kept from the first window with too many failures on, until there are few again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        watch: Option<Watch>,
    },
    /// Nothing is sent.
    Blocking {
        /// Since when.
        since: Window,
        /// The first window that may probe.
        until: Window,
    },
    /// One poller sends one mail.
    Probing {
        /// Since when nothing was sent.
        blocked: Window,
        /// The prober's window.
        since: Window,
        /// The token of the prober's claim.
        prober: String,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Allowing { watch: None }
    }
}

impl Breaker {
    /// Whether it allows, and has no reason not to.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it allows.
    pub const fn is_allowing(&self) -> bool {
        matches!(self, Self::Allowing { .. })
    }

    /// How long nothing has been sent but probes.
    pub fn blocked_for(&self, now: Window) -> Option<Duration> {
        match self {
            Self::Allowing { .. } => None,
            Self::Blocking { since: blocked, .. } | Self::Probing { blocked, .. } => {
                Some(Duration::from_secs(now.saturating_since(*blocked)))
            }
        }
    }

    /// What the poller of `window` may do.
    pub fn permit(&self, window: Window, policy: &BreakerPolicy) -> Permit {
        let due = match self {
            Self::Allowing { .. } => return Permit::Send,
            Self::Blocking { until, .. } => *until,
            Self::Probing { since, .. } => since.plus(policy.probe),
        };
        if window >= due { Permit::Probe } else { Permit::Nothing }
    }

    /// Whether mails that fail in `window` fail with SES, and not by themselves: it is too early to
    /// block, on too few outcomes, and a mail's last attempt is not to be spent on it.
    pub fn suspects_an_outage(&self, window: Window, policy: &BreakerPolicy) -> bool {
        match self {
            Self::Allowing { watch } => watch.is_some_and(|watch| watch.is_outage(window, policy)),
            Self::Blocking { .. } | Self::Probing { .. } => true,
        }
    }

    /// The state after `window` had these outcomes; `None` where that changes nothing.
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
        let next = match Watch::after(watch.as_ref(), window, outcomes, policy) {
            Some(watch) if watch.trips(window, outcomes, policy) => {
                Self::blocking(window, window, policy)
            }
            watch => Self::Allowing { watch },
        };
        (next != *self).then_some(next)
    }

    /// The state in which the poller of `window`, whose claim has this token, is the prober;
    /// `None` where it may not become it.
    pub fn probing(&self, window: Window, token: &str, policy: &BreakerPolicy) -> Option<Self> {
        let (Self::Blocking { since: blocked, .. } | Self::Probing { blocked, .. }) = self else {
            return None;
        };
        (self.permit(window, policy) == Permit::Probe).then(|| Self::Probing {
            blocked: *blocked,
            since: window,
            prober: token.to_owned(),
        })
    }

    /// The state after the probe of the poller with this token, in `window`; `None` where another
    /// has taken its place.
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

#[cfg(test)]
mod tests;
