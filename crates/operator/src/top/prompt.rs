use std::collections::BTreeMap;

use crate::status::CampaignStatus;
use crate::steer::{MAX_REASON_CHARS, SteerAction};

/// A key that the dashboard knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Esc,
    Backspace,
    Up,
    Down,
}

#[derive(Clone, Debug, PartialEq)]
pub enum KeyRequest {
    Nothing,
    Quit,
    Steer { action: SteerAction, reason: String },
}

/// A question to the operator. Every change needs a reason; Enter after the reason confirms the
/// change, and Esc cancels it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub question: String,
    pub text: String,
    pub wrong: Option<String>,
    question_kind: Question,
}

#[derive(Clone, Debug, PartialEq)]
enum Question {
    Reason(SteerAction),
    /// The new weight of a campaign, given with its present weight.
    Weight(String, u32),
}

impl Prompt {
    /// The prompt that a letter opens for the selected campaign; `None` if it has no meaning.
    pub(super) fn of(letter: char, selected: Option<&CampaignStatus>) -> Option<Self> {
        let name = selected.map(|campaign| campaign.name.clone());
        let pause = |campaign| SteerAction::Pause { campaign, until: None };
        let resume = |campaign| SteerAction::Resume { campaign };
        match letter {
            'p' => name.map(|name| Self::why(&format!("Pause {name}"), pause(Some(name)))),
            'P' => Some(Self::why("Pause all sending", pause(None))),
            'r' => name.map(|name| Self::why(&format!("Resume {name}"), resume(Some(name)))),
            'R' => Some(Self::why("Resume all sending", resume(None))),
            'w' => selected.map(|campaign| Self {
                question: format!("New weight of {} (now {})", campaign.name, campaign.weight),
                text: String::new(),
                wrong: None,
                question_kind: Question::Weight(campaign.name.clone(), campaign.weight),
            }),
            _ => None,
        }
    }

    fn why(what: &str, action: SteerAction) -> Self {
        Self {
            question: format!("{what}. Why? (Enter does it, Esc leaves it)"),
            text: String::new(),
            wrong: None,
            question_kind: Question::Reason(action),
        }
    }

    /// Handles a key: returns the next prompt, if there is one, and the resulting request.
    pub(super) fn handle_key(mut self, key: Key) -> (Option<Self>, KeyRequest) {
        match key {
            Key::Esc => return (None, KeyRequest::Nothing),
            Key::Char(c) if self.text.chars().count() < MAX_REASON_CHARS => self.text.push(c),
            Key::Backspace => drop(self.text.pop()),
            Key::Enter => return self.enter(),
            Key::Char(_) | Key::Up | Key::Down => {}
        }
        self.wrong = None;
        (Some(self), KeyRequest::Nothing)
    }

    fn enter(mut self) -> (Option<Self>, KeyRequest) {
        let text = self.text.trim().to_owned();
        match self.question_kind.clone() {
            Question::Reason(_) if text.is_empty() => {
                self.wrong = Some("a reason is needed: 1 to 200 characters".to_owned());
                (Some(self), KeyRequest::Nothing)
            }
            Question::Reason(action) => (None, KeyRequest::Steer { action, reason: text }),
            Question::Weight(name, now) => match text.parse::<u32>() {
                Ok(weight) if weight <= 10_000 => {
                    let what = format!("Weight of {name}: {now} → {weight}");
                    let action = SteerAction::Weights(BTreeMap::from([(name, weight)]));
                    (Some(Self::why(&what, action)), KeyRequest::Nothing)
                }
                _ => {
                    self.wrong = Some("allowed is a whole number from 0 to 10000".to_owned());
                    (Some(self), KeyRequest::Nothing)
                }
            },
        }
    }
}
