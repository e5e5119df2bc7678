use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState};
use tidegate_core::format::{count, rate, span, time};
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{QueueDepth, VISIBILITY_TIMEOUT};

use super::obstacles::{after, backlog, obstacles, queue, turn};
use super::{Explanation, MailFacts, MailVerdict, Obstacle, Statement};
use crate::dead::{Letter, LetterFilter, LetterVerdict, ReviewOptions, judge};
use crate::status::{LimitStatus, Status};
use crate::suggest::SuggestedCommand;

const UNSEARCHABLE: &str =
    "whether it is one of the messages on the queues: SQS cannot be searched by id";
const UNRECORDED: &str =
    "deduplication is off: nothing but the poller's log at the level debug records what was sent";
const ASK_LOG: &str =
    "with LogLevel info,tidegate=debug the poller's log names what was sent by its id";
const ASK_PRODUCER: &str = "look at the producer: the id, and the queue that it was put on";
pub(super) const FIND_ID: &str = "take the `id` that the producer gave the mail: SES's events carry it as the tag `tidegate_id`, and `tidegate dead list` shows it beside the recipients";
const LATE: &str = "SQS counts its messages approximately, and up to a minute late";

/// The longest delay of a retry.
const LONGEST_RETRY: Duration = Duration::from_mins(15);

/// Explains where the mail is, what delays it, and until when.
pub fn explain(facts: &MailFacts) -> Explanation {
    let mail = Mail { facts, status: &Status::of(&facts.status) };
    let known = mail.ask_for_campaign().or_else(|| mail.of_records());
    let mut answer = known.unwrap_or_else(|| mail.infer());
    answer.facts.extend(mail.readings(answer.campaign.as_deref()));
    answer
}

impl Explanation {
    fn of(mut self, campaign: Option<String>) -> Self {
        self.campaign = campaign.or(self.campaign);
        self
    }

    fn lets_go(mut self, words: impl Into<String>) -> Self {
        self.lets_go = Some(words.into());
        self
    }

    fn rule_out(&mut self, of: &'static str, what: impl Into<String>) {
        self.ruled_out.push(Statement { of, what: what.into() });
    }
}

/// The mail that is asked for, and the stack's status.
#[derive(Clone, Copy)]
struct Mail<'a> {
    facts: &'a MailFacts,
    status: &'a Status,
}

impl Mail<'_> {
    fn answer(self, verdict: MailVerdict, summary: impl Into<String>) -> Explanation {
        Explanation {
            id: self.facts.query.id.clone(),
            campaign: self.facts.query.campaign.clone(),
            verdict,
            summary: summary.into(),
            ..Explanation::default()
        }
    }

    /// Ids are unique within a campaign only. If marks or letters of several campaigns match, they are
    /// different mails, and the operator must name the campaign.
    fn ask_for_campaign(self) -> Option<Explanation> {
        let of_letter = |letter: &Letter| letter.entry().map(|entry| entry.campaign.clone());
        let marked = self.facts.marks.iter().filter_map(|(identity, _)| identity.campaign());
        let dead = self.facts.letters.iter().filter_map(of_letter);
        let campaigns: BTreeSet<String> = marked.chain(dead).collect();
        if self.facts.query.campaign.is_some() || campaigns.len() < 2 {
            return None;
        }
        let summary = "Several campaigns have a message of this id: name one with --campaign.";
        let mut answer = self.answer(MailVerdict::WhichCampaign, summary);
        for campaign in campaigns {
            let mut facts = self.facts.clone();
            facts.marks.retain(|(identity, _)| identity.campaign().as_ref() == Some(&campaign));
            facts.letters.retain(|letter| of_letter(letter).as_ref() == Some(&campaign));
            let known = Mail { facts: &facts, ..self }.of_records();
            let of_one = |known: Explanation| format!("{campaign}: {}", known.summary);
            answer.facts.extend(known.map(|known| Statement { of: "if of", what: of_one(known) }));
        }
        Some(answer)
    }

    /// The answer from marks and dead letters, which name this very mail.
    fn of_records(self) -> Option<Explanation> {
        let dead = || self.facts.letters.last().map(|letter| self.dead(letter));
        let marks = self.facts.marks.iter();
        let newest = marks.max_by_key(|(_, mark)| (mark.state == MarkState::Sent, mark.since));
        let Some((identity, mark)) = newest else { return dead() };
        let began = time(mark.since);
        let until = after(mark.since, VISIBILITY_TIMEOUT);
        let known = match mark.state {
            MarkState::Sent => {
                let service = self.status.quota.words.service;
                let said = format!(
                    "It was sent: a poller set out to send it at {began}, and {service} took it."
                );
                self.answer(MailVerdict::Sent, said)
            }
            MarkState::Sending if self.status.at <= until => {
                let said = format!("It is being sent: a poller set out to at {began}.");
                let ends =
                    format!("by {}; a poller that died is known to have by then", time(until));
                let answer = self.answer(MailVerdict::Sending, said).lets_go(ends);
                Explanation { until: Some(until), ..answer }
            }
            _ => return dead().or_else(|| Some(self.unknown(mark).of(identity.campaign()))),
        };
        Some(known.of(identity.campaign()))
    }

    fn dead(self, letter: &Letter) -> Explanation {
        let summary = match letter.entry() {
            None => "It is on the dead-letter queue, and no dead letter of Tidegate's.".to_owned(),
            Some(entry) => {
                let said = &entry.last_error.provider_message;
                format!(
                    "It is dead-lettered since {}: {}, {}.",
                    time(letter.since),
                    letter.code().unwrap_or("no code"),
                    self.facts.status.settings.addresses.within(said).trim_end_matches('.')
                )
            }
        };
        let campaign = letter.entry().map(|entry| entry.campaign.clone());
        self.answer(MailVerdict::Dead, summary).of(campaign).lets_go(self.replay(letter))
    }

    /// Whether and how the operator can replay a dead letter.
    fn replay(self, letter: &Letter) -> String {
        let MailFacts { query, status, marks, .. } = self.facts;
        let filter = LetterFilter::default();
        let options = ReviewOptions::of(filter, &status.campaigns, self.facts.poller());
        let identity = letter.identity();
        let mark = marks.iter().find(|(of, _)| Some(of) == identity.as_ref());
        let command = |include_unknown| SuggestedCommand::Replay {
            id: query.id.clone(),
            campaign: query.campaign.clone(),
            include_unknown,
        };
        match judge(letter, mark.map(|(_, mark)| mark), &options, status.at) {
            LetterVerdict::Send(_) => format!("never by itself: `{}`", command(false)),
            LetterVerdict::Perhaps(why) => {
                format!("never by itself, and {why}: `{}`", command(true))
            }
            LetterVerdict::Sent => "never: it was sent, so it is not replayed".to_owned(),
            LetterVerdict::Cannot(why) => format!("never: it cannot be replayed: {why}"),
        }
    }

    fn unknown(self, mark: &Mark) -> Explanation {
        let began = format!("a poller set out to send it at {}", time(mark.since));
        let (outcome, lets_go) = if mark.state == MarkState::Parked {
            (
                "it was dead-lettered as unknown. Its dead letter was not found: it was replayed or deleted",
                "if it was replayed, when its turn comes".to_owned(),
            )
        } else {
            let park = self.facts.poller().deduplication == Deduplication::Park;
            let then = if park { "dead-lettered as unknown" } else { "sent again" };
            let received = "when its message is received again (after 30 s, or a retry's delay of at most 15 min)";
            ("no outcome came", format!("{received}: it is then {then}"))
        };
        let summary = format!("Nobody knows whether it was sent: {began}, and {outcome}.");
        self.answer(MailVerdict::Unknown, summary).lets_go(lets_go)
    }

    /// The answer if neither marks nor dead letters name the mail.
    fn infer(self) -> Explanation {
        let mut names: Vec<&str> =
            self.status.campaigns.iter().map(|own| own.name.as_str()).collect();
        names.extend(self.status.queues.contains_key("express").then_some(EXPRESS));
        let named = || Identity::parse(&self.facts.query.id).ok()?.campaign();
        let mut answer = match self.facts.query.campaign.clone().or_else(named) {
            Some(name) if !names.contains(&&*name) => {
                let said = format!("There is no campaign {name}; there is {}.", names.join(", "));
                let lets_go = "what is on its queue waits, if that is still there, until it is a campaign again";
                self.answer(MailVerdict::NoCampaign, said).of(Some(name)).lets_go(lets_go)
            }
            Some(name) => self.unrecorded(&[&name]),
            None => self.unrecorded(&names),
        };
        let (coverage, poller) = (self.facts.coverage, self.facts.poller());
        if coverage.is_whole() {
            let read = count(coverage.read);
            let said = format!("it is none of the {read} messages on the dead-letter queue");
            answer.rule_out("dead-lettered", said);
        } else {
            answer.not_known.push("the dead-letter queue was not read whole: it may be there");
        }
        if poller.deduplication == Deduplication::Off {
            answer.not_known.push(UNRECORDED);
        } else {
            let kept = span(poller.mark_kept);
            let said = format!("deduplication, which keeps marks for {kept}, has none of it");
            answer.rule_out("sent", said);
        }
        if answer.verdict == MailVerdict::Unrecorded {
            answer.not_known.push(UNSEARCHABLE);
        }
        answer
    }

    /// The answer for a mail of one of `campaigns` that no record names. SQS tells only how many messages
    /// are on a queue, so all that is known is what can have become of the mail.
    fn unrecorded(self, campaigns: &[&str]) -> Explanation {
        let waits = campaigns.iter().filter_map(|name| Some((*name, self.wait(name)?)));
        let waits: Vec<(&str, Obstacle)> = waits.collect();
        let (verdict, known) = match waits.as_slice() {
            [] => (MailVerdict::Nowhere, "It waits on no queue"),
            _ => (MailVerdict::Unrecorded, "No record names it"),
        };
        let summary = format!("{known}: {}.", self.alternatives(!waits.is_empty()));
        let only = if let [only] = campaigns { Some((*only).to_owned()) } else { None };
        let mut answer = self.answer(verdict, summary).of(only);
        let (query, poller) = (&self.facts.query, self.facts.poller());
        if query.id.contains('@') && Identity::parse(&query.id).is_err() {
            answer.summary += " It looks like an address, and `why` takes the mail's id.";
            return answer.lets_go(FIND_ID);
        }
        let is_off = poller.deduplication == Deduplication::Off;
        let mut answer = answer.lets_go(if is_off { ASK_LOG } else { ASK_PRODUCER });
        if waits.is_empty() {
            answer.rule_out("waiting", "the queues of its campaign are empty");
            answer.not_known.push(LATE);
        } else {
            self.add_waits(&mut answer, waits, campaigns.len() > 1);
        }
        answer
    }

    /// Adds what the mail waits for if it is one of those on the queues: the campaign's obstacles if only one
    /// can have it, else those that all campaigns share, else what each of them waits for.
    fn add_waits(self, answer: &mut Explanation, mut waits: Vec<(&str, Obstacle)>, of_many: bool) {
        let of = |campaign| obstacles(self.status, campaign);
        if waits.len() == 1
            && let Some((name, wait)) = waits.pop()
        {
            answer.limits = of(Some(name));
            if answer.limits.is_empty() {
                answer.rule_out("holds", "nothing holds its campaign, and pollers serve");
            }
            if of_many {
                answer.rule_out("other campaigns", format!("only {name} has anything on a queue"));
                answer.not_known.push(LATE);
            }
            answer.if_it_waits = Some(wait);
            return;
        }
        // The daily quota's reserve does not delay express mail, so it is no shared obstacle.
        let delays_all =
            |limit: &Obstacle| waits.iter().all(|(name, _)| of(Some(name)).contains(limit));
        answer.limits = of(None).into_iter().filter(delays_all).collect();
        answer.if_it_waits = answer.limits.first().cloned();
        if answer.if_it_waits.is_none() {
            let of_each = waits.iter().map(|(name, wait)| format!("{name}: {}", wait.what));
            answer.facts.extend(of_each.map(|what| Statement { of: "if of", what }));
            answer.lets_go = Some("name its campaign with `--campaign`".to_owned());
        }
    }

    /// Lists what can have become of a mail that no record names.
    fn alternatives(self, may_wait: bool) -> String {
        let (coverage, poller) = (self.facts.coverage, self.facts.poller());
        let sent = match poller.deduplication {
            Deduplication::Off => "it was sent".to_owned(),
            _ => {
                let kept = span(poller.mark_kept);
                format!("it was sent more than {kept} ago or before deduplication was on")
            }
        };
        let others = [
            (true, "it was never enqueued under this id"),
            (!coverage.is_whole(), "it is a dead letter that was not read"),
            (poller.store.is_some(), "it waits in the store"),
            (may_wait, "it waits"),
        ];
        let mut all: Vec<&str> =
            others.into_iter().filter(|(may, _)| *may).map(|(_, what)| what).collect();
        let last = all.pop().unwrap_or_default();
        all.insert(0, &sent);
        format!("{}, or {last}", all.join(", "))
    }

    /// Names what the mail on the queues of `campaign` waits for; none if there is no mail.
    fn wait(self, campaign: &str) -> Option<Obstacle> {
        // Express mail does not pass through the merge queue.
        let (merged, limited) = match campaign {
            EXPRESS => (0, 0),
            _ => (queue(self.status, "merge").all(), self.status.waiting.limits),
        };
        let own = backlog(self.status, campaign);
        if own.all() + merged + limited == 0 {
            return None;
        }
        let first = obstacles(self.status, Some(campaign)).into_iter().next();
        Some(first.unwrap_or_else(|| {
            if own.all() + merged == 0 {
                self.wait_for_limit()
            } else if own.visible + own.in_flight + merged + limited == 0 {
                self.wait_for_retry(own)
            } else {
                let unknown = || {
                    let lets_go = "at a rate that is not known";
                    Obstacle::new(MailVerdict::Waiting, "for its turn", lets_go)
                };
                turn(self.status, campaign).unwrap_or_else(unknown)
            }
        }))
    }

    /// The campaign's mail waits only on the queues of limits.
    fn wait_for_limit(self) -> Obstacle {
        let waiting = self.status.limits.iter().filter(|limit| limit.queued() > 0);
        let words: Vec<String> = waiting.clone().map(limit_in_words).collect();
        let longest = waiting.filter_map(LimitStatus::longest).max().unwrap_or_default();
        let until = after(self.status.at, longest.max(LONGEST_RETRY));
        let what = format!("for its recipient domain's limit: {}", words.join("; "));
        let lets_go = format!("by about {}, if nothing is added", time(until));
        Obstacle::new(MailVerdict::Limit, what, lets_go).until(until)
    }

    fn wait_for_retry(self, own: QueueDepth) -> Obstacle {
        let until = after(self.status.at, LONGEST_RETRY);
        let delayed = count(own.delayed);
        let what =
            format!("for its retry, as one of {delayed}; nothing else of its campaign waits");
        let lets_go = format!("by {}: a retry is delayed by 15 min at most", time(until));
        Obstacle::new(MailVerdict::Retry, what, lets_go).until(until)
    }

    /// The readings that the answer follows from.
    fn readings(self, campaign: Option<&str>) -> Vec<Statement> {
        let (facts, status) = (self.facts, self.status);
        let mut said = Vec::new();
        let mut say = |of, what: String| said.push(Statement { of, what });
        for (identity, mark) in &facts.marks {
            let name = facts.status.settings.addresses.within(identity.as_str());
            let (state, since) = (mark.state.as_str(), time(mark.since));
            say("mark", format!("{name}: {state} since {since}, pass {}", mark.pass));
        }
        for letter in &facts.letters {
            let (code, since) = (letter.code().unwrap_or("-"), time(letter.since));
            say("dead letter", format!("{code} since {since}, message {}", letter.message_id));
        }
        let depth = |depth: QueueDepth| {
            let [waiting, flying, delayed] =
                [depth.visible, depth.in_flight, depth.delayed].map(count);
            format!("{waiting} waiting, {flying} in flight, {delayed} delayed")
        };
        let is_known =
            |name: &str| name == EXPRESS || status.campaigns.iter().any(|own| own.name == name);
        if let Some(name) = campaign.filter(|name| is_known(name)) {
            say("campaign", format!("{name}: {}", depth(backlog(status, name))));
        }
        if let Some(merge) = status.queues.get("merge") {
            say("merge queue", depth(*merge));
        }
        if let Some(text) = status.level.in_words() {
            let deferred = "it may be in the store (`tidegate store`)";
            say("level", format!("{text}; {deferred}"));
        }
        for limit in status.limits.iter().filter(|limit| limit.queued() > 0) {
            say("limit", limit_in_words(limit));
        }
        if let Some(in_force) = status.quota.in_force {
            let lowered = if status.quota.factor < 1.0 { ", lowered by refusals" } else { "" };
            say("rate", format!("{} for all{lowered}", rate(in_force)));
        }
        said
    }
}

/// A limit that mail waits for, in words.
fn limit_in_words(limit: &LimitStatus) -> String {
    let (waiting, name, of) = (count(limit.queued()), limit.name(), &limit.limit);
    match limit.longest() {
        _ if limit.key == "domain:*" => {
            format!("{waiting} to other domains ({of} each, looked at every 15 min at most)")
        }
        Some(most) => format!("{waiting} to {name} ({of}: the last goes in about {})", span(most)),
        None => format!("{waiting} to {name}"),
    }
}
