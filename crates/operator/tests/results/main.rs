//! `tidegate results` in simulated time: every mail that a journal holds is found again.

#![expect(clippy::unwrap_used, reason = "tests: a panic is a finding")]

mod golden;
mod world;

use std::time::Duration;

use tidegate_core::deduplication::Deduplication;
use tidegate_core::store::{ObjectName, Progress};
use tidegate_delivery::ports::{FailureKind, Store as _};
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_operator::results::{
    AccountVerdict, ResultsError, ResultsReport, RowResult, RowStatus,
};

use world::{Became, World};

fn rows(report: &ResultsReport, status: RowStatus) -> u64 {
    report.by_status.get(&status).copied().unwrap_or(0)
}

fn balances(report: &ResultsReport) -> bool {
    report.account.verdict == AccountVerdict::Balanced
}

#[tokio::test(start_paused = true)]
async fn with_deduplication_every_mail_is_found_where_it_is() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 1_000).await;
    let became = [
        (300, Became::Sent),
        (20, Became::Dead),
        (7, Became::Parked),
        (3, Became::SendingFor(Duration::from_secs(40))),
        (5, Became::SendingFor(Duration::from_secs(2))),
        (15, Became::Retrying),
        (50, Became::Merging),
    ];
    world.befall("big", &became).await;
    let report = world.results(&journal).await.unwrap();
    let of = |status| rows(&report, status);
    assert_eq!((report.rows, of(RowStatus::Sent), of(RowStatus::Sending)), (1_000, 300, 5));
    // Nobody knows of three whether SES took them; seven are dead letters, and were begun.
    assert_eq!((of(RowStatus::Dead), of(RowStatus::Unknown)), (27, 3));
    assert_eq!((of(RowStatus::Waiting), report.account.missing), (665, 0));
    assert!(balances(&report), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_mail_whose_mark_could_not_be_taken_away_is_dead_and_not_unknown() {
    let world = World::new(Deduplication::Resend);
    let journal = world.enqueue("big", "november", 10).await;
    world.befall("big", &[(1, Became::DeadButMarked), (9, Became::Sent)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!((rows(&report, RowStatus::Dead), rows(&report, RowStatus::Sent)), (1, 9));
    assert!(balances(&report), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn with_deduplication_one_mail_that_is_gone_is_missed_once_nothing_moves() {
    let world = World::new(Deduplication::Resend);
    let journal = world.enqueue("big", "november", 500).await;
    world.befall("big", &[(499, Became::Sent), (1, Became::Lost)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!((rows(&report, RowStatus::Sent), rows(&report, RowStatus::Missing)), (499, 1));
    assert_eq!((report.account.missing, report.account.tolerance()), (1, 0));
    assert_eq!(report.account.verdict, AccountVerdict::Difference);
}

#[tokio::test(start_paused = true)]
async fn while_mail_moves_the_tolerance_is_a_minute_of_the_quota_and_is_said() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 5_000).await;
    let lost = 14 * 65;
    world.befall("big", &[(2_000, Became::Sent), (lost, Became::Lost)]).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!(report.account.missing, i64::try_from(lost).unwrap());
    assert_eq!(report.account.tolerance(), lost as u64);
    assert!(balances(&report));
    world.befall("big", &[(1, Became::Lost)]).await;
    assert!(!balances(&world.results(&journal).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_tolerance_that_covers_the_whole_campaign_proves_nothing_and_the_report_says_so() {
    let tolerance = 14 * 65;
    for deduplication in [Deduplication::Park, Deduplication::Off] {
        for (rows, verdict) in
            [(tolerance, AccountVerdict::Unproven), (tolerance + 1, AccountVerdict::Balanced)]
        {
            let world = World::new(deduplication);
            let journal = world.enqueue("big", "november", rows).await;
            let lost = usize::try_from(tolerance).unwrap();
            let sent = usize::try_from(rows).unwrap() - lost;
            world.befall("big", &[(sent, Became::Sent), (lost, Became::Lost)]).await;
            let report = world.results(&journal).await.unwrap();
            assert_eq!(report.account.verdict, verdict, "{deduplication:?}: {report:?}");
            let page = tidegate_operator::page::Page::of(&report).plain();
            let said = "this proves nothing: the tolerance of 910 covers all 910 messages";
            assert_eq!(page.contains(said), verdict == AccountVerdict::Unproven, "{page}");
        }
    }
    // Marks that name every mail as sent need no tolerance.
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 5).await;
    world.befall("big", &[(5, Became::Sent)]).await;
    assert!(balances(&world.results(&journal).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn deferred_mail_and_mail_on_limit_queues_is_found_there() {
    for deduplication in [Deduplication::Park, Deduplication::Off] {
        let world = World::new(deduplication);
        let journal = world.enqueue("big", "november", 2_000).await;
        let became = [
            (1_900, Became::Sent),
            (60, Became::Limited),
            (30, Became::Deferred),
            (10, Became::Merging),
        ];
        world.befall("big", &became).await;
        let report = world.results(&journal).await.unwrap();
        let account = &report.account;
        assert_eq!((account.missing, account.queued), (0, 100), "{deduplication:?}: {account:?}");
        assert!(balances(&report), "{account:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_object_that_is_partly_brought_back_only_the_rest_waits() {
    let world = World::new(Deduplication::Park);
    let name: ObjectName = "timed/20261120T203607Z.big.00ab.25.jsonl.gz".parse().unwrap();
    world.store.put(&name.to_string(), Vec::new()).await.unwrap();
    let progress = Progress { through: 10, ..Progress::default() };
    let progress = serde_json::to_vec(&progress).unwrap();
    world.store.put(&name.progress_key(), progress).await.unwrap();
    let left = async |campaign| tidegate_operator::store::left(&world.store, campaign).await;
    assert_eq!((left("big").await.unwrap(), left("small").await.unwrap()), (15, 0));
}

/// The mails have the ids of another run: deduplication takes them for its copies, and deletes them.
#[tokio::test(start_paused = true)]
async fn of_a_mail_whose_id_was_sent_before_the_run_the_results_say_so() {
    let world = World::new(Deduplication::Park);
    let first = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(100, Became::Sent)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let again = world.enqueue("big", "november", 100).await;
    for (run, is_older) in [(&first, false), (&again, true)] {
        let (report, rows) = world.rows(run).await.unwrap();
        assert!(balances(&report), "{report:?}");
        let says = |row: &RowResult| {
            let detail = row.detail.as_deref().unwrap_or_default();
            row.status == RowStatus::Sent && detail.contains("before this run began") == is_older
        };
        assert!(rows.len() == 100 && rows.iter().all(says), "{:?}", rows[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_run_gives_no_tolerance_once_its_journal_rests() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 500).await.abandoned();
    world.befall("big", &[(400, Became::Sent), (100, Became::Lost)]).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!(report.account.verdict, AccountVerdict::Unproven);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.results(&journal).await.unwrap();
    let account = &report.account;
    assert_eq!((report.ended, account.missing, account.tolerance()), (None, 100, 0));
    assert!(!balances(&report));
}

#[tokio::test(start_paused = true)]
async fn what_has_no_mark_is_only_taken_to_be_on_the_queues() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(60, Became::Sent), (10, Became::Lost)]).await;
    // Another producer's mails stand in the place of those that are gone.
    world.enqueue("big", "another", 10).await;
    let report = world.results(&journal).await.unwrap();
    let account = &report.account;
    assert_eq!((account.unmarked, account.queued, account.missing), (40, 40, 0));
    let page = tidegate_operator::page::Page::of(&report).plain();
    let said = "every message is accounted for, if the 40 without a record are among the 40 messages on the queues";
    assert!(page.contains(said), "{page}");
    let coloured = tidegate_operator::page::Page::of(&report).to_string();
    let line = coloured.lines().find(|line| line.contains("accounted for")).unwrap();
    assert!(!line.contains("\u{1b}[32m"), "{line:?}");
    world.befall("big", &[(40, Became::Sent)]).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!((report.account.unmarked, rows(&report, RowStatus::Missing)), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn without_deduplication_the_counters_tell_what_was_sent_since_the_run_began() {
    let world = World::new(Deduplication::Off);
    world.sent_before("big", 10_000).await;
    let journal = world.enqueue("big", "november", 1_000).await;
    world.befall("big", &[(600, Became::Sent), (10, Became::Dead), (40, Became::Merging)]).await;
    let report = world.results(&journal).await.unwrap();
    let account = &report.account;
    assert_eq!((account.sent_by_counts, account.queued), (Some(600), 390));
    assert_eq!((rows(&report, RowStatus::Dead), account.missing), (10, 0), "{account:?}");
    world.befall("big", &[(310, Became::Sent), (40, Became::Lost)]).await;
    world.drain_merge().await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!((report.account.missing, report.account.tolerance()), (40, 0), "{report:?}");
    assert_eq!(report.account.verdict, AccountVerdict::Difference);
}

#[tokio::test(start_paused = true)]
async fn where_more_was_sent_than_the_run_enqueued_counts_prove_nothing() {
    let world = World::new(Deduplication::Off);
    let journal = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(100, Became::Sent)]).await;
    world.sent_before("big", 3).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!((report.account.missing, report.account.verdict), (-3, AccountVerdict::Unproven));
    let page = tidegate_operator::page::Page::of(&report).plain();
    assert!(page.contains("3 messages more than the 100 messages of this run"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn runs_of_one_campaign_and_campaigns_stand_apart() {
    let world = World::new(Deduplication::Park);
    let first = world.enqueue("big", "november", 250).await;
    let second = world.enqueue("big", "december", 130).await;
    let other = world.enqueue("small", "november", 99).await;
    world.befall("big", &[(300, Became::Sent)]).await;
    world.befall("small", &[(98, Became::Sent), (1, Became::Merging)]).await;
    for (run, sent, waiting) in [(first, 250, 0), (second, 50, 80), (other, 98, 1)] {
        let report = world.results(&run).await.unwrap();
        let of = |status| rows(&report, status);
        assert_eq!((of(RowStatus::Sent), of(RowStatus::Waiting)), (sent, waiting), "{report:?}");
        assert!(balances(&report), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn marks_that_may_have_expired_are_not_relied_on() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(100, Became::Sent)]).await;
    tokio::time::sleep(world.kept + Duration::from_secs(1)).await;
    let report = world.results(&journal).await.unwrap();
    assert_eq!((report.account.sent_by_counts, balances(&report)), (Some(100), true));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_answer_is_an_error_and_no_account() {
    for operation in [Operation::Depth, Operation::Read, Operation::FindMarks] {
        let world = World::new(Deduplication::Park);
        let journal = world.enqueue("big", "november", 100).await;
        let denied = FailureKind::Denied("AccessDenied".to_owned());
        world.faults.add(Rule::new(Fault::Before(denied)).on(operation));
        let error = world.results(&journal).await.unwrap_err();
        assert!(matches!(error, ResultsError::Port(_)), "{operation:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_another_stack_is_refused() {
    let world = World::new(Deduplication::Park);
    let mut journal = world.enqueue("big", "november", 10).await;
    let other = String::from_utf8(journal.lines).unwrap();
    let other = other.replace("sqs.example/big", "sqs.example/b2");
    journal.lines = other.into_bytes();
    let error = world.results(&journal).await.unwrap_err().to_string();
    assert!(error.contains("campaign big on https://sqs.example/b2"), "{error}");
    assert!(error.ends_with("it has: big, small"), "{error}");
}
