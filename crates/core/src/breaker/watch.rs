use serde::{Deserialize, Serialize};

use super::BreakerPolicy;
use crate::timestamp::Window;

const MILLION: u128 = 1_000_000;

/// How sends ended. A mail that SES refuses for good is no failure: SES works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// All that SES accepted or refused, and all that failed on the way.
    pub all: u64,
    /// Of these, refusals for the rate, and failures that are worth another try.
    pub failures: u64,
}

impl Outcomes {
    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.saturating_add(other.all),
            failures: self.failures.saturating_add(other.failures),
        }
    }

    /// Whether more than the policy's share are failures.
    fn are_bad(self, policy: &BreakerPolicy) -> bool {
        u128::from(self.failures) * MILLION > u128::from(self.all) * u128::from(policy.share)
    }
}

/// The outcomes since a first window with too many failures.
///
/// It ends where they are not too many any more: of all since then, or of the last group alone (a
/// third of the time and as many outcomes as a judgement needs), so that an outage which is over
/// trips nothing later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    since: Window,
    sum: Outcomes,
    group_since: Window,
    group: Outcomes,
    /// Whether several mails failed in one window: one bad mail cannot do that.
    #[serde(default)]
    several: bool,
}

impl Watch {
    /// The watch after `window`, where `before` stood; none while failures are few.
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
        if !sum.are_bad(policy) {
            return None;
        }
        let length = window.saturating_since(before.group_since);
        if length < policy.after / 3 || group.all < policy.outcomes {
            return Some(Self { sum, group, several, ..*before });
        }
        group.are_bad(policy).then_some(Self {
            since: before.since,
            sum,
            group_since: window.plus(1),
            group: Outcomes::default(),
            several,
        })
    }

    /// Whether nothing was accepted since it began, of several mails, and that for too long: then
    /// SES fails, however few outcomes there are.
    pub(super) fn is_outage(self, window: Window, policy: &BreakerPolicy) -> bool {
        self.several
            && self.sum.failures == self.sum.all
            && window.saturating_since(self.since) >= policy.after
    }

    /// Whether it has gone on for too long, and still does.
    pub(super) fn trips(self, window: Window, now: Outcomes, policy: &BreakerPolicy) -> bool {
        window.saturating_since(self.since) >= policy.after
            && self.sum.all >= policy.outcomes
            && now.are_bad(policy)
    }
}
