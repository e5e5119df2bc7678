//! Permanent refusals in a row. Ten refusals of one campaign with one code hold the campaign: the fault
//! then lies in the campaign, and SES would refuse its further mail too.

use serde::{Deserialize, Serialize};

/// Number of permanent refusals in a row, of one campaign and code, that holds the campaign.
const HOLD_AT: u32 = 10;

/// Consecutive permanent refusals of one campaign, all with the same code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// SES's error code, the same in all of them.
    pub code: String,
    /// Number of refusals in a row.
    pub count: u32,
}

impl Streak {
    /// True if the streak is long enough to hold the campaign.
    pub const fn holds(&self) -> bool {
        self.count >= HOLD_AT
    }

    /// Text for the hold's detail and for the operator.
    pub fn in_words(&self) -> String {
        format!("{HOLD_AT} permanent refusals in a row: {}; see its dead letters", self.code)
    }
}

/// The change that one window's answers make to a campaign's streak. It is a summary, so it can be
/// applied to the streak that is stored when the window reports.
///
/// ```
/// use tidegate_core::refusals::{Run, Streak};
/// let mut run = Run::default();
/// run.refused("MessageRejected");
/// run.refused("MessageRejected");
/// let before = Streak { code: "MessageRejected".into(), count: 7 };
/// assert_eq!(run.after(Some(&before)).unwrap().count, 9);
/// run.accepted();
/// assert_eq!(run.after(Some(&before)), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// True if an acceptance or another code ended the streak from before the window.
    broken: bool,
    last: Option<Streak>,
}

impl Run {
    /// Notes that SES accepted a mail, which ends the streak.
    pub fn accepted(&mut self) {
        *self = Self { broken: true, last: None };
    }

    /// Notes that SES permanently refused a mail with `code`.
    pub fn refused(&mut self, code: &str) {
        match &mut self.last {
            Some(streak) if streak.code == code => streak.count = streak.count.saturating_add(1),
            last => {
                // A second code in this window ends the streak from before the window.
                self.broken |= last.is_some();
                *last = Some(Streak { code: code.to_owned(), count: 1 });
            }
        }
    }

    /// The streak at the end of the window, without what was before; none after an acceptance.
    pub const fn last(&self) -> Option<&Streak> {
        self.last.as_ref()
    }

    /// The streak after this window if `before` was stored before it.
    pub fn after(&self, before: Option<&Streak>) -> Option<Streak> {
        // The stored streak continues only if nothing in this window ended it.
        let before = before.filter(|_| !self.broken);
        match (&self.last, before) {
            (None, before) => before.cloned(),
            (Some(last), Some(before)) if before.code == last.code => {
                Some(Streak { count: before.count.saturating_add(last.count), ..last.clone() })
            }
            (Some(last), _) => Some(last.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The expected streak, determined from single answers: `None` is an acceptance.
    fn plainly(answers: &[Option<u8>]) -> Option<Streak> {
        let last = (*answers.last()?)?;
        let count = answers.iter().rev().take_while(|answer| **answer == Some(last)).count();
        Some(Streak { code: last.to_string(), count: u32::try_from(count).unwrap() })
    }

    proptest! {
        #[test]
        fn however_answers_are_cut_into_windows_the_streak_is_the_same(
            windows in prop::collection::vec(
                prop::collection::vec(prop::option::weighted(0.8, 0_u8..2), 0..8), 0..8),
        ) {
            let mut streak = None;
            for window in &windows {
                let mut run = Run::default();
                for answer in window {
                    match answer {
                        Some(code) => run.refused(&code.to_string()),
                        None => run.accepted(),
                    }
                }
                streak = run.after(streak.as_ref());
            }
            prop_assert_eq!(streak, plainly(&windows.concat()));
        }
    }
}
