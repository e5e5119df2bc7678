use std::time::Duration;

use super::discard::DiscardReview;
use super::letter::Doubt;
use super::letter_report::{LetterAction, LetterReport};
use super::read::Coverage;
use super::report::{Grouping, LetterDetails, LetterGroups, LetterList, LetterSummary};
use super::review::Review;
use crate::page::{Page, Span, TextTable, Tone, View};
use tidegate_core::format::{count, span, time};

/// Error messages are cut to this many characters in tables.
const SAID: usize = 60;

impl View for Coverage {
    fn view(&self, page: &mut Page) {
        let mut warn = |text: String| page.line(Tone::Warning, text);
        if self.limited {
            warn(format!(
                "only {} messages were read (--limit): there may be more",
                count(self.read)
            ));
        }
        if self.interrupted {
            warn(format!("interrupted after {} messages: there may be more", count(self.read)));
        }
        if self.hidden_before > 0 {
            warn(format!(
                "{} messages were hidden when this began, by another reader or one that was killed: look again in 30 s",
                count(self.hidden_before)
            ));
        }
        if self.still_hidden > 0 {
            warn(format!(
                "{} messages could not be made visible again: they become visible in 30 s",
                count(self.still_hidden)
            ));
        }
    }
}

impl View for LetterList {
    fn view(&self, page: &mut Page) {
        let of = if self.filter == "all" { String::new() } else { format!(" ({})", self.filter) };
        page.heading(format!("Dead letters: {}{of}", count(self.letters.len() as u64)));
        if !self.letters.is_empty() {
            let names =
                ["when", "campaign", "id", "to", "code", "status", "attempts", "age", "said", ""];
            let mut table = TextTable::new(names).right(5).right(6);
            self.letters.iter().for_each(|letter| table.row(cells(letter)));
            page.table(table);
        }
        self.coverage.view(page);
    }
}

fn cells(letter: &LetterSummary) -> [Span; 10] {
    let others = letter.to.len().saturating_sub(1);
    let to = letter.to.first().map_or("-", String::as_str);
    let to = if others > 0 { format!("{to} +{others}") } else { to.to_owned() };
    let dash = || "-".to_owned();
    [
        Span::from(time(letter.since)),
        Span::new(Tone::Strong, letter.campaign.clone().unwrap_or_else(dash)),
        Span::from(&letter.id),
        Span::from(to),
        Span::new(Tone::Bad, letter.code.clone().unwrap_or_else(dash)),
        Span::from(letter.http_status.map_or_else(dash, |status| status.to_string())),
        Span::from(letter.attempts),
        Span::from(span(Duration::from_secs(letter.age_s))),
        Span::from(letter.said.as_deref().map(short).unwrap_or_default()),
        remark(letter),
    ]
}

fn remark(letter: &LetterSummary) -> Span {
    match letter.doubt {
        _ if letter.foreign.is_some() => Span::new(Tone::Warning, "no dead letter of Tidegate's"),
        Doubt::Unknown => Span::new(Tone::Warning, "nobody knows whether it was sent"),
        Doubt::Perhaps => Span::new(Tone::Warning, "perhaps sent"),
        Doubt::None => Span::default(),
    }
}

impl View for LetterDetails {
    fn view(&self, page: &mut Page) {
        let row = &self.row;
        page.heading(format!("{} of {}", row.id, row.campaign.as_deref().unwrap_or("-")));
        let mut fields: Vec<(&str, Span)> = Vec::new();
        let mut field = |name, value: Option<String>| {
            fields.extend(value.map(|value| (name, Span::from(value))));
        };
        field(
            "dead-lettered",
            Some(format!("{}, {} ago", time(row.since), span(Duration::from_secs(row.age_s)))),
        );
        field("code", row.code.clone());
        field("status", row.http_status.map(|status| status.to_string()));
        field("said", row.said.clone());
        field("to", (!row.to.is_empty()).then(|| row.to.join(", ")));
        field("attempts", Some(row.attempts.to_string()));
        field("enqueued", self.enqueued_at.map(time));
        field("first attempt", self.first_attempt_at.map(time));
        field("last attempt", self.last_attempt_at.map(time));
        field("identity", self.identity.clone());
        field("pass", self.pass.map(|pass| pass.to_string()));
        field(
            "message ids",
            Some(match &self.mail_message_id {
                Some(mail) => format!("{mail} (the mail's), {} (here)", self.row.message_id),
                None => self.row.message_id.clone(),
            }),
        );
        field("body", Some(format!("{} bytes", count(self.bytes as u64))));
        field("no dead letter", row.foreign.clone());
        page.fields(fields);
        if row.doubt != Doubt::None {
            page.spans([remark(row)]);
        }
        for line in self.body.iter().flat_map(|body| body.lines()) {
            page.line(Tone::Plain, line);
        }
    }
}

impl View for Vec<LetterDetails> {
    fn view(&self, page: &mut Page) {
        for letter in self {
            letter.view(page);
        }
    }
}

impl View for LetterGroups {
    fn view(&self, page: &mut Page) {
        let by = match self.by {
            Grouping::Reason => "reason",
            Grouping::Domain => "domain",
            Grouping::Campaign => "campaign",
        };
        page.heading(format!("Dead letters by {by}: {}", count(self.letters)));
        if !self.groups.is_empty() {
            let names = [by, "letters", "perhaps sent", "oldest", "newest", "said of the newest"];
            let mut table = TextTable::new(names).right(1).right(2);
            for group in &self.groups {
                table.row([
                    Span::new(Tone::Strong, &group.key),
                    Span::from(count(group.letters)),
                    Span::from(count(group.perhaps_sent)),
                    Span::from(time(group.oldest)),
                    Span::from(time(group.newest)),
                    Span::from(short(&group.said)),
                ]);
            }
            page.table(table);
        }
        self.coverage.view(page);
    }
}

fn short(text: &str) -> String {
    let mut kept: String = text.chars().take(SAID).collect();
    if text.chars().nth(SAID).is_some() {
        kept.push('…');
    }
    kept
}

impl View for Review {
    fn view(&self, page: &mut Page) {
        page.heading(format!("Replay of dead letters ({})", self.filter));
        let names =
            ["campaign", "code", "letters", "to send", "sent already", "perhaps sent", "cannot"];
        let mut table = (2..7).fold(TextTable::new(names), TextTable::right);
        for group in &self.groups {
            let some = |tone, number: u64| {
                Span::new(if number > 0 { tone } else { Tone::Faint }, count(number))
            };
            table.row([
                Span::new(Tone::Strong, &group.campaign),
                Span::from(&group.code),
                Span::from(count(group.letters)),
                some(Tone::Good, group.to_send),
                some(Tone::Warning, group.sent_already),
                some(Tone::Warning, group.perhaps_sent),
                some(Tone::Bad, group.cannot),
            ]);
        }
        page.table(table);
        for refusal in &self.refusals {
            page.line(
                Tone::Warning,
                format!("{} not sent: {}", count(refusal.letters), refusal.why),
            );
        }
        let to_send = count(self.to_send());
        page.line(
            Tone::Strong,
            format!("{to_send} would be sent to their campaigns' queues again"),
        );
        if self.to_drop > 0 {
            page.line(
                Tone::Plain,
                format!("{} that were sent would be deleted here", count(self.to_drop)),
            );
        }
        if !self.guarded && self.to_send() > 0 {
            page.line(Tone::Faint, "deduplication is off: nothing but the code and the answer tells whether one was sent");
        }
        self.coverage.view(page);
    }
}

impl View for DiscardReview {
    fn view(&self, page: &mut Page) {
        self.groups.view(page);
        let all = count(self.letters());
        page.line(Tone::Strong, format!("{all} would be deleted for good ({})", self.filter));
    }
}

impl View for LetterReport {
    fn view(&self, page: &mut Page) {
        let tone = if self.is_whole() { Tone::Good } else { Tone::Warning };
        let (done, of, past) = (count(self.done()), count(self.of), self.action.past());
        let took = span(Duration::from_secs(self.took_s));
        page.line(tone, format!("{done} of {of} {past}, in {took}"));
        page.line(Tone::Faint, format!("by {}: {}", self.by, self.reason));
        let mut say = |number: u64, text: &str| {
            if number > 0 {
                page.line(Tone::Warning, format!("{} {text}", count(number)));
            }
        };
        if self.action == LetterAction::Replay {
            say(self.dropped, "had been sent, and were deleted");
        }
        say(self.sent_meanwhile, "were sent meanwhile, and stand on the dead-letter queue");
        say(self.refused, "were refused by SQS, and stand on the dead-letter queue");
        say(self.not_found, "were not found: another process deleted them, or hides them");
        say(
            self.not_deleted,
            match self.action {
                LetterAction::Discard => "could not be deleted: run it again",
                LetterAction::Replay => {
                    "were sent, and could not be deleted from the dead-letter queue: replayed within 5 minutes or with deduplication on they are sent once"
                }
            },
        );
        say(
            self.uncertain,
            "may have been sent (SQS did not answer), and stand on the dead-letter queue: replayed within 5 minutes or with deduplication on they are sent once",
        );
        say(self.still_hidden, "messages of the dead-letter queue stay hidden for up to 30 s");
        if self.interrupted {
            page.line(Tone::Warning, "interrupted: run it again to go on");
        }
        if !self.recorded {
            page.line(
                Tone::Warning,
                "the history has the beginning, not the end: the ledger did not answer",
            );
        }
    }
}
