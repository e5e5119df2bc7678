//! `tidegate reconcile` in simulated time: every mail that a journal holds is found again.

#![expect(clippy::unwrap_used, reason = "tests: a panic is a finding")]

mod golden;
mod world;

use std::time::Duration;

use tidegate_core::deduplication::Deduplication;
use tidegate_core::deferral::Progress;
use tidegate_delivery::ports::{DeferralStore as _, FailureKind};
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_operator::reconcile::{AccountVerdict, ReconcileError};

use world::{Became, World};

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
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.enqueued, account.sent, account.dead), (1_000, 300, 20));
    assert_eq!((account.unknown, account.retrying, account.waiting), (10, 15, 655));
    assert_eq!((account.difference, report.balances()), (0, true), "{account:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_mail_whose_mark_could_not_be_taken_away_is_dead_and_not_unknown() {
    let world = World::new(Deduplication::Resend);
    let journal = world.enqueue("big", "november", 10).await;
    world.befall("big", &[(1, Became::DeadButMarked), (9, Became::Sent)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.dead, account.unknown, account.difference), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn with_deduplication_one_mail_that_is_gone_is_missed_once_nothing_moves() {
    let world = World::new(Deduplication::Resend);
    let journal = world.enqueue("big", "november", 500).await;
    world.befall("big", &[(499, Became::Sent), (1, Became::Lost)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.sent, account.difference, account.tolerance()), (499, 1, 0));
    assert!(!report.balances());
}

#[tokio::test(start_paused = true)]
async fn while_mail_moves_the_tolerance_is_a_minute_of_the_quota_and_is_said() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 5_000).await;
    let lost = 14 * 65;
    world.befall("big", &[(2_000, Became::Sent), (lost, Became::Lost)]).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    assert_eq!(report.accounts[0].difference, i64::try_from(lost).unwrap());
    assert_eq!(report.accounts[0].tolerance(), lost as u64);
    assert!(report.balances());
    world.befall("big", &[(1, Became::Lost)]).await;
    assert!(!world.reconcile(&[&journal]).await.unwrap().balances());
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
            let report = world.reconcile(&[&journal]).await.unwrap();
            assert_eq!(report.verdict(), verdict, "{deduplication:?}: {report:?}");
            let page = tidegate_operator::page::Page::of(&report).plain();
            let said = "this proves nothing: the tolerance of 910 covers all 910 messages";
            assert_eq!(page.contains(said), verdict == AccountVerdict::Unproven, "{page}");
        }
    }
    // Marks that name every mail as sent need no tolerance.
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 5).await;
    world.befall("big", &[(5, Became::Sent)]).await;
    assert!(world.reconcile(&[&journal]).await.unwrap().balances());
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
        let report = world.reconcile(&[&journal]).await.unwrap();
        let account = &report.accounts[0];
        assert_eq!((account.deferred, account.waiting), (30, 70), "{deduplication:?}");
        assert_eq!((account.difference, account.queued), (0, 100), "{account:?}");
        let page = tidegate_operator::page::Page::of(&report).plain();
        assert!(page.contains("deferred     30  in S3, until the level is clear"), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_object_that_is_partly_replayed_only_the_rest_is_deferred() {
    let world = World::new(Deduplication::Park);
    let name = "20261120T203607Z.big.25.00ab.jsonl.gz".parse().unwrap();
    world.deferral.put(&name, Vec::new()).await.unwrap();
    let progress = Progress { through: 10, ..Progress::default() };
    world.deferral.set_progress(&name, &progress, None).await.unwrap();
    let left = tidegate_operator::deferral::left(&world.deferral).await.unwrap();
    assert_eq!(left, [("big".to_owned(), 15)].into());
}

/// The mails have the ids of another run: deduplication takes them for its copies, and deletes them.
#[tokio::test(start_paused = true)]
async fn marks_that_are_older_than_the_run_are_none_of_its_mails() {
    let world = World::new(Deduplication::Park);
    let first = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(100, Became::Sent)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let again = world.enqueue("big", "november", 100).await;
    let report = world.reconcile(&[&again]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.sent, account.sent_before, account.difference), (0, 100, 0));
    let page = tidegate_operator::page::Page::of(&report).plain();
    assert!(page.contains("sent before  100  their ids, before their run began"), "{page}");
    let both = world.reconcile(&[&first, &again]).await.unwrap();
    assert_eq!((both.accounts[0].sent, both.accounts[0].sent_before), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_run_gives_no_tolerance_once_its_journal_rests() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 500).await.abandoned();
    world.befall("big", &[(400, Became::Sent), (100, Became::Lost)]).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    assert_eq!(report.verdict(), AccountVerdict::Unproven);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.runs[0].ended, account.difference, account.tolerance()), (None, 100, 0));
    assert!(!report.balances());
}

#[tokio::test(start_paused = true)]
async fn what_has_no_mark_is_only_taken_to_be_on_the_queues() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(60, Became::Sent), (10, Became::Lost)]).await;
    // Another producer's mails stand in the place of those that are gone.
    world.enqueue("big", "another", 10).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.unmarked, account.queued, account.difference), (40, 40, 0));
    let page = tidegate_operator::page::Page::of(&report).plain();
    let said = "every message is accounted for, if the 40 without a mark are among the 40 messages on the queues";
    assert!(page.contains(said), "{page}");
    let coloured = tidegate_operator::page::Page::of(&report).to_string();
    let line = coloured.lines().find(|line| line.contains("accounted for")).unwrap();
    assert!(!line.contains("\u{1b}[32m"), "{line:?}");
    world.befall("big", &[(40, Became::Sent)]).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    assert_eq!(report.accounts[0].unmarked, 10);
}

#[tokio::test(start_paused = true)]
async fn without_deduplication_the_counters_tell_what_was_sent_since_the_run_began() {
    let world = World::new(Deduplication::Off);
    world.sent_before("big", 10_000).await;
    let journal = world.enqueue("big", "november", 1_000).await;
    world.befall("big", &[(600, Became::Sent), (10, Became::Dead), (40, Became::Merging)]).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.sent, account.dead, account.waiting), (600, 10, 390));
    assert_eq!(account.difference, 0, "{account:?}");
    world.befall("big", &[(310, Became::Sent), (40, Became::Lost)]).await;
    world.drain_merge().await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    let account = &report.accounts[0];
    assert_eq!((account.difference, account.tolerance()), (40, 0), "{account:?}");
    assert!(!report.balances());
}

#[tokio::test(start_paused = true)]
async fn more_sent_than_was_enqueued_is_a_difference_too() {
    let world = World::new(Deduplication::Off);
    let journal = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(100, Became::Sent)]).await;
    world.sent_before("big", 3).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    assert_eq!(report.accounts[0].difference, -3);
    assert!(!report.balances());
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_campaign_add_up_and_campaigns_stand_apart() {
    let world = World::new(Deduplication::Park);
    let first = world.enqueue("big", "november", 250).await;
    let second = world.enqueue("big", "december", 130).await;
    let other = world.enqueue("small", "november", 99).await;
    world.befall("big", &[(200, Became::Sent)]).await;
    world.befall("small", &[(98, Became::Sent), (1, Became::Merging)]).await;
    let report = world.reconcile(&[&first, &second, &other]).await.unwrap();
    let numbers =
        report.accounts.iter().map(|a| (a.campaign.as_str(), a.enqueued, a.sent, a.waiting));
    let expected = [("big", 380, 200, 180), ("small", 99, 98, 1)];
    assert_eq!(numbers.collect::<Vec<_>>(), expected);
    assert!(report.balances() && report.accounts[0].runs.len() == 2);
}

#[tokio::test(start_paused = true)]
async fn marks_that_may_have_expired_are_not_relied_on() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 100).await;
    world.befall("big", &[(100, Became::Sent)]).await;
    tokio::time::sleep(world.kept + Duration::from_secs(1)).await;
    let report = world.reconcile(&[&journal]).await.unwrap();
    assert_eq!((report.accounts[0].sent, report.balances()), (100, true));
    let page = tidegate_operator::page::Page::of(&report).plain();
    assert!(page.contains("by counts"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_answer_is_an_error_and_no_account() {
    for operation in [Operation::Depth, Operation::Read, Operation::FindMarks] {
        let world = World::new(Deduplication::Park);
        let journal = world.enqueue("big", "november", 100).await;
        let denied = FailureKind::Denied("AccessDenied".to_owned());
        world.faults.add(Rule::new(Fault::Before(denied)).on(operation));
        let error = world.reconcile(&[&journal]).await.unwrap_err();
        assert!(matches!(error, ReconcileError::Port(_)), "{operation:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_of_another_stack_is_refused() {
    let world = World::new(Deduplication::Park);
    let mut journal = world.enqueue("big", "november", 10).await;
    let other = String::from_utf8(journal.0).unwrap().replace("sqs.example/big", "sqs.example/b2");
    journal.0 = other.into_bytes();
    let error = world.reconcile(&[&journal]).await.unwrap_err().to_string();
    assert!(error.contains("campaign big on https://sqs.example/b2"), "{error}");
    assert!(error.ends_with("it has: big, small"), "{error}");
}
