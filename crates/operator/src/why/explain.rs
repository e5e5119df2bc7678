use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{QueueDepth, QueueUrl, VISIBILITY_TIMEOUT};

use super::limits::limits;
use super::limits::{backlog, limit_in_words, limited, merged, turn};
use super::{Explanation, MailFacts, MailVerdict, Obstacle, Statement};
use crate::dead::{Letter, LetterFilter, LetterVerdict, ReviewOptions, judge};
use crate::status::{LimitStatus, Status};
use crate::suggest::SuggestedCommand;
use tidegate_core::format::{count, rate, span, time};

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
            if_it_waits: None,
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
    let summary = "Several campaigns have a message of this id: name one with --campaign.";
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
    let age = |mark: &Mark| status.at.saturating_since(mark.since);
    match newest {
        Some((identity, mark)) if mark.state == MarkState::Sent => {
            let summary = format!(
                "It was sent: a poller set out to send it at {}, and {} took it.",
                time(mark.since),
                status.quota.words.service
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
    answer.lets_go(replay(facts, letter), None)
}

/// Whether and how the operator can replay a dead letter.
fn replay(facts: &MailFacts, letter: &Letter) -> String {
    let status = &facts.status;
    let express = facts.poller.express_queue_url.as_deref().map(|url| (EXPRESS, url));
    let campaigns = status.campaigns.iter().map(|own| (own.name.as_str(), own.queue_url.as_str()));
    let options = ReviewOptions {
        filter: LetterFilter::default(),
        include_unknown: false,
        drop_sent: false,
        campaign_queues: campaigns
            .chain(express)
            .map(|(name, url)| (name.to_owned(), QueueUrl::new(url)))
            .collect(),
        rules: facts.poller.rules.clone(),
        deduplication: facts.poller.deduplication,
    };
    let identity = letter.identity();
    let mark = facts.marks.iter().find(|(of, _)| Some(of) == identity.as_ref());
    let command = |include_unknown| SuggestedCommand::Replay {
        id: facts.query.id.clone(),
        campaign: facts.query.campaign.clone(),
        include_unknown,
    };
    match judge(letter, mark.map(|(_, mark)| mark), &options, status.at) {
        LetterVerdict::Send(_) => format!("never by itself: `{}`", command(false)),
        LetterVerdict::Perhaps(why) => format!("never by itself, and {why}: `{}`", command(true)),
        LetterVerdict::Sent => "never: it was sent, so it is not replayed".to_owned(),
        LetterVerdict::Cannot(why) => format!("never: it cannot be replayed: {why}"),
    }
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

/// The answer if neither marks nor dead letters name the mail.
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
                "what is on its queue waits, if that is still there, until it is a campaign again",
                None,
            )
        }
        Some(name) => unrecorded(facts, status, &[name]),
        None => unrecorded(facts, status, &names),
    };
    add_ruled_out(facts, answer)
}

/// The answer for a mail of one of `campaigns` that no record names. SQS tells only how many messages
/// are on a queue, so all that is known is what can have become of the mail.
fn unrecorded(facts: &MailFacts, status: &Status, campaigns: &[&str]) -> Explanation {
    let waits: Vec<(&str, Obstacle)> =
        campaigns.iter().filter_map(|name| Some((*name, wait(facts, status, name)?))).collect();
    let (verdict, known) = match waits.as_slice() {
        [] => (MailVerdict::Nowhere, "It waits on no queue"),
        _ => (MailVerdict::Unrecorded, "No record names it"),
    };
    let summary = format!("{known}: {}.", alternatives(facts, !waits.is_empty()));
    let only = if let [only] = campaigns { Some((*only).to_owned()) } else { None };
    let mut answer = Explanation::new(facts, verdict, summary).of(only);
    let is_identity = Identity::parse(&facts.query.id).is_ok();
    if facts.query.id.contains('@') && !is_identity {
        answer.summary += " It looks like an address, and `why` takes the mail's id.";
        return answer.lets_go(FIND_ID, None);
    }
    let next =
        if facts.poller.deduplication == Deduplication::Off { ASK_LOG } else { ASK_PRODUCER };
    let mut answer = answer.lets_go(next, None);
    if waits.is_empty() {
        answer.rule_out("waiting", "the queues of its campaign are empty");
        answer.not_known.push(LATE);
    } else {
        add_waits(&mut answer, status, waits, campaigns);
    }
    answer
}

/// Adds what the mail waits for if it is one of those on the queues: the campaign's obstacles if only one
/// can have it, else those that all campaigns share, else what each of them waits for.
fn add_waits(
    answer: &mut Explanation,
    status: &Status,
    mut waits: Vec<(&str, Obstacle)>,
    campaigns: &[&str],
) {
    if waits.len() == 1
        && let Some((name, wait)) = waits.pop()
    {
        answer.limits = limits(status, Some(name));
        if answer.limits.is_empty() {
            answer.rule_out("holds", "nothing holds its campaign, and pollers serve");
        }
        if campaigns.len() > 1 {
            answer.rule_out("other campaigns", format!("only {name} has anything on a queue"));
            answer.not_known.push(LATE);
        }
        answer.if_it_waits = Some(wait);
        return;
    }
    // The daily quota's reserve does not delay express mail, so it is no shared obstacle.
    let delays_all =
        |limit: &Obstacle| waits.iter().all(|(name, _)| limits(status, Some(name)).contains(limit));
    answer.limits = limits(status, None).into_iter().filter(delays_all).collect();
    answer.if_it_waits = answer.limits.first().cloned();
    if answer.if_it_waits.is_none() {
        let of_each = waits
            .iter()
            .map(|(name, wait)| Statement { of: "if of", what: format!("{name}: {}", wait.what) });
        answer.facts.extend(of_each);
        answer.lets_go = Some("name its campaign with `--campaign`".to_owned());
    }
}

/// Lists what can have become of a mail that no record names.
fn alternatives(facts: &MailFacts, may_wait: bool) -> String {
    let sent = match facts.poller.deduplication {
        Deduplication::Off => "it was sent".to_owned(),
        _ => {
            let kept = span(facts.poller.mark_kept);
            format!("it was sent more than {kept} ago or before deduplication was on")
        }
    };
    let mut all = vec![sent, "it was never enqueued under this id".to_owned()];
    let others = [
        (!facts.coverage.is_whole(), "it is a dead letter that was not read"),
        (facts.poller.deferral.is_some(), "it is deferred"),
        (may_wait, "it waits"),
    ];
    all.extend(others.into_iter().filter(|(may, _)| *may).map(|(_, what)| what.to_owned()));
    let last = all.pop().unwrap_or_default();
    format!("{}, or {last}", all.join(", "))
}

/// Names what the mail on the queues of `campaign` waits for; none if there is no mail.
fn wait(facts: &MailFacts, status: &Status, campaign: &str) -> Option<Obstacle> {
    // Express mail does not pass through the merge queue.
    let (merged, limited) = match campaign {
        EXPRESS => (0, 0),
        _ => (merged(status).all(), limited(status)),
    };
    let own = backlog(status, campaign);
    if own.all() + merged + limited == 0 {
        return None;
    }
    let first = limits(status, Some(campaign)).into_iter().next();
    Some(first.unwrap_or_else(|| {
        if own.all() + merged == 0 {
            wait_for_limit(facts, status)
        } else if own.visible + own.in_flight + merged + limited == 0 {
            wait_for_retry(facts, own)
        } else {
            wait_for_turn(facts, status, campaign, own)
        }
    }))
}

/// The campaign's mail waits only on the queues of limits.
fn wait_for_limit(facts: &MailFacts, status: &Status) -> Obstacle {
    let waiting = status.limits.iter().filter(|limit| limit.queued() > 0);
    let words: Vec<String> = waiting.clone().map(limit_in_words).collect();
    let longest =
        waiting.filter_map(LimitStatus::longest).max().unwrap_or_default().max(LONGEST_RETRY);
    let until = EpochMillis::from(facts.status.at + longest);
    Obstacle {
        verdict: MailVerdict::Limit,
        what: format!("for its recipient domain's limit: {}", words.join("; ")),
        lets_go: format!("by about {}, if nothing is added", time(until)),
        until: Some(until),
    }
}

fn wait_for_retry(facts: &MailFacts, own: QueueDepth) -> Obstacle {
    let until = EpochMillis::from(facts.status.at + LONGEST_RETRY);
    Obstacle {
        verdict: MailVerdict::Retry,
        what: format!(
            "for its retry, as one of {}; nothing else of its campaign waits",
            count(own.delayed)
        ),
        lets_go: format!("by {}: a retry is delayed by 15 min at most", time(until)),
        until: Some(until),
    }
}

fn wait_for_turn(facts: &MailFacts, status: &Status, campaign: &str, own: QueueDepth) -> Obstacle {
    let Some(turn) = turn(status, campaign) else {
        let (what, lets_go) = ("for its turn".to_owned(), "at a rate that is not known".to_owned());
        return Obstacle { verdict: MailVerdict::Waiting, what, lets_go, until: None };
    };
    let until = EpochMillis::from(facts.status.at + turn.most);
    let or_later = match own.delayed {
        0 => String::new(),
        delayed => format!(
            "; if it failed before, it may be one of the {} that wait for their retry, 15 min at most",
            count(delayed)
        ),
    };
    let lets_go = format!("by about {}, if nothing changes{or_later}", time(until));
    Obstacle {
        verdict: MailVerdict::Waiting,
        what: format!(
            "for its turn: at the present share of {} the {} messages up to the last of its campaign take at most about {}",
            rate(turn.rate),
            count(turn.messages),
            span(turn.most)
        ),
        lets_go,
        until: Some(until),
    }
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
    if answer.verdict == MailVerdict::Unrecorded {
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
                addresses.within(identity.as_str()),
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
    let depth = |depth: QueueDepth| {
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
            format!(
                "{text}; with deferral it may stand in S3 (`{}`)",
                SuggestedCommand::DeferredList
            ),
        );
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
