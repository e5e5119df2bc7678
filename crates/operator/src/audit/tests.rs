//! A correct run of the simulation is judged clean; then each fault, put into its log, is found.

use tidegate_core::audit::{AuditRecord, SendOutcome};
use tidegate_core::control::ChangeRecord;
use tidegate_core::identity::EpochMillis;
use tidegate_simulator::{World, WorldSettings};

use super::{AuditReport, Judge};
use crate::page::Page;

const WINDOWS: &str = "every window served once, or counted as missed";
const SLOTS: &str = "starts at slots only, and never too late for theirs";
const RATE: &str = "no second above the quota";
const SHARES: &str = "shares by weight, in every hour";
const TWICE: &str = "every mail sent once, or twice with a cause";

/// A minute of two campaigns, 90 to 10, at 40 a second.
async fn records(merge: bool) -> Vec<AuditRecord> {
    let world = World::new(WorldSettings::new(40.0, merge)).unwrap();
    world.fill("big", 4_000).await.unwrap();
    world.fill("small", 500).await.unwrap();
    world.run(60).await;
    let runs = world.poller_runs();
    let records = runs.iter().filter_map(|run| run.report()?.record.as_deref().cloned());
    let records: Vec<_> = records.filter(|record| !record.sends.is_empty()).collect();
    assert!(records.len() > 55, "{} windows with mail", records.len());
    records
}

fn judge(records: Vec<AuditRecord>) -> AuditReport {
    let mut judge = Judge::default();
    for line in records.into_iter().flat_map(AuditRecord::lines) {
        judge.line(&line, None);
    }
    judge.report(Vec::new())
}

fn broken(report: &AuditReport) -> Vec<&'static str> {
    let promises = report.promises.iter().filter(|promise| promise.broken > 0);
    promises.map(|promise| promise.promise).collect()
}

/// What is found broken in a minute whose log was changed.
async fn found(change: impl FnOnce(&mut Vec<AuditRecord>)) -> Vec<&'static str> {
    let mut records = records(true).await;
    change(&mut records);
    broken(&judge(records))
}

/// Gives the first mail of window 40 the identity of that of window 20.
fn send_again(records: &mut [AuditRecord]) {
    records[40].sends[0].identity = records[20].sends[0].identity;
}

#[tokio::test(start_paused = true)]
async fn a_correct_run_is_judged_clean_with_and_without_a_merge_queue() {
    for merge in [true, false] {
        let report = judge(records(merge).await);
        assert!(report.is_kept(), "{merge}: {:#?}", report.promises);
        let figure = |name: &str| {
            let of = report.figures.iter().filter(|(figure, _)| figure.starts_with(name));
            of.map(|(_, value)| *value).sum::<f64>()
        };
        assert!(figure("sends") > 2_200.0 && figure("recipients in the worst") <= 40.0);
        assert!((figure("share of small") - 0.1).abs() < 0.02, "{:?}", report.figures);
        assert!((300.0..=400.0).contains(&figure("ms that a tick came early, p50")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_was_served_twice_is_found_with_its_two_requests() {
    let mut records = records(true).await;
    let mut again = records[30].clone();
    again.request = "another".to_owned();
    again.sends.clear();
    records.push(again);
    let report = judge(records);
    assert_eq!(broken(&report), [WINDOWS]);
    let shown = &report.promises[0].shown;
    assert!(shown[0].contains("another") && shown[0].contains("served it, too"), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_was_claimed_as_if_another_were_not_is_found() {
    let found = found(|records| records[30].claim.previous = records[28].claim.previous).await;
    assert_eq!(found, [WINDOWS]);
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_found_unless_it_was_counted() {
    let gap = |counted| {
        move |records: &mut Vec<AuditRecord>| {
            records.remove(30);
            records[30].claim.previous = Some(records[29].window);
            records[30].claim.missed = counted;
        }
    };
    assert_eq!(found(gap(Some(0))).await, [WINDOWS]);
    assert!(found(gap(Some(1))).await.is_empty());
    assert!(found(gap(None)).await.is_empty(), "the stack slept");
}

#[tokio::test(start_paused = true)]
async fn a_start_before_its_slot_or_too_late_for_it_or_at_no_slot_is_found() {
    assert_eq!(found(|records| records[30].sends[5].after_us = -1).await, [SLOTS]);
    assert!(found(|records| records[30].sends[5].after_us = 5_000).await.is_empty());
    assert_eq!(found(|records| records[30].sends[5].after_us = 5_001).await, [SLOTS]);
    assert!(found(|records| records[30].sends[5].slot = 40).await.contains(&SLOTS));
}

#[tokio::test(start_paused = true)]
async fn a_second_above_the_bound_is_found_also_across_two_windows() {
    let found = found(|records| {
        // One more at the first slot and one at the last: no window, but a second across them has 42.
        for (window, place) in [(30, 30), (31, 5)] {
            let mut more = records[window].sends[place];
            more.identity += 1;
            records[window].sends.extend([more; 1]);
        }
    });
    assert_eq!(found.await, [RATE]);
}

#[tokio::test(start_paused = true)]
async fn a_single_recipient_above_the_bound_is_found() {
    let found = found(|records| {
        let mut more = records[30].sends[20];
        more.identity += 1;
        records[30].sends.push(more);
    });
    assert_eq!(found.await, [RATE]);
}

#[tokio::test(start_paused = true)]
async fn a_mail_of_several_recipients_has_its_own_bound() {
    assert!(found(|records| records[30].sends[5].recipients = 2).await.is_empty());
    let two = |records: &mut Vec<AuditRecord>| {
        records[30].sends[5].recipients = 3;
        records[30].sends[6].recipients = 3;
    };
    assert_eq!(found(two).await, [RATE]);
}

#[tokio::test(start_paused = true)]
async fn shares_that_are_off_are_found() {
    let found = found(|records| {
        for send in records.iter_mut().flat_map(|record| &mut record.sends) {
            send.campaign = if send.slot % 4 == 0 { 1 } else { send.campaign };
        }
    });
    assert_eq!(found.await, [SHARES]);
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_was_sent_twice_is_found_unless_the_log_shows_a_cause() {
    assert_eq!(found(|records| send_again(records)).await, [TWICE]);
    let caused: [fn(&mut Vec<AuditRecord>); 5] = [
        |records| records[20].undone = 1,
        |records| {
            let identity = records[20].sends[0].identity;
            records[30].sends[0].identity = identity;
            records[30].sends[0].outcome = SendOutcome::Possible;
        },
        |records| records[40].sends[0].waited_min = 255,
        |records| records[40].sends[0].pass = 1,
        |records| records[20].sends[0].waited_min = 5,
    ];
    for cause in caused {
        let found = found(|records| {
            send_again(records);
            cause(records);
        });
        assert!(found.await.is_empty());
    }
    // One message that was not deleted explains one more send, not two.
    let twice = |records: &mut Vec<AuditRecord>| {
        send_again(records);
        records[41].sends[0].identity = records[20].sends[0].identity;
        records[20].undone = 1;
    };
    assert_eq!(found(twice).await, [TWICE]);
}

#[tokio::test(start_paused = true)]
async fn a_killed_poller_or_a_replay_explains_a_second_send() {
    let mut records = records(true).await;
    send_again(&mut records);
    let change = |action: &str| ChangeRecord {
        at: EpochMillis::from(records[30].window.opens()),
        by: "ada".to_owned(),
        action: action.to_owned(),
        campaign: None,
        detail: String::new(),
        reason: String::new(),
    };
    let (replay, lift) = (change("replay"), change("lift"));
    let read = || {
        let mut judge = Judge::default();
        for record in &records {
            judge.records.push(record.clone());
        }
        judge
    };
    assert!(!read().report(vec![lift.clone()]).is_kept());
    let report = read().report(vec![replay, lift.clone()]);
    assert!(report.is_kept());
    assert_eq!((&report.holds, report.figures["sent twice: 8: a replay"]), (&vec![lift], 1.0));
    let mut killed = read();
    let line =
        "REPORT RequestId: 4f-1\tBilled Duration: 15000 ms\tMemory Size: 256 MB\tStatus: timeout";
    killed.line(line, Some(records[25].window.opens()));
    assert!(killed.report(Vec::new()).is_kept());
}

#[test]
fn lambdas_reports_are_read_as_text_and_as_json_and_each_once() {
    let text = "REPORT RequestId: 4f-1\tDuration: 1503.21 ms\tBilled Duration: 2000 ms\tMemory Size: 256 MB\tMax Memory Used: 31 MB\tInit Duration: 46.02 ms\t";
    let json = r#"{"time":"2026-11-20T20:36:07.1Z","type":"platform.report","record":{"requestId":"4f-2","metrics":{"durationMs":1503.2,"billedDurationMs":2000,"memorySizeMB":256},"status":"success"}}"#;
    let mut judge = Judge::default();
    for line in [text, json, text, "START RequestId: 4f-1", "{\"level\":\"INFO\"}", ""] {
        judge.line(line, None);
    }
    judge.line("2026-11-20T20:36:07Z {\"audit\":1,\"window\":\"soon\"}", None);
    let report = judge.report(Vec::new());
    let figure = |name: &str| report.figures.get(name).copied();
    assert_eq!(figure("invocations"), Some(2.0));
    assert_eq!(figure("billed GB-seconds"), Some(1.0));
    assert_eq!(figure("cold starts"), Some(1.0));
    assert_eq!(figure("pollers killed"), None);
    assert_eq!(figure("lines that cannot be read"), Some(1.0));
    assert_eq!(report.windows, None);
    assert!(Page::of(&report).plain().contains("nothing is proven"));
}

#[tokio::test(start_paused = true)]
async fn a_record_is_read_once_whatever_it_is_wrapped_in() {
    let records = records(true).await;
    let mut judge = Judge::default();
    for line in records.into_iter().flat_map(AuditRecord::lines) {
        judge.line(&serde_json::json!({ "message": line }).to_string(), None);
        judge.line(&format!("2026-11-20T20:36:07.000Z {line}"), None);
        judge.line(&line, None);
    }
    let report = judge.report(Vec::new());
    assert!(report.is_kept(), "{:#?}", report.promises);
    assert!(Page::of(&report).plain().contains("kept  no second above the quota"));
}
