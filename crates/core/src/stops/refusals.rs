//! Refusals in a row. Ten mails of one campaign that SES refuses with one code, and none that it accepts between, hold
//! the campaign: the fault then lies in the campaign, and its further mail would be refused, too. So do 25 messages that
//! are no valid mail, and none that is: a producer that is wrong as a whole must not empty a queue into the dead letters.
//!
//! Such a hold lifts itself: every half minute one mail of the campaign probes, and the first one that SES accepts lifts it.

use serde::{Deserialize, Serialize};

use crate::control::MAX_DETAIL;
use crate::email::MAX_ID_CHARS;
use crate::identity::EpochMillis;
use crate::parts::fnv1a;
use crate::text::cut;
use crate::timestamp::Window;

/// Number of mails in a row, of one campaign and refused with one code, that holds the campaign.
const HOLD_AT: u32 = 10;
/// The same for messages that are no valid mail.
const HOLD_AT_INVALID: u32 = 25;
/// Least seconds between two probes of a held campaign.
const PROBE_EVERY: u64 = 30;
/// The ids that a streak keeps: all of a streak that does not hold yet.
const IDS: usize = 10;
/// The most characters of an id that a streak keeps whole; of a longer one it keeps the beginning and a hash.
const ID_CHARS: usize = 36;
const ID_BEGIN: usize = 27;
/// Most characters of a refusal's text in a hold, which leaves room for the ids.
const SAID_CHARS: usize = 220;

/// Code of messages that are no valid mail.
pub const INVALID: &str = "InvalidMessage";

/// One refusal, for the streak and for its hold's text.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// SES's error code, or [`INVALID`].
    pub code: &'a str,
    /// The mail's id.
    pub id: &'a str,
    /// The reason in SES's words or ours, and the recipient.
    pub said: &'a str,
}

/// Consecutive refusals of one campaign, all with the same code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streak {
    /// The code of all of them.
    pub code: String,
    /// Number of refusals in a row.
    pub count: u32,
    /// The ids of the last ten mails, each of at most 36 characters. A mail that is refused again does not count again.
    #[serde(default)]
    pub ids: Vec<String>,
    /// The reason and the whole id of the last one. They are not stored: only a window with a refusal holds.
    #[serde(skip)]
    said: String,
    #[serde(skip)]
    last: String,
}

impl Streak {
    /// A streak of one refusal.
    pub fn of(refusal: Refusal<'_>) -> Self {
        let (code, id, said) = (refusal.code, refusal.id, refusal.said);
        let (ids, said) = (vec![short(id)], cut(said, SAID_CHARS));
        Self { code: code.to_owned(), count: 1, ids, said, last: cut(id, MAX_ID_CHARS) }
    }

    /// This streak, and then `later`, which has the same code.
    fn then(mut self, later: Self) -> Self {
        let before = self.ids.len();
        self.ids.retain(|id| !later.ids.contains(id));
        let again = u32::try_from(before - self.ids.len()).unwrap_or(0);
        let count = self.count.saturating_add(later.count).saturating_sub(again);
        self.ids.extend(later.ids);
        self.ids.drain(..self.ids.len().saturating_sub(IDS));
        Self { count, ids: self.ids, ..later }
    }

    /// True if the streak is long enough to hold the campaign.
    pub fn holds(&self) -> bool {
        self.count >= if self.code == INVALID { HOLD_AT_INVALID } else { HOLD_AT }
    }

    /// Text for the hold's detail: the last reason with its recipient, the last id, and those before it that have room.
    pub fn in_words(&self) -> String {
        let what = if self.code == INVALID { "invalid" } else { "refused" };
        let begin = format!("{} in a row {what}: {}; ids {}", self.count, self.said, self.last);
        self.ids.iter().rev().skip(1).fold(begin, |text, id| {
            let longer = format!("{text}, {id}");
            if longer.chars().count() > MAX_DETAIL { text } else { longer }
        })
    }
}

fn short(id: &str) -> String {
    if id.chars().count() <= ID_CHARS {
        return id.to_owned();
    }
    format!("{}{:08x}", cut(id, ID_BEGIN), fnv1a(id))
}

/// Whether `window` sends a mail of a campaign that is held since `since` and was probed last at `probed`. It does from
/// half a minute after these on, until a probe has an answer: a window may have no slot for it, or find no mail. Where
/// windows `are_rare` that have a slot, each of them probes; else every fourth one, so that a probe's answer is known
/// before the next one.
///
/// ```
/// use tidegate_core::refusals::probes;
/// use tidegate_core::{Window, identity::EpochMillis};
/// let (since, at) = (EpochMillis::new(100_700), Window::from_epoch_second);
/// let probing = |window: &u64| probes(since, None, at(*window), false);
/// assert_eq!((100..145).filter(probing).collect::<Vec<_>>(), [130, 134, 138, 142]);
/// assert!(!probes(since, Some(EpochMillis::new(131_300)), at(134), false));
/// ```
pub fn probes(
    since: EpochMillis,
    probed: Option<EpochMillis>,
    window: Window,
    are_rare: bool,
) -> bool {
    let last = Window::containing(probed.map_or(since, |probed| probed.max(since)).into());
    let second = window.epoch_second();
    // The minute shifts the turn, so that no rate has its slots always between them.
    let is_turn = (second - second / 60).is_multiple_of(4);
    window.saturating_since(last) >= PROBE_EVERY && (are_rare || is_turn)
}

/// The change that one window's answers make to a campaign's streak. It is a summary, so it can be
/// applied to the streak that is stored when the window reports.
///
/// ```
/// use tidegate_core::refusals::{Refusal, Run};
/// let refusal = |id| Refusal { code: "MessageRejected", id, said: "invalid content" };
/// let mut run = Run::default();
/// run.refused(refusal("a"));
/// let before = run.after(None);
/// let mut run = Run::default();
/// run.refused(refusal("b"));
/// assert_eq!(run.after(before.as_ref()).unwrap().count, 2);
/// run.accepted();
/// assert_eq!(run.after(before.as_ref()), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// True if an acceptance or another code ended the streak from before the window.
    broken: bool,
    /// True if there was a valid message, which ends a streak of invalid ones.
    valid: bool,
    last: Option<Streak>,
}

impl Run {
    /// Notes that SES accepted a mail, which ends the streak.
    pub fn accepted(&mut self) {
        *self = Self { broken: true, valid: self.valid, last: None };
    }

    /// Notes a valid message, which ends a streak of invalid ones.
    pub fn valid(&mut self) {
        self.valid = true;
        self.broken |= self.last.take_if(|last| last.code == INVALID).is_some();
    }

    /// Notes a refusal.
    pub fn refused(&mut self, refusal: Refusal<'_>) {
        let next = Streak::of(refusal);
        self.last = Some(match self.last.take() {
            Some(streak) if streak.code == next.code => streak.then(next),
            last => {
                // A second code in this window ends the streak from before the window.
                self.broken |= last.is_some();
                next
            }
        });
    }

    /// The streak at the end of the window, without what was before; none after an acceptance.
    pub const fn last(&self) -> Option<&Streak> {
        self.last.as_ref()
    }

    /// The streak after this window if `before` was stored before it.
    pub fn after(&self, before: Option<&Streak>) -> Option<Streak> {
        // The stored streak continues only if nothing in this window ended it.
        let is_ended = |before: &Streak| self.broken || self.valid && before.code == INVALID;
        let before = before.filter(|before| !is_ended(before)).cloned();
        match (self.last.clone(), before) {
            (None, before) => before,
            (Some(last), Some(before)) if before.code == last.code => Some(before.then(last)),
            (last, _) => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer, or a message: accepted, refused with a code, invalid, valid.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Event {
        Accepted,
        Refused(&'static str),
        Valid,
    }

    fn events() -> impl Strategy<Value = Event> {
        use Event::{Accepted, Refused, Valid};
        proptest::sample::select(vec![
            Accepted,
            Refused("A"),
            Refused("A"),
            Refused("A"),
            Refused("B"),
            Refused(INVALID),
            Refused(INVALID),
            Refused(INVALID),
            Valid,
        ])
    }

    /// The expected streak, determined from single events.
    fn plainly(events: &[Event]) -> Option<(String, u32)> {
        let mut streak: Option<(String, u32)> = None;
        for event in events {
            streak = match (event, streak) {
                (Event::Accepted, _) => None,
                (Event::Valid, streak) => streak.filter(|(code, _)| code != INVALID),
                (Event::Refused(code), Some((same, n))) if *code == same => Some((same, n + 1)),
                (Event::Refused(code), _) => Some(((*code).to_owned(), 1)),
            };
        }
        streak
    }

    proptest! {
        #[test]
        fn however_answers_are_cut_into_windows_the_streak_is_the_same(
            windows in prop::collection::vec(prop::collection::vec(events(), 0..8), 0..8),
        ) {
            let mut streak = None;
            let mut number = 0;
            for window in &windows {
                let mut run = Run::default();
                for event in window {
                    number += 1;
                    match event {
                        Event::Accepted => run.accepted(),
                        Event::Valid => run.valid(),
                        Event::Refused(code) => {
                            let id = number.to_string();
                            run.refused(Refusal { code, id: &id, said: "" });
                        }
                    }
                }
                streak = run.after(streak.as_ref());
            }
            let found = streak.as_ref().map(|streak| (streak.code.clone(), streak.count));
            prop_assert_eq!(found, plainly(&windows.concat()));
            if let Some(streak) = streak {
                prop_assert_eq!(streak.ids.len(), (streak.count as usize).min(IDS));
            }
        }

        #[test]
        fn a_campaign_is_probed_within_four_seconds_of_half_a_minute_and_not_before(
            since in 0_u64..10_000_000, probed in prop::option::of(0_u64..10_000_000), rare: bool,
        ) {
            let (since, probed) = (EpochMillis::new(since), probed.map(EpochMillis::new));
            let last = Window::containing(probed.map_or(since, |probed| probed.max(since)).into());
            let probing = |n: &u64| probes(since, probed, last.plus(*n), rare);
            let first = (0..60).find(probing);
            // At a minute's end a turn takes five seconds.
            prop_assert!(first.is_some_and(|first| (30..=34).contains(&first)), "{first:?}");
            prop_assert!(!rare || first == Some(30));
        }
    }

    #[test]
    fn a_mail_that_is_refused_again_counts_once_however_long_its_id() {
        let mut streak = None;
        for number in 0..40 {
            let id = format!("{}-{}", "newsletter".repeat(9), number % 9);
            let mut run = Run::default();
            for _ in 0..2 {
                run.refused(Refusal { code: "NotFoundException", id: &id, said: "" });
            }
            streak = run.after(streak.as_ref());
        }
        let streak = streak.unwrap();
        assert_eq!((streak.count, streak.ids.len(), streak.holds()), (9, 9, false));
        assert!(streak.ids.iter().all(|id| id.chars().count() == ID_CHARS));
    }

    #[test]
    fn a_hold_names_the_last_mail_by_its_whole_id() {
        let id = |number| format!("{}-{number}", "i".repeat(254));
        let mut run = Run::default();
        for number in 0..10 {
            run.refused(Refusal { code: "NotFound", id: &id(number), said: &"s".repeat(300) });
        }
        let text = run.last().unwrap().in_words();
        let others = text.split_once(&id(9)).expect("the last one is named").1;
        assert!(text.chars().count() <= MAX_DETAIL && others.starts_with(", iii"), "{text}");
        let mut ids = run.last().unwrap().ids.iter();
        assert!(ids.any(|id| text.ends_with(id.as_str())), "no id is cut: {text}");
    }

    #[test]
    fn ten_refusals_or_25_invalid_messages_hold_and_the_text_names_the_last_of_them() {
        let mut run = Run::default();
        for number in 1..=10 {
            assert!(run.last().is_none_or(|streak| !streak.holds()), "{number}");
            let id = format!("receipt-{number}");
            let said = "NotFoundException: no template x, to bob@example.com";
            run.refused(Refusal { code: "NotFoundException", id: &id, said });
        }
        let held = run.last().unwrap();
        assert!(held.holds());
        let begin = "10 in a row refused: NotFoundException: no template x, to bob@example.com; \
            ids receipt-10, receipt-9,";
        assert!(held.in_words().starts_with(begin), "{}", held.in_words());
        assert!(held.in_words().ends_with(", receipt-1"));
        let mut run = Run::default();
        let long = "é".repeat(1_000);
        for number in 1..=25 {
            assert!(run.last().is_none_or(|streak| !streak.holds()), "{number}");
            let id = format!("{long}{number}");
            run.refused(Refusal { code: INVALID, id: &id, said: &long });
        }
        assert!(run.last().unwrap().holds());
        let text = run.last().unwrap().in_words();
        assert!(text.chars().count() <= MAX_DETAIL, "{text}");
    }
}
