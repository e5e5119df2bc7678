use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::VISIBILITY_TIMEOUT;

use super::limits::limits;
use super::waiting::{at_its_limit, backlog, limit_in_words, limited, merged, turn};
use super::{Explanation, MailFacts, MailVerdict, Obstacle, Statement};
use crate::dead::Letter;
use crate::format::{count, rate, span, time};
use crate::status::{QueueStatus, Status};

const UNSEARCHABLE: &str = "SQS cannot be searched by id: that the mail stands on a queue is inferred from what was ruled out";
const UNRECORDED: &str =
    "deduplication is off: nothing but the poller's log records that a mail was sent";
const LATE: &str = "SQS counts its messages approximately, and up to a minute late";

/// The longest delay of a retry.
const LONGEST_RETRY: Duration = Duration::from_mins(15);

/// Explains where the mail is, what delays it, and until when.
pub fn explain(facts: &MailFacts) -> Explanation {
    let status = Status::of(&facts.status);
    let known = ask_for_campaign(facts, &status).or_else(|| from_records(facts, &status));
    let mut answer = known.unwrap_or_else(|| infer(facts, &status));
    answer.facts.extend(readings(facts, &status, answer.campaign.as_deref()));
    answer
}

impl Explanation {
    fn new(facts: &MailFacts, verdict: MailVerdict, summary: impl Into<String>) -> Self {
        Self {
            id: facts.query.id.clone(),
            campaign: facts.query.campaign.clone(),
            verdict,
            summary: summary.into(),
            lets_go: None,
            until: None,
            limits: Vec::new(),
            facts: Vec::new(),
            ruled_out: Vec::new(),
            not_known: Vec::new(),
        }
    }

    fn of(mut self, campaign: Option<String>) -> Self {
        self.campaign = campaign.or(self.campaign);
        self
    }

    fn lets_go(mut self, words: impl Into<String>, until: Option<EpochMillis>) -> Self {
        self.lets_go = Some(words.into());
        self.until = until;
        self
    }

    fn rule_out(&mut self, of: &'static str, what: impl Into<String>) {
        self.ruled_out.push(Statement { of, what: what.into() });
    }
}

/// Ids are unique within a campaign only. If marks or letters of several campaigns match, they are
/// different mails, and the operator must name the campaign.
fn ask_for_campaign(facts: &MailFacts, status: &Status) -> Option<Explanation> {
    let marked = facts.marks.iter().filter_map(|(identity, _)| identity.campaign());
    let dead = facts.letters.iter().filter_map(|letter| Some(letter.entry()?.campaign.clone()));
    let campaigns: BTreeSet<String> = marked.chain(dead).collect();
    if facts.query.campaign.is_some() || campaigns.len() < 2 {
        return None;
    }
    let summary = "Several campaigns have a mail of this id: name one with --campaign.";
    let mut answer = Explanation::new(facts, MailVerdict::WhichCampaign, summary);
    for campaign in campaigns {
        let mut of_one = facts.clone();
        of_one.marks.retain(|(identity, _)| identity.campaign().as_ref() == Some(&campaign));
        let is_of_one = |letter: &Letter| letter.entry().is_some_and(|e| e.campaign == campaign);
        of_one.letters.retain(is_of_one);
        if let Some(known) = from_records(&of_one, status) {
            answer
                .facts
                .push(Statement { of: "if of", what: format!("{campaign}: {}", known.summary) });
        }
    }
    Some(answer)
}

/// The answer from marks and dead letters, which name this very mail.
fn from_records(facts: &MailFacts, status: &Status) -> Option<Explanation> {
    let newest =
        facts.marks.iter().max_by_key(|(_, mark)| (mark.state == MarkState::Sent, mark.since));
    let letter = facts.letters.last();
    let age = |mark: &Mark| {
        Duration::from_millis(status.at.as_millis().saturating_sub(mark.since.as_millis()))
    };
    match newest {
        Some((identity, mark)) if mark.state == MarkState::Sent => {
            let summary = format!(
                "It was sent: a poller set out to send it at {}, and SES took it.",
                time(mark.since)
            );
            Some(Explanation::new(facts, MailVerdict::Sent, summary).of(identity.campaign()))
        }
        Some((identity, mark))
            if mark.state == MarkState::Sending && age(mark) <= VISIBILITY_TIMEOUT =>
        {
            let until = EpochMillis::new(mark.since.as_millis() + 30_000);
            let summary = format!("It is being sent: a poller set out to at {}.", time(mark.since));
            let words = format!("by {}; a poller that died is known to have by then", time(until));
            let answer =
                Explanation::new(facts, MailVerdict::Sending, summary).of(identity.campaign());
            Some(answer.lets_go(words, Some(until)))
        }
        marked => letter
            .map(|letter| dead(facts, letter))
            .or_else(|| marked.map(|(identity, mark)| unknown(facts, identity, mark))),
    }
}

fn dead(facts: &MailFacts, letter: &Letter) -> Explanation {
    let addresses = facts.status.settings.addresses;
    let said = letter.entry().map_or("", |entry| entry.last_error.provider_message.as_str());
    let code = letter.code().unwrap_or("no code");
    let summary = format!(
        "It is dead-lettered since {}: {code}, {}.",
        time(letter.since),
        addresses.within(said).trim_end_matches('.')
    );
    let campaign = letter.entry().map(|entry| entry.campaign.clone());
    let mut answer = Explanation::new(facts, MailVerdict::Dead, summary).of(campaign);
    if letter.entry().is_none() {
        "It is on the dead-letter queue, and no dead letter of Tidegate's."
            .clone_into(&mut answer.summary);
    }
    answer.lets_go(format!("never by itself: `tidegate dead replay --id {}`", facts.query.id), None)
}

fn unknown(facts: &MailFacts, identity: &Identity, mark: &Mark) -> Explanation {
    let began = format!("a poller set out to send it at {}", time(mark.since));
    let (summary, words) = match (mark.state, facts.poller.deduplication) {
        (MarkState::Parked, _) => (
            format!(
                "Nobody knows whether it was sent: {began}, and it was dead-lettered as unknown. Its dead letter was not found: it was replayed or deleted."
            ),
            "if it was replayed, when its turn comes",
        ),
        (_, Deduplication::Park) => (
            format!("Nobody knows whether it was sent: {began}, and no outcome came."),
            "when its message is received again (after 30 s, or a retry's delay of at most 15 min): it is then dead-lettered as unknown",
        ),
        _ => (
            format!("Nobody knows whether it was sent: {began}, and no outcome came."),
            "when its message is received again (after 30 s, or a retry's delay of at most 15 min): it is then sent again",
        ),
    };
    Explanation::new(facts, MailVerdict::Unknown, summary)
        .of(identity.campaign())
        .lets_go(words, None)
}

/// The answer by elimination, if neither marks nor dead letters name the mail.
fn infer(facts: &MailFacts, status: &Status) -> Explanation {
    let mut names: Vec<&str> = status.campaigns.iter().map(|own| own.name.as_str()).collect();
    names.extend(status.queues.contains_key("express").then_some(EXPRESS));
    let named = Identity::parse(&facts.query.id).ok().and_then(|identity| identity.campaign());
    let named = facts.query.campaign.clone().or(named);
    let answer = match named.as_deref() {
        Some(name) if !names.contains(&name) => {
            let summary = format!("There is no campaign {name}; there is {}.", names.join(", "));
            let answer =
                Explanation::new(facts, MailVerdict::NoCampaign, summary).of(named.clone());
            answer.lets_go(
                "its mail waits in its queue, if that is still there, until it is a campaign again",
                None,
            )
        }
        Some(name) => of_campaign(facts, status, Some(name)),
        None if names.len() == 1 => of_campaign(facts, status, names.first().copied()),
        None => of_any(facts, status, &names),
    };
    add_ruled_out(facts, answer)
}

fn of_campaign(facts: &MailFacts, status: &Status, campaign: Option<&str>) -> Explanation {
    let held = limits(status, campaign);
    let name = campaign.unwrap_or_default();
    // Express mail does not pass through the merge queue.
    let merged = if name == EXPRESS { QueueStatus::default() } else { merged(status) };
    let own = backlog(status, name);
    let limited = if name == EXPRESS { 0 } else { limited(status) };
    let mut answer = if own.all() + merged.all() + limited == 0 {
        let empty = "the campaign's queue and the merge queue are empty";
        not_found(facts, if name == EXPRESS { "the express queue is empty" } else { empty })
    } else if let Some(first) = held.first() {
        let summary = format!("It waits: {}.", first.what);
        Explanation::new(facts, first.verdict, summary).lets_go(&first.lets_go, first.until)
    } else if own.all() + merged.all() == 0 {
        waits_for_limit(facts, status)
    } else if own.visible + own.in_flight + merged.all() + limited == 0 {
        waits_for_retry(facts, own)
    } else {
        waits_for_turn(facts, status, name, own)
    };
    if held.is_empty() {
        answer.rule_out("holds", "nothing holds it, and pollers serve");
    }
    answer.limits = held;
    answer.of(campaign.map(str::to_owned))
}

fn not_found(facts: &MailFacts, empty: &'static str) -> Explanation {
    let (summary, words) = if facts.poller.deduplication == Deduplication::Off {
        (
            "It stands on no queue: it was sent, or it never came.",
            "the poller's log names every mail that was sent by its id",
        )
    } else {
        (
            "It stands on no queue, and deduplication has no mark of it: it never came, or was sent longer ago than marks are kept.",
            "look at the producer: the id, and the queue that it was put on",
        )
    };
    let mut answer = Explanation::new(facts, MailVerdict::Nowhere, summary).lets_go(words, None);
    answer.rule_out("waiting", empty);
    answer.not_known.push(LATE);
    answer
}

/// The campaign's mail waits only for limits of recipient domains.
fn waits_for_limit(facts: &MailFacts, status: &Status) -> Explanation {
    let waiting = status.domains.iter().filter(|limit| limit.waiting > 0);
    let words: Vec<String> = waiting.clone().map(limit_in_words).collect();
    let summary = format!("It waits for its recipient domain's limit: {}.", words.join("; "));
    let longest = waiting.filter_map(at_its_limit).max().unwrap_or_default().max(LONGEST_RETRY);
    let until = EpochMillis::from(facts.status.at + longest);
    let answer = Explanation::new(facts, MailVerdict::DomainLimit, summary);
    let mut answer =
        answer.lets_go(format!("by about {}, if nothing is added", time(until)), Some(until));
    answer.rule_out("its turn", "its campaign's queue and the merge queue are empty");
    answer
}

fn waits_for_retry(facts: &MailFacts, own: QueueStatus) -> Explanation {
    let summary = format!(
        "It waits for its retry, if it is one of the {} that do; nothing else of its campaign waits.",
        count(own.delayed)
    );
    let until = EpochMillis::from(facts.status.at + LONGEST_RETRY);
    let answer = Explanation::new(facts, MailVerdict::Retry, summary);
    let mut answer = answer
        .lets_go(format!("by {}: a retry is delayed by 15 min at most", time(until)), Some(until));
    answer.rule_out("its turn", "no mail of its campaign is ready to be sent");
    answer
}

fn waits_for_turn(
    facts: &MailFacts,
    status: &Status,
    campaign: &str,
    own: QueueStatus,
) -> Explanation {
    let Some(turn) = turn(status, campaign) else {
        return Explanation::new(facts, MailVerdict::Waiting, "It waits for its turn.");
    };
    let summary = format!(
        "It waits for its turn: at the present share of {} the {} messages up to the last of its campaign take at most about {}.",
        rate(turn.rate),
        count(turn.messages),
        span(turn.most)
    );
    let until = EpochMillis::from(facts.status.at + turn.most);
    let mut words = format!("by about {}, if nothing changes", time(until));
    if own.delayed > 0 {
        words = format!(
            "{words}; if it failed before, it may be one of the {} that wait for their retry, 15 min at most",
            count(own.delayed)
        );
    }
    Explanation::new(facts, MailVerdict::Waiting, summary).lets_go(words, Some(until))
}

/// The answer if the mail can be of any campaign: the obstacle that all campaigns share, or the
/// answer for each.
fn of_any(facts: &MailFacts, status: &Status, names: &[&str]) -> Explanation {
    let mut standing: Vec<Explanation> =
        names.iter().map(|name| of_campaign(facts, status, Some(name))).collect();
    standing.retain(|answer| answer.verdict != MailVerdict::Nowhere);
    if standing.is_empty() {
        return not_found(facts, "the campaigns' queues and those that they share are empty");
    }
    if standing.len() == 1
        && let Some(mut only) = standing.pop()
    {
        only.rule_out("other campaigns", "no mail of theirs stands on a queue");
        only.not_known.push(LATE);
        return only;
    }
    // The daily quota's reserve does not delay express mail, so it is no shared obstacle.
    let holds_all = |limit: &Obstacle| standing.iter().all(|answer| answer.limits.contains(limit));
    let shared: Vec<Obstacle> = limits(status, None).into_iter().filter(holds_all).collect();
    if let Some(first) = shared.first() {
        let summary = format!("It waits: {}.", first.what);
        let mut answer = Explanation::new(facts, first.verdict, summary);
        answer = answer.lets_go(&first.lets_go, first.until);
        answer.limits = shared;
        return answer;
    }
    let summary = "It may be of several campaigns, and they differ: name its campaign.";
    let mut answer = Explanation::new(facts, MailVerdict::WhichCampaign, summary);
    for other in standing {
        let name = other.campaign.as_deref().unwrap_or_default();
        answer.facts.push(Statement { of: "if of", what: format!("{name}: {}", other.summary) });
    }
    answer
}

fn add_ruled_out(facts: &MailFacts, mut answer: Explanation) -> Explanation {
    if facts.coverage.is_whole() {
        let read = count(facts.coverage.read);
        answer.rule_out(
            "dead-lettered",
            format!("it is none of the {read} messages on the dead-letter queue"),
        );
    } else {
        answer.not_known.push("the dead-letter queue was not read whole: it may be there");
    }
    if facts.poller.deduplication == Deduplication::Off {
        answer.not_known.push(UNRECORDED);
    } else {
        let kept = span(facts.poller.mark_kept);
        answer.rule_out(
            "sent",
            format!("deduplication, which keeps marks for {kept}, has none of it"),
        );
    }
    if answer.verdict != MailVerdict::Nowhere {
        answer.not_known.push(UNSEARCHABLE);
    }
    answer
}

fn readings(facts: &MailFacts, status: &Status, campaign: Option<&str>) -> Vec<Statement> {
    let mut said = Vec::new();
    let mut say = |of, what: String| said.push(Statement { of, what });
    let addresses = facts.status.settings.addresses;
    for (identity, mark) in &facts.marks {
        say(
            "mark",
            format!(
                "{}: {} since {}, pass {}",
                addresses.identity(identity),
                mark.state.as_str(),
                time(mark.since),
                mark.pass
            ),
        );
    }
    for letter in &facts.letters {
        let code = letter.code().unwrap_or("-");
        say(
            "dead letter",
            format!("{} since {}, message {}", code, time(letter.since), letter.message_id),
        );
    }
    let depth = |depth: QueueStatus| {
        format!(
            "{} waiting, {} in flight, {} delayed",
            count(depth.visible),
            count(depth.in_flight),
            count(depth.delayed)
        )
    };
    if let Some(name) = campaign
        .filter(|name| *name == EXPRESS || status.campaigns.iter().any(|own| own.name == *name))
    {
        say("campaign", format!("{name}: {}", depth(backlog(status, name))));
    }
    if let Some(merge) = status.queues.get("merge") {
        say("merge queue", depth(*merge));
    }
    if let Some(text) = status.level.in_words() {
        say(
            "level",
            format!("{text}; with deferral it may stand in S3 (`tidegate deferred list`)"),
        );
    }
    for limit in status.domains.iter().filter(|limit| limit.waiting > 0) {
        say("domain limit", limit_in_words(limit));
    }
    if let Some(in_force) = status.quota.in_force {
        let lowered = if status.quota.factor < 1.0 { ", lowered by refusals" } else { "" };
        say("rate", format!("{} for all{lowered}", rate(in_force)));
    }
    said
}
