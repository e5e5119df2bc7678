//! Permanent refusals in a row: ten of one campaign and code hold the campaign, since the fault is
//! then in the campaign, and every further mail of it would be refused as well.

use serde::{Deserialize, Serialize};

/// As many permanent refusals in a row of one campaign and code hold the campaign.
const HOLD_AT: u32 = 10;

/// Permanent refusals of one campaign in a row, all of one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// SES's code.
    pub code: String,
    /// How many in a row.
    pub count: u32,
}

impl Streak {
    /// Whether it is long enough to hold the campaign.
    pub const fn holds(&self) -> bool {
        self.count >= HOLD_AT
    }

    /// The hold's reason, in words.
    pub fn in_words(&self) -> String {
        format!("{HOLD_AT} permanent refusals in a row: {}; see its dead letters", self.code)
    }
}

/// How one window's answers change a campaign's streak: summed up, so that it can be applied to
/// whatever stands when it is written.
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
    /// An acceptance, or another code, ended whatever streak stood before.
    broken: bool,
    last: Option<Streak>,
}

impl Run {
    /// SES accepted a mail.
    pub fn accepted(&mut self) {
        *self = Self { broken: true, last: None };
    }

    /// SES refused a mail for good.
    pub fn refused(&mut self, code: &str) {
        match &mut self.last {
            Some(streak) if streak.code == code => streak.count = streak.count.saturating_add(1),
            last => {
                self.broken |= last.is_some();
                *last = Some(Streak { code: code.to_owned(), count: 1 });
            }
        }
    }

    /// The streak at its end.
    pub const fn last(&self) -> Option<&Streak> {
        self.last.as_ref()
    }

    /// The streak after this run, where `before` stood.
    pub fn after(&self, before: Option<&Streak>) -> Option<Streak> {
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

    /// What a sequence of answers comes to, told one by one: `None` is an acceptance.
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
