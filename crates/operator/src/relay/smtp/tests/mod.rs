mod dialogue;
mod killed;
mod server;
mod smuggling;

use super::dialogue::{Dialogue, Event, SmtpTerms};
use crate::relay::refusal::Refusal;
use crate::relay::submission::SmtpMail;

pub(super) fn terms() -> SmtpTerms {
    SmtpTerms {
        host: "relay.example.com".to_owned(),
        most_bytes: 10_000,
        offers_tls: false,
        asks_login: false,
    }
}

/// A dialogue, a server that does at once whatever it is to do, and what came of it.
pub(super) struct Rehearsal {
    pub(super) dialogue: Dialogue,
    pub(super) answers: String,
    pub(super) submissions: Vec<SmtpMail>,
    pub(super) has_room: bool,
}

impl Rehearsal {
    pub(super) fn new(terms: SmtpTerms, is_secure: bool) -> Self {
        Self {
            dialogue: Dialogue::new(terms, is_secure),
            answers: String::new(),
            submissions: Vec::new(),
            has_room: true,
        }
    }

    pub(super) fn plain() -> Self {
        Self::new(terms(), false)
    }

    pub(super) fn says(&mut self, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        let mut before = usize::MAX;
        while !rest.is_empty() && !self.dialogue.is_over() {
            let event = self.dialogue.input(&mut rest, self.has_room);
            let answers = std::mem::take(&mut self.dialogue.answers);
            let is_moving = rest.len() < before || event.is_some();
            assert!(is_moving, "the dialogue does not move on");
            before = rest.len();
            self.answers += &answers;
            match event {
                Some(Event::StartTls) => self.dialogue.secured(),
                Some(Event::Login(credentials)) => {
                    let is_right = credentials.user == "ada" && credentials.password == "secret";
                    self.dialogue.logged_in(is_right.then_some(credentials.user));
                }
                Some(Event::Submit(submission)) => {
                    let result = match &*submission.from {
                        "busy@example.com" => Err(Refusal::Busy("SQS is out of reach".to_owned())),
                        "other@example.com" => {
                            Err(Refusal::NotAllowed("not a sender of this user".to_owned()))
                        }
                        "broken@example.com" => {
                            Err(Refusal::Invalid("a header\r\nis broken é".to_owned()))
                        }
                        _ => Ok(format!("m{}", self.submissions.len() + 1)),
                    };
                    if result.is_ok() {
                        self.submissions.push(submission);
                    }
                    self.dialogue.submitted(result);
                }
                None => {}
            }
        }
        self.answers += &std::mem::take(&mut self.dialogue.answers);
    }

    /// The answers since the last call.
    pub(super) fn hears(&mut self) -> String {
        self.answers += &std::mem::take(&mut self.dialogue.answers);
        std::mem::take(&mut self.answers)
    }
}
