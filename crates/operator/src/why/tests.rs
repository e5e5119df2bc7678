use std::time::Duration;

use tidegate_core::breaker::Breaker;
use tidegate_core::config::{Campaign, EXPRESS};
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::dead_letter::{DeadLetter, LastError, SQS_LIMIT_BYTES};
use tidegate_core::deduplication::{Deduplication, MarkState};
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::Envelope;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{
    AccountStatus, PreviousClaim, QueueDepth, Received, Standing, SuppressedAddress,
};

use super::*;
use crate::mcp::tests::assert_answer;
use crate::page::Page;
use crate::redact::AddressVisibility;
use crate::status::tests::settings;

const NOW: Timestamp = Timestamp::from_millis(1_795_206_967_042);

/// A stack that sends, with mail waiting.
fn facts(campaign: Option<&str>) -> MailFacts {
    let rate = Rate::per_second(14.0).unwrap();
    let previous = PreviousClaim {
        window: Window::containing(NOW),
        quota: rate,
        rate_margin: RateMargin::default(),
        limits: 0,
        changed_limits: 0,
        factor: RateFactor::default(),
    };
    let standing = Standing { previous: Some(previous), ..Standing::default() };
    let named = |(name, weight): (&str, u32)| Campaign {
        name: name.to_owned(),
        queue_url: format!("https://sqs.example/{name}"),
        weight,
        ..Campaign::default()
    };
    let depth = |visible| QueueDepth { visible, ..QueueDepth::default() };
    MailFacts {
        query: MailQuery { id: "4711".to_owned(), campaign: campaign.map(str::to_owned) },
        status: status::StackFacts {
            at: NOW,
            settings: status::StatusSettings { changes: 0, ..settings() },
            standing,
            campaigns: [("big", 90), ("small", 10)].map(named).to_vec(),
            backlogs: [("big".to_owned(), depth(9_000)), ("small".to_owned(), depth(1_230))].into(),
            depths: [("merge", depth(14)), ("dead_letters", depth(3))].into(),
            account: Some(AccountStatus {
                max_send_rate: 14.0,
                max_24_hour_send: -1.0,
                sent_last_24_hours: 0.0,
                sending_enabled: true,
                spend_limit: None,
            }),
            changes: Vec::new(),
            runs: Vec::new(),
        },
        marks: Vec::new(),
        letters: Vec::new(),
        coverage: Coverage { read: 3, ..Coverage::default() },
    }
}

fn hold(facts: &mut MailFacts, campaign: Option<&str>, reason: HoldReason, hold: Hold) {
    assert!(facts.status.standing.control.hold(campaign, reason, hold));
}

fn ago(span: Duration) -> EpochMillis {
    NOW.saturating_sub(span).into()
}

fn marked(mut facts: MailFacts, state: MarkState, since: Duration) -> MailFacts {
    let mark = Mark { state, token: "a".to_owned(), pass: 0, since: ago(since), accepted: None };
    facts.marks.push((Identity::from_body_id("small", "4711"), mark));
    facts
}

fn letter() -> Letter {
    letter_with(|_| {})
}

fn letter_with(change: impl FnOnce(&mut DeadLetter)) -> Letter {
    let identity = Identity::from_body_id("small", "4711");
    let envelope = Envelope::fresh("small", identity, ago(Duration::from_hours(3))).parked();
    let at = Some(ago(Duration::from_hours(2)));
    let mut entry = DeadLetter {
        message_id: "sqs-1".to_owned(),
        campaign: "small".to_owned(),
        to: vec!["ada@example.com".to_owned()],
        first_attempt_at: at,
        last_attempt_at: at,
        attempts: 1,
        last_error: LastError {
            code: Some("MessageRejected".to_owned()),
            http_status: Some(400),
            provider_message: "ada@example.com is on the suppression list".to_owned(),
        },
        message: r#"{"to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}"#.to_owned(),
    };
    change(&mut entry);
    let message = entry.into_queue_message(Some(&envelope), SQS_LIMIT_BYTES).unwrap();
    let attributes = message.attributes.into_iter();
    Letter::of(&Received {
        message_id: "5a1f0c52".to_owned(),
        receipt: String::new(),
        body: message.body.into(),
        attributes: attributes.map(|(name, value)| (name.to_owned(), value)).collect(),
        sent_at_millis: ago(Duration::from_hours(2)).as_millis(),
        receive_count: 1,
    })
}

/// The explanation, which is an answer of the tool.
fn answer_of(facts: &MailFacts) -> Explanation {
    let answer = explain(facts);
    assert_answer("why", &answer);
    answer
}

/// What the mail waits for if it waits.
fn wait(facts: &MailFacts) -> Obstacle {
    let answer = answer_of(facts);
    assert_eq!((answer.verdict, answer.until), (MailVerdict::Unrecorded, None), "{answer:?}");
    answer.if_it_waits.unwrap()
}

/// Regression: of each of these it was said that it waits for its turn, and until when.
#[test]
fn the_headline_says_what_is_known_and_no_more() {
    let (unrecorded, nowhere) = (MailVerdict::Unrecorded, MailVerdict::Nowhere);
    let (id, address, identity) = ("4711", "ada@example.com", "small/id/ada@example.com");
    let (may_wait, none_waits) =
        ("No record names it: SENT, NEVER, or it waits.", "It waits on no queue: SENT, or NEVER.");
    let unread = "It waits on no queue: SENT, NEVER, or it is a dead letter that was not read.";
    for (deduplication, waiting, all_letters, id, verdict, summary) in [
        ("off", 1_230, true, id, unrecorded, may_wait.to_owned()),
        ("off", 0, true, id, nowhere, none_waits.to_owned()),
        ("off", 0, false, id, nowhere, unread.to_owned()),
        ("off", 1_230, true, address, unrecorded, format!("{may_wait} ADDRESS")),
        ("off", 0, true, address, nowhere, format!("{none_waits} ADDRESS")),
        ("park", 1_230, true, id, unrecorded, may_wait.to_owned()),
        ("park", 0, true, id, nowhere, none_waits.to_owned()),
        ("resend", 0, true, address, nowhere, format!("{none_waits} ADDRESS")),
        ("park", 1_230, true, identity, unrecorded, may_wait.to_owned()),
    ] {
        let sent = match deduplication {
            "off" => "it was sent",
            _ => "it was sent more than 15 d 00 h ago or before deduplication was on",
        };
        let summary = summary
            .replace("SENT", sent)
            .replace("NEVER", "it was never enqueued under this id")
            .replace("ADDRESS", "It looks like an address, and `why` takes the mail's id.");
        for campaign in [Some("small"), None] {
            let mut facts = facts(campaign);
            facts.status.settings.poller.deduplication = deduplication.parse().unwrap();
            facts.query.id = id.to_owned();
            facts.coverage.limited = !all_letters;
            facts.status.depths.clear();
            let depth = QueueDepth { visible: waiting, ..QueueDepth::default() };
            facts.status.backlogs = [("small".to_owned(), depth)].into();
            let answer = answer_of(&facts);
            let said = (answer.verdict, answer.summary, answer.until);
            assert_eq!(said, (verdict, summary.clone(), None));
        }
    }
}

#[test]
fn an_address_is_told_how_to_find_the_id_and_nothing_of_a_turn() {
    for campaign in [Some("small"), None] {
        let mut facts = facts(campaign);
        facts.query.id = "ada@example.com".to_owned();
        let answer = answer_of(&facts);
        assert!(answer.lets_go.unwrap().contains("`tidegate_id`"));
        assert_eq!((answer.if_it_waits, answer.limits), (None, vec![]));
        // An id may be one: of a mail that is recorded all is known.
        let mark = Mark {
            state: MarkState::Sent,
            token: "a".to_owned(),
            pass: 0,
            since: ago(Duration::ZERO),
            accepted: None,
        };
        facts.marks.push((Identity::from_body_id("small", "ada@example.com"), mark));
        assert_eq!(answer_of(&facts).verdict, MailVerdict::Sent);
    }
}

#[test]
fn mail_that_may_be_in_the_store_is_not_said_to_be_gone() {
    let mut facts = facts(Some("small"));
    facts.status.backlogs.clear();
    facts.status.depths.clear();
    facts.status.settings.poller.store = tidegate_core::store::Location::parse("s3://tides/store");
    let answer = answer_of(&facts);
    assert_eq!(answer.verdict, MailVerdict::Nowhere);
    assert!(answer.summary.ends_with(", or it waits in the store."), "{}", answer.summary);
}

#[test]
fn marks_and_dead_letters_tell_of_the_very_mail() {
    let (minute, second) = (Duration::from_mins(1), Duration::from_secs(1));
    let verdict = |facts: &MailFacts| answer_of(facts).verdict;
    assert_eq!(verdict(&marked(facts(None), MarkState::Sent, minute)), MailVerdict::Sent);
    assert_eq!(verdict(&marked(facts(None), MarkState::Sending, second)), MailVerdict::Sending);
    assert_eq!(verdict(&marked(facts(None), MarkState::Sending, minute)), MailVerdict::Unknown);
    assert_eq!(verdict(&marked(facts(None), MarkState::Parked, minute)), MailVerdict::Unknown);
    let mut both = marked(facts(None), MarkState::Parked, minute);
    both.letters.push(letter());
    assert_eq!(verdict(&both), MailVerdict::Dead);
    // Sent by another copy, whatever stands on the dead-letter queue.
    let mut sent = marked(facts(None), MarkState::Sent, minute);
    sent.letters.push(letter());
    assert_eq!(verdict(&sent), MailVerdict::Sent);
    let answer = answer_of(&sent);
    assert_eq!(answer.campaign.as_deref(), Some("small"));
    assert!(answer.summary.starts_with("It was sent: a poller set out to send it at 2026-11-20"));
}

#[test]
fn a_dead_mail_is_said_to_be_replayable_only_if_a_replay_would_send_it() {
    let lets_go = |letter: Letter| {
        let mut facts = facts(Some("small"));
        facts.letters.push(letter);
        answer_of(&facts).lets_go.unwrap()
    };
    let command = "`tidegate dead replay --id=4711 --campaign=small";
    assert_eq!(lets_go(letter()), format!("never by itself: {command}`"));
    let unanswered = lets_go(letter_with(|entry| entry.last_error.http_status = None));
    let why = "SES did not answer their last send";
    assert_eq!(unanswered, format!("never by itself, and {why}: {command} --include-unknown`"));
    let invalid = lets_go(letter_with(|entry| entry.message = "{}".to_owned()));
    assert!(invalid.starts_with("never: it cannot be replayed: would be dead-lettered again"));
    let gone = lets_go(letter_with(|entry| entry.campaign = "spring".to_owned()));
    assert_eq!(gone, "never: it cannot be replayed: there is no campaign spring any more");
}

#[test]
fn mails_of_one_id_in_several_campaigns_are_not_taken_for_each_other() {
    let mut two = marked(facts(None), MarkState::Parked, Duration::from_mins(1));
    let sent = Mark {
        state: MarkState::Sent,
        token: "b".to_owned(),
        pass: 0,
        since: ago(Duration::from_hours(9)),
        accepted: None,
    };
    two.marks.push((Identity::from_body_id("big", "4711"), sent));
    two.letters.push(letter());
    let answer = answer_of(&two);
    assert_eq!((answer.verdict, answer.campaign), (MailVerdict::WhichCampaign, None));
    let lines: Vec<_> = answer.facts.iter().filter(|said| said.of == "if of").collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].what.starts_with("big: It was sent: "), "{lines:?}");
    assert!(lines[1].what.starts_with("small: It is dead-lettered since "), "{lines:?}");
    // A letter alone against a mark does the same.
    two.marks.remove(0);
    assert_eq!(answer_of(&two).verdict, MailVerdict::WhichCampaign);
    two.query.campaign = Some("big".to_owned());
    two.letters.clear();
    assert_eq!(answer_of(&two).verdict, MailVerdict::Sent);
}

#[test]
fn every_limit_is_named_with_when_it_lets_go() {
    let since = ago(Duration::from_mins(5));
    let held = |campaign, reason, until: Option<EpochMillis>| {
        let mut facts = facts(Some("small"));
        hold(&mut facts, campaign, reason, Hold::new("said", since).until(until));
        wait(&facts)
    };
    let paused = held(Some("small"), HoldReason::Paused, None);
    assert_eq!(paused.verdict, MailVerdict::Paused);
    assert!(paused.lets_go.contains("`tidegate resume small --reason '…'`"));
    let until = EpochMillis::from(NOW + Duration::from_hours(1));
    assert_eq!(held(None, HoldReason::Paused, Some(until)).until, Some(until));
    let daily = held(None, HoldReason::DailyBudget, None);
    assert_eq!(daily.verdict, MailVerdict::DailyQuota);
    assert_eq!(daily.until, Some(EpochMillis::new(since.as_millis() + 86_400_000)));
    assert_eq!(held(None, HoldReason::Account, None).verdict, MailVerdict::Held);
    let refusals = held(Some("small"), HoldReason::Refusals, None);
    assert_eq!(refusals.verdict, MailVerdict::Held);
    assert!(refusals.lets_go.contains("`tidegate lift refusals small --reason '…'`"));
    assert_eq!(held(Some("big"), HoldReason::Paused, None).verdict, MailVerdict::Waiting);

    let mut blocked = facts(Some("small"));
    let at = |second: u64| Window::containing(NOW).plus(second);
    blocked.status.standing.control.breaker = Breaker::Blocking { since: at(0), until: at(30) };
    assert_eq!(wait(&blocked).verdict, MailVerdict::Breaker);
    let mut weightless = facts(Some("small"));
    weightless.status.standing.control.weights.insert("small".to_owned(), 0);
    assert_eq!(wait(&weightless).verdict, MailVerdict::NoShare);
    let mut unserved = facts(Some("small"));
    unserved.status.standing.previous.as_mut().unwrap().window =
        Window::containing(NOW.saturating_sub(Duration::from_mins(4)));
    assert_eq!(wait(&unserved).verdict, MailVerdict::NotServed);
    let mut paused = facts(Some("small"));
    paused.status.account.as_mut().unwrap().sending_enabled = false;
    assert_eq!(wait(&paused).verdict, MailVerdict::NoQuota);
}

#[test]
fn several_limits_are_all_said_and_the_weightiest_first() {
    let mut facts = facts(Some("small"));
    hold(&mut facts, None, HoldReason::Account, Hold::new("under review", ago(Duration::ZERO)));
    hold(&mut facts, Some("small"), HoldReason::Paused, Hold::new("", ago(Duration::ZERO)));
    facts.status.standing.control.weights.insert("small".to_owned(), 0);
    let verdicts: Vec<_> =
        answer_of(&facts).limits.into_iter().map(|limit| limit.verdict).collect();
    assert_eq!(verdicts, [MailVerdict::Paused, MailVerdict::Held, MailVerdict::NoShare]);
}

#[test]
fn what_nothing_holds_waits_for_its_turn_or_its_retry() {
    let of = |visible, delayed, merged| {
        let mut facts = facts(Some("small"));
        let own = QueueDepth { visible, delayed, in_flight: 0 };
        facts.status.backlogs.insert("small".to_owned(), own);
        facts
            .status
            .depths
            .insert("merge", QueueDepth { visible: merged, ..QueueDepth::default() });
        facts
    };
    assert_eq!(answer_of(&of(0, 0, 0)).verdict, MailVerdict::Nowhere);
    assert_eq!(wait(&of(0, 3, 0)).verdict, MailVerdict::Retry);
    assert_eq!(wait(&of(0, 0, 5)).verdict, MailVerdict::Waiting);
    // 1,230 at a tenth of 13.86 a second are 887 s; 14 in the merge queue another, and 10 to be found.
    let waiting = wait(&facts(Some("small")));
    let until = waiting.until.unwrap().as_millis() - NOW.as_millis();
    assert_eq!((waiting.verdict, until), (MailVerdict::Waiting, 899_000));
    // A hold on an empty queue holds nothing.
    let mut empty = of(0, 0, 0);
    hold(&mut empty, Some("small"), HoldReason::Paused, Hold::new("", ago(Duration::ZERO)));
    let answer = answer_of(&empty);
    assert_eq!((answer.verdict, answer.limits), (MailVerdict::Nowhere, vec![]));
}

/// The lines that say what the mail waits for if it is of a certain campaign.
fn of_each(facts: &MailFacts) -> usize {
    let answer = answer_of(facts);
    assert_eq!((answer.if_it_waits, answer.campaign), (None, None));
    assert!(answer.lets_go.unwrap().contains("--campaign"));
    answer.facts.iter().filter(|said| said.of == "if of").count()
}

#[test]
fn without_a_campaign_what_holds_for_all_is_said_else_it_asks_for_one() {
    assert_eq!(answer_of(&facts(Some("spring"))).verdict, MailVerdict::NoCampaign);
    assert_eq!(of_each(&facts(None)), 2);
    let mut all = facts(None);
    hold(&mut all, None, HoldReason::Paused, Hold::new("", ago(Duration::ZERO)));
    assert_eq!(wait(&all).verdict, MailVerdict::Paused);
    let mut identity = facts(None);
    identity.query.id = "small/id/4711".to_owned();
    assert_eq!(wait(&identity).verdict, MailVerdict::Waiting);
}

#[test]
fn express_mail_is_looked_for_and_never_on_the_merge_queue() {
    let with_express = |campaign, visible| {
        let mut facts = facts(campaign);
        facts.status.depths.insert("express", QueueDepth { visible, ..QueueDepth::default() });
        facts
    };
    // Mail on the merge queue is none of its.
    assert_eq!(answer_of(&with_express(Some(EXPRESS), 0)).verdict, MailVerdict::Nowhere);
    assert_eq!(wait(&with_express(Some(EXPRESS), 7)).verdict, MailVerdict::Waiting);
    assert_eq!(answer_of(&facts(Some(EXPRESS))).verdict, MailVerdict::NoCampaign);
    assert_eq!(of_each(&with_express(None, 7)), 3);
    assert_eq!(of_each(&with_express(None, 0)), 2);
    // The daily quota's reserve is kept for it: that does not hold for all.
    let mut reserve = with_express(None, 7);
    let daily = HoldReason::DailyBudget;
    hold(&mut reserve, None, daily, Hold::new("", ago(Duration::ZERO)));
    assert_eq!(of_each(&reserve), 3);
    // Nothing else waits: it is the only one that it can be.
    let mut only = with_express(None, 7);
    only.status.backlogs.clear();
    only.status.depths.remove("merge");
    assert_eq!(wait(&only).verdict, MailVerdict::Waiting);
    let ruled_out = answer_of(&only).ruled_out;
    assert!(ruled_out.iter().any(|said| said.what == "only express has anything on a queue"));
}

#[test]
fn what_was_not_ruled_out_is_said() {
    let guarded = answer_of(&facts(Some("small")));
    let of: Vec<_> = guarded.ruled_out.iter().map(|said| said.of).collect();
    assert_eq!(of, ["holds", "dead-lettered", "sent"]);
    let mut blind = facts(Some("small"));
    blind.status.settings.poller.deduplication = Deduplication::Off;
    blind.coverage.limited = true;
    let answer = answer_of(&blind);
    assert_eq!(answer.ruled_out.len(), 1);
    assert_eq!(answer.not_known.len(), 3, "{:?}", answer.not_known);
}

#[test]
fn an_id_that_is_an_address_is_masked_in_what_was_read() {
    let mut facts = facts(None);
    let mark = Mark {
        state: MarkState::Sent,
        token: "a".to_owned(),
        pass: 0,
        since: ago(Duration::ZERO),
        accepted: None,
    };
    facts.marks.push((Identity::from_body_id("small", "ada@example.com"), mark));
    let read = answer_of(&facts).facts;
    assert!(read[0].what.starts_with("small/id/***@example.com: sent"), "{read:?}");
    facts.status.settings.addresses = AddressVisibility::Shown;
    assert!(answer_of(&facts).facts[0].what.starts_with("small/id/ada@example.com: sent"));
}

#[test]
fn the_pages_of_three_verdicts() {
    let page = |facts: &MailFacts| Page::of(&answer_of(facts)).plain();
    snapbox::assert_data_eq!(
        page(&facts(Some("small"))),
        snapbox::file!["../../tests/golden/why_waiting.txt"]
    );
    let mut paused = facts(Some("small"));
    let hold_of = |text| Hold::new(text, ago(Duration::from_mins(5)));
    hold(&mut paused, Some("small"), HoldReason::Paused, hold_of("by ada: typo in the subject"));
    hold(
        &mut paused,
        None,
        HoldReason::DailyBudget,
        hold_of("49,500 of 50,000 recipients were sent"),
    );
    snapbox::assert_data_eq!(page(&paused), snapbox::file!["../../tests/golden/why_paused.txt"]);
    let mut dead = facts(None);
    dead.letters.push(letter());
    let text = page(&dead);
    assert!(!text.contains("ada@example.com"), "{text}");
    snapbox::assert_data_eq!(text, snapbox::file!["../../tests/golden/why_dead.txt"]);
}

#[test]
fn an_address_is_told_from_an_id_and_its_dead_letters_are_found() {
    assert!(is_address("Ada <ada@example.com>"));
    assert!(is_address("+12065550100"));
    for id in ["4711", "small/id/ada@example.com", "ada@", "order@4711 x"] {
        assert!(!is_address(id), "{id}");
    }
    let reading = crate::dead::LetterSnapshot { letters: vec![letter()], ..Default::default() };
    let found = dead_to(&reading, "ADA@example.com");
    assert_eq!(found, [("small".to_owned(), "4711".to_owned())]);
    assert!(dead_to(&reading, "bob@example.com").is_empty());
}

#[test]
fn the_answer_for_an_address_says_that_ses_delivers_nothing_to_it_and_masks_it() {
    let entry = SuppressedAddress {
        address: "ada@example.com".to_owned(),
        reason: tidegate_delivery::ports::SuppressionReason::Complaint,
        since: ago(Duration::from_hours(1)),
        tenant: None,
    };
    let of_tenant = SuppressedAddress { tenant: Some("acme".to_owned()), ..entry.clone() };
    let sent = answer_of(&marked(facts(Some("small")), MarkState::Sent, Duration::ZERO));
    let (address, masked) = ("ada@example.com", AddressVisibility::Masked);
    let report = |suppressed: &[SuppressedAddress], mails| AddressReport {
        not_searched: vec!["b.journal: gone".to_owned()],
        ..AddressReport::new(address, masked, suppressed, mails, vec!["a.journal".to_owned()])
    };
    let full = report(&[entry, of_tenant], vec![sent]);
    assert_answer(
        "why",
        &AddressReport { rows: vec!["row 3 of run r".to_owned()], ..full.clone() },
    );
    let text = Page::of(&full).plain();
    for said in [
        "***@example.com: 1 message to it",
        "on the account's suppression list since",
        "on the suppression list of the tenant acme since",
        "It was sent",
        "b.journal",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let none = Page::of(&report(&[], Vec::new())).plain();
    assert!(none.contains("No message to it is known") && none.contains("`tidegate_id`"), "{none}");
}

#[tokio::test]
async fn a_mail_in_the_store_is_found_there_with_its_time() {
    use tidegate_core::control::Cancel;
    use tidegate_core::identity::Envelope;
    use tidegate_core::store::{StoredMail, pack};
    use tidegate_delivery::ports::Store as _;
    let store = tidegate_fakes::MemoryStore::default();
    let at = EpochMillis::new(1_798_099_200_000);
    for (n, campaign) in ["small", "big"].into_iter().enumerate() {
        let line = |id: &str| {
            let identity = Identity::from_body_id(campaign, id);
            let envelope = Envelope::fresh(campaign, identity, EpochMillis::new(7));
            StoredMail::of("{}".to_owned(), &envelope, Some(at))
        };
        let name = format!("timed/20261224T080000Z.{campaign}.{n}a.2.jsonl.gz");
        store.put(&name, pack(&[line("6"), line("7")]).unwrap()).await.unwrap();
    }
    let mut control = tidegate_core::control::Control::default();
    let found = async |id: &str, control: &_| {
        find(&store, &[Identity::from_body_id("big", id)], control).await.unwrap()
    };
    assert_eq!(found("8", &control).await, None);
    let seven = found("7", &control).await.unwrap();
    let answer = Explanation::default().found_in_store(&seven);
    assert_eq!(answer.verdict, MailVerdict::Stored);
    assert_eq!(answer.summary, "It waits in the store for its time, 2026-12-24 08:00:00 UTC.");
    assert_eq!((answer.campaign.as_deref(), answer.until), (Some("big"), Some(at)));
    control.cancels.insert("big".to_owned(), Cancel { at: EpochMillis::new(8), keep: false });
    let answer = Explanation::default().found_in_store(&found("7", &control).await.unwrap());
    assert!(answer.summary.starts_with("It was cancelled"), "{}", answer.summary);
}

#[tokio::test]
async fn a_row_that_is_not_enqueued_yet_is_found_by_its_id() {
    use tidegate_core::draft::{InputFormat, Templates};
    use tidegate_core::store::rows::{StoredDrafts, StoredRow};
    use tidegate_core::store::{Progress, pack};
    use tidegate_delivery::ports::Store as _;
    let store = tidegate_fakes::MemoryStore::default();
    let draft = tidegate_fakes::list_draft("big", Templates::compile([], &[]).unwrap());
    let drafts = StoredDrafts {
        list: "in.csv".to_owned(),
        format: InputFormat::Json,
        cancelled_at: None,
        drafts: vec![draft],
    };
    store.put(&StoredDrafts::key("1a2b3c"), drafts.pack().unwrap()).await.unwrap();
    let row = |row: u64| {
        let columns = [("id".to_owned(), format!("order-{row}").into())].into();
        StoredRow { row, line: row + 1, columns }
    };
    let chunk = "rows/20261124T080000Z.big.1a2b3c000000.3.jsonl.gz";
    store.put(chunk, pack(&[row(7), row(8), row(9)]).unwrap()).await.unwrap();
    let mut progress = Progress::default();
    progress.note(0);
    let progress = serde_json::to_vec(&progress).unwrap();
    store.put(&format!("progress/{chunk}"), progress).await.unwrap();
    let mut control = tidegate_core::control::Control::default();
    let find = async |id: &str, control: &_| {
        find(&store, &[Identity::from_body_id("big", id)], control).await.unwrap()
    };
    assert_eq!(find("order-7", &control).await, None, "it is enqueued");
    let nine = find("order-9", &control).await.unwrap();
    let answer = Explanation::default().found_in_store(&nine);
    let said = "It is row 9 of run november, which the stack has not enqueued yet.";
    assert_eq!((answer.verdict, answer.summary.as_str()), (MailVerdict::Stored, said));
    let cancel = tidegate_core::control::Cancel { at: EpochMillis::new(8), keep: false };
    control.cancels.insert("big".to_owned(), cancel);
    assert!(find("order-9", &control).await.unwrap().cancelled);
}
