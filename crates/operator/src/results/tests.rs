use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::control::{CANCELLED, Cancel};
use tidegate_core::dead_letter::{DeadLetter, LastError};
use tidegate_core::deduplication::Acceptance;
use tidegate_core::exclusions::{AddressKey, ExclusionList};
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{
    MarkRequest, MarkResult, Marks as _, SuppressedAddress, SuppressionReason,
};
use tidegate_fakes::MemoryLedger;

use super::*;
use crate::dead::{Letter, LetterContent};
use crate::mcp::tests::assert_answer;
use crate::page::Page;

const BEGAN: u64 = 1_795_206_000_000;
const SENT: EpochMillis = EpochMillis::new(BEGAN + 60_000);
const ENDED: EpochMillis = EpochMillis::new(BEGAN + 5_000);
const NOW: EpochMillis = EpochMillis::new(BEGAN + 600_000);

const INPUT: &str = "name,Email\nAda,Ada <ada@example.com>\nBob,bob@example.com\nCy,cy@example.com\nDi,di@example.com\n";

/// The journal of a run that enqueued rows 1, 2 and 4 under the ids m1, m2 and m4.
fn journal(ended: bool) -> RunJournal {
    let header = format!(
        r#"{{"tidegate_journal":1,"campaign":"big","queue":"q","run":"r","settings":{{"input":"{}"}},"rows":3,"by":"ada","at":"2026-11-20T20:20:00Z","before":{{"sent":0,"possibly_sent":0,"queued":0,"merging":0}},"input":{{"path":"news.csv","format":{{"csv":{{"delimiter":44,"multiline":false}}}}}}}}"#,
        crate::send::fingerprint(INPUT.as_bytes())
    );
    let rows = r#"{"acknowledged":{"at":"2026-11-20T20:20:03Z","rows":[[1,2],[4,4]],"ids":["m1","m2","m4"]}}"#;
    let end = if ended {
        format!("{{\"ended\":{{\"at\":{}}}}}\n", serde_json::to_string(&ENDED).unwrap())
    } else {
        String::new()
    };
    RunJournal::read("a.journal", format!("{header}\n{rows}\n{end}").as_bytes()).unwrap()
}

fn facts() -> RunFacts {
    RunFacts {
        now: NOW,
        has_marks: true,
        marks_kept: Some(Duration::from_hours(24)),
        cancel: None,
        since: CountsSince::default(),
        written_at: NOW,
        quota_per_second: None,
        dead: BTreeMap::new(),
        unread: 0,
        waiting: WaitingMail::default(),
        excluded: ExclusionList::default(),
        suppressed: BTreeMap::new(),
    }
}

fn identity(id: &str) -> Identity {
    Identity::from_body_id("big", id)
}

/// A ledger in which these mails are marked sent.
async fn ledger(sent: &[&str]) -> MemoryLedger {
    let ledger = MemoryLedger::default();
    for id in sent {
        mark(&ledger, id, BEGAN + 59_000).await;
        let accepted = Acceptance { at: SENT, ses_message_id: format!("ses-{id}") };
        assert!(ledger.set_sent(&identity(id), &accepted).await.unwrap());
    }
    ledger
}

async fn mark(ledger: &MemoryLedger, id: &str, at: u64) {
    let request = MarkRequest {
        identity: identity(id),
        token: id.to_owned(),
        pass: 0,
        now: Timestamp::from_millis(at),
        kept: Duration::from_hours(24),
        replaces: None,
    };
    assert_eq!(ledger.mark(&request).await.unwrap(), MarkResult::Ours);
}

fn letter(code: &str) -> Letter {
    let entry = DeadLetter {
        message_id: "5a".to_owned(),
        campaign: "big".to_owned(),
        to: vec!["bob@example.com".to_owned()],
        first_attempt_at: None,
        last_attempt_at: None,
        attempts: 1,
        last_error: LastError {
            code: Some(code.to_owned()),
            http_status: Some(400),
            provider_message: "no".to_owned(),
        },
        message: r#"{"id":"m2"}"#.to_owned(),
    };
    let content = LetterContent::Entry(Box::new(entry));
    Letter { message_id: "7".to_owned(), since: SENT, content, envelope: None }
}

async fn found(ledger: &MemoryLedger, facts: &RunFacts, journal: &RunJournal) -> Vec<RowResult> {
    let mut all = Vec::new();
    let each = |result: &RowResult| {
        all.push(result.clone());
        Ok(())
    };
    let report = results(ledger, facts, journal, INPUT.as_bytes(), each).await.unwrap();
    assert_answer("results", &report);
    assert_eq!(report.rows, 4);
    assert_eq!(report.by_status.values().sum::<u64>(), 4);
    all
}

async fn statuses(sent: &[&str], facts: &RunFacts, ended: bool) -> Vec<&'static str> {
    let results = found(&ledger(sent).await, facts, &journal(ended)).await;
    results.iter().map(|result| result.status.into_str()).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn every_row_has_its_mails_end_with_sess_id_and_time() {
    let dead = RunFacts { dead: [(identity("m2"), letter("MessageRejected"))].into(), ..facts() };
    let results = found(&ledger(&["m1"]).await, &dead, &journal(true)).await;
    let cells: Vec<[String; 8]> = results.iter().map(RowResult::cells).collect();
    assert_eq!(
        cells[0],
        ["Ada <ada@example.com>", "1", "m1", "sent", "2026-11-20 20:21:00 UTC", "ses-m1", "", ""]
    );
    assert_eq!(
        cells[1],
        [
            "bob@example.com",
            "2",
            "m2",
            "dead",
            "2026-11-20 20:21:00 UTC",
            "",
            "MessageRejected: no",
            ""
        ]
    );
    assert_eq!(cells[2], ["cy@example.com", "3", "", "excluded", "", "", "", ""]);
    assert_eq!(cells[3][3], "missing", "no record, and nothing waits");
}

#[tokio::test(flavor = "current_thread")]
async fn a_mail_without_a_record_waits_while_the_queues_have_mail_or_was_cancelled() {
    let waiting = RunFacts { waiting: WaitingMail { own: 2, elsewhere: 0 }, ..facts() };
    assert_eq!(statuses(&["m1"], &waiting, true).await, ["sent", "waiting", "excluded", "waiting"]);
    assert_eq!(statuses(&["m1"], &waiting, false).await[2], "not_enqueued");
    let cancelled = |at| Some(Cancel { at, keep: false });
    let after = RunFacts { cancel: cancelled(EpochMillis::new(BEGAN + 9_000)), ..waiting.clone() };
    assert_eq!(
        statuses(&["m1"], &after, true).await,
        ["sent", "cancelled", "excluded", "cancelled"]
    );
    let before = RunFacts { cancel: cancelled(EpochMillis::new(BEGAN)), ..waiting };
    assert_eq!(statuses(&["m1"], &before, true).await[1], "waiting");
    let kept = RunFacts { dead: [(identity("m2"), letter(CANCELLED))].into(), ..facts() };
    assert_eq!(statuses(&["m1"], &kept, true).await[1], "cancelled");
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancel_in_mid_run_concerns_the_rows_that_were_enqueued_before_it() {
    let cancel = |seconds: u64| {
        let at = EpochMillis::new(BEGAN + seconds * 1_000);
        RunFacts { cancel: Some(Cancel { at, keep: true }), ..facts() }
    };
    for ended in [true, false] {
        // They were acknowledged in second 3; the run ended in second 5, or was interrupted.
        let found = statuses(&["m1"], &cancel(4), ended).await;
        assert_eq!((found[0], found[1], found[3]), ("sent", "cancelled", "cancelled"));
        assert_eq!(statuses(&["m1"], &cancel(2), ended).await[1], "missing");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_kept_mail_is_cancelled_and_a_begun_one_is_unknown() {
    let kept = |id: &str| Letter { message_id: id.to_owned(), ..letter(CANCELLED) };
    let facts = RunFacts { dead: [(identity("m2"), kept("7"))].into(), ..facts() };
    let ledger = ledger(&["m1"]).await;
    assert_eq!(found(&ledger, &facts, &journal(true)).await[1].status, RowStatus::Cancelled);
    mark(&ledger, "m2", BEGAN + 59_000).await;
    assert_eq!(found(&ledger, &facts, &journal(true)).await[1].status, RowStatus::Unknown);
}

#[tokio::test(flavor = "current_thread")]
async fn without_marks_the_results_say_how_many_were_cancelled() {
    let off = RunFacts {
        has_marks: false,
        marks_kept: None,
        since: CountsSince { cancelled: 99, ..CountsSince::default() },
        ..facts()
    };
    let (ledger, each) = (ledger(&[]).await, |_: &RowResult| Ok(()));
    let report = results(&ledger, &off, &journal(true), INPUT.as_bytes(), each).await.unwrap();
    assert!(Page::of(&report).plain().contains("99 messages of the campaign were cancelled"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_bounce_counts_for_the_mails_before_it_and_suppresses_those_after_it() {
    let entry = |address: &str, reason, since| {
        let entry = SuppressedAddress { address: address.to_owned(), reason, since, tenant: None };
        (address.to_lowercase(), entry)
    };
    let later = EpochMillis::new(SENT.as_millis() + 1);
    let earlier = EpochMillis::new(SENT.as_millis() - 1);
    let suppressed = [
        entry("Ada@example.com", SuppressionReason::Bounce, later),
        entry("bob@example.com", SuppressionReason::Complaint, later),
        entry("di@example.com", SuppressionReason::Bounce, earlier),
    ];
    let facts = RunFacts { suppressed: suppressed.into(), ..facts() };
    let found = statuses(&["m1", "m2", "m4"], &facts, true).await;
    assert_eq!(found, ["bounced", "complained", "excluded", "suppressed"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_mail_that_ses_accepted_and_dropped_is_not_sent_and_says_why() {
    let ledger = ledger(&["m1", "m2"]).await;
    let dropped = MarkRequest {
        identity: dropped_identity("ses-m1"),
        token: "Attribute 'name' is not present in the rendering data.".to_owned(),
        pass: 0,
        now: SENT.into(),
        kept: Duration::from_hours(24),
        replaces: None,
    };
    ledger.mark(&dropped).await.unwrap();
    let found = found(&ledger, &facts(), &journal(true)).await;
    assert_eq!((found[0].status, found[1].status), (RowStatus::Dropped, RowStatus::Sent));
    let why = found[0].detail.as_deref().unwrap();
    assert!(why.ends_with("Attribute 'name' is not present in the rendering data."), "{why}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_mail_to_an_excluded_recipient_is_excluded_unless_it_was_sent_before() {
    let keys = ["ada", "bob"].map(|name| AddressKey::of_text(&format!("{name}@example.com")));
    let facts = RunFacts {
        excluded: ExclusionList::of(keys),
        waiting: WaitingMail { own: 5, elsewhere: 0 },
        ..facts()
    };
    let found = statuses(&["m1"], &facts, true).await;
    assert_eq!(found, ["sent", "excluded", "excluded", "waiting"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_text_to_an_excluded_number_is_excluded() {
    let text = RunFacts {
        excluded: ExclusionList::of([AddressKey::of_text("+12065550100")]),
        waiting: WaitingMail { own: 5, elsewhere: 0 },
        ..facts()
    };
    let input = "to_phone\n+12065550101\n+12065550100\n+12065550102\n+12065550103\n";
    let mut found = Vec::new();
    let each = |result: &RowResult| {
        found.push((result.to.clone(), result.status));
        Ok(())
    };
    let mut journal = journal(true);
    journal.header.input.to_column = Some("to_phone".to_owned());
    results(&ledger(&["m1"]).await, &text, &journal, input.as_bytes(), each).await.unwrap();
    let to = |number: u32, status| (format!("+1206555010{number}"), status);
    let expected = [
        to(1, RowStatus::Sent),
        to(0, RowStatus::Excluded),
        to(2, RowStatus::Excluded),
        to(3, RowStatus::Waiting),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "current_thread")]
async fn without_marks_only_dead_letters_are_known_and_the_report_says_so() {
    let dead = [(identity("m2"), letter("MessageRejected"))].into();
    let off = RunFacts {
        has_marks: false,
        marks_kept: None,
        dead,
        waiting: WaitingMail { own: 9, elsewhere: 0 },
        ..facts()
    };
    assert_eq!(statuses(&["m1"], &off, true).await, ["unknown", "dead", "excluded", "unknown"]);
    let each = |_: &RowResult| Ok(());
    let ledger = ledger(&[]).await;
    let report = results(&ledger, &off, &journal(true), INPUT.as_bytes(), each).await.unwrap();
    assert_answer("results", &report);
    assert!(Page::of(&report).plain().contains("Deduplication is off"), "{report:?}");
    let old = RunFacts { has_marks: false, ..facts() };
    let report = results(&ledger, &old, &journal(true), INPUT.as_bytes(), each).await.unwrap();
    assert!(report.notes[0].contains("marks are kept no longer"), "{report:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_send_without_an_outcome_is_under_way_for_30_s_and_then_unknown() {
    let (now, facts) = (NOW.as_millis(), facts());
    for (age, status) in [(30_000, "sending"), (30_001, "unknown")] {
        let ledger = ledger(&[]).await;
        mark(&ledger, "m1", now - age).await;
        assert_eq!(found(&ledger, &facts, &journal(true)).await[0].status.into_str(), status);
    }
}

#[test]
fn an_input_that_changed_is_refused() {
    let journal = journal(true);
    assert!(journal.check(INPUT.as_bytes()).is_ok());
    let error = journal.check(INPUT.replace("bob", "rob").as_bytes()).unwrap_err();
    assert!(matches!(error, ResultsError::InputChanged { .. }), "{error}");
    let rows_to = |address: &str| journal.rows_to(INPUT.as_bytes(), address).unwrap();
    assert_eq!(rows_to("ADA@example.com"), [(1, Some("m1".to_owned()))]);
    assert_eq!(rows_to("cy@example.com"), [(3, None)]);
}
