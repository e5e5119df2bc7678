use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, Rule};

use super::*;

const OPERATIONS: [Operation; 6] = [
    Operation::AddChange,
    Operation::Depth,
    Operation::Receive,
    Operation::Send,
    Operation::Delete,
    Operation::SetVisibility,
];

/// After the trouble: replays what is left, and says how often each mail stands on its queue.
async fn finish(bench: &Bench) -> BTreeMap<(String, String), u32> {
    bench.plan.clear();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    bench.replay(&review, FAST).await.unwrap();
    assert!(bench.standing("dead").is_empty());
    bench.mails("big")
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_call_loses_nothing_and_doubles_only_what_was_sent_and_not_deleted() {
    let mut crashes = 0;
    for operation in OPERATIONS {
        for after in [false, true] {
            for nth in 1..=6 {
                let bench = Bench::new();
                bench.put(&several(25)).await;
                let review = bench.review(LetterFilter::default(), false).await;
                let hang = if after { Fault::HangAfter } else { Fault::HangBefore };
                bench.plan.add(Rule::new(hang).on(operation).nth(nth));
                let crashed = tokio::select! {
                    biased;
                    ended = bench.replay(&review, FAST) => { ended.unwrap(); false }
                    () = bench.plan.hung() => true,
                };
                crashes += u32::from(crashed);
                let mails = finish(&bench).await;
                let at = format!("{operation:?} {nth} after {after}");
                assert_eq!(mails.len(), 25, "{at}: a mail is lost, or has two passes");
                let doubled = mails.values().filter(|count| **count > 1).count();
                let between = matches!(
                    (operation, after),
                    (Operation::Send, true) | (Operation::Delete, false)
                );
                let most = if crashed && between { 10 } else { 0 };
                assert!(doubled <= most, "{at}: {doubled} doubled");
                assert!(mails.values().all(|count| *count <= 2), "{at}");
            }
        }
    }
    assert!(crashes >= 20, "only {crashes} crashes: the test tests little");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_loses_nothing_and_doubles_only_what_it_says() {
    for operation in OPERATIONS {
        for after in [false, true] {
            for nth in 1..=4 {
                let bench = Bench::new();
                bench.put(&several(25)).await;
                let review = bench.review(LetterFilter::default(), false).await;
                let said = FailureKind::TimedOut;
                let fault = if after { Fault::After(said) } else { Fault::Before(said) };
                bench.plan.add(Rule::new(fault).on(operation).nth(nth));
                let told = match bench.replay(&review, FAST).await {
                    Ok(replayed) => replayed,
                    Err(LetterError::Broken { report, .. }) => *report,
                    Err(error) => {
                        assert!(matches!(error, LetterError::NotRecorded(_)), "{error}");
                        LetterReport::default()
                    }
                };
                let mails = finish(&bench).await;
                let at = format!("{operation:?} {nth} after {after}");
                assert_eq!(mails.len(), 25, "{at}");
                let doubled = mails.values().filter(|count| **count > 1).count() as u64;
                assert!(doubled <= told.uncertain + told.not_deleted, "{at}: {doubled}, {told:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn entries_that_are_refused_stay_and_are_said() {
    let bench = Bench::new();
    bench.put(&several(40)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    bench.plan.add(Rule::new(Fault::RefuseEntries(0.3)).on(Operation::Send));
    bench.plan.add(Rule::new(Fault::RefuseEntries(0.7)).on(Operation::Delete));
    let replayed = bench.replay(&review, FAST).await.unwrap();
    assert!(replayed.refused > 0 && replayed.not_deleted > 0, "{replayed:?}");
    assert_eq!(replayed.sent + replayed.refused, 40);
    let left = bench.standing("dead").len() as u64;
    assert_eq!(left, replayed.refused + replayed.not_deleted);
    let doubled = finish(&bench).await.values().filter(|count| **count > 1).count() as u64;
    assert_eq!(doubled, replayed.not_deleted, "with the same identity and pass");
}

#[tokio::test(start_paused = true)]
async fn an_interruption_ends_between_two_batches() {
    let bench = Bench::new();
    bench.put(&several(40)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    let site = LetterPorts {
        queues: &bench.queues,
        dead_letters: &bench.dead,
        ledger: &bench.ledger,
        clock: &bench.clock,
    };
    let stop = tokio::time::sleep(Duration::from_secs(12));
    let slow = ReplayPace { per_second: 1.0, backlog: 1_000 };
    let replayed = carry_out(&site, &review.work, &author(), slow, stop, |_| {}).await.unwrap();
    assert!(replayed.interrupted && replayed.sent == 20, "{replayed:?}");
    let mails = finish(&bench).await;
    assert!(mails.len() == 40 && mails.values().all(|count| *count == 1));
}
