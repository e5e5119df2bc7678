use serde::{Deserialize, Serialize};

use super::BreakerPolicy;
use crate::timestamp::Window;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(super) fn after(
        before: Option<&Self>,
        window: Window,
        outcomes: Outcomes,
        policy: &BreakerPolicy,
    ) -> Option<Self> {
        let several = outcomes.failures > 1 || before.is_some_and(|before| before.several);
        let Some(before) = before else {
            let (sum, group) = (outcomes, outcomes);
            let new = Self { since: window, sum, group_since: window, group, several };
            return outcomes.are_bad(policy).then_some(new);
        };
        let sum = before.sum.plus(outcomes);
        let group = before.group.plus(outcomes);
        // Failures are few in all: the watch ends.
        if !sum.are_bad(policy) {
            return None;
        }
        // The group is not complete yet, so it does not decide.
        let length = window.saturating_since(before.group_since);
        if length < policy.after / 3 || group.all < policy.outcomes {
            return Some(Self { sum, group, several, ..*before });
        }
        // A complete group without too many failures ends the watch; after a bad one the next group
        // begins.
        group.are_bad(policy).then_some(Self {
            since: before.since,
            sum,
            group_since: window.plus(1),
            group: Outcomes::default(),
            several,
        })
    }

    /// True if nothing was accepted since the watch began, several mails failed, and this lasted for
    /// the policy's time. Then SES fails, however few outcomes there are.
    pub(super) fn is_outage(self, window: Window, policy: &BreakerPolicy) -> bool {
        self.several
            && self.sum.failures == self.sum.all
            && window.saturating_since(self.since) >= policy.after
    }

    /// True if the breaker must block: the watch is old enough, has enough outcomes, and this window's
    /// are bad too.
    pub(super) fn trips(self, window: Window, now: Outcomes, policy: &BreakerPolicy) -> bool {
        window.saturating_since(self.since) >= policy.after
            && self.sum.all >= policy.outcomes
            && now.are_bad(policy)
    }
}
