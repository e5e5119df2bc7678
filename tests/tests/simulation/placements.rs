//! One and two faults at every call of a window with four mails: every placement, not drawn ones.

use std::future::pending;

use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Counting, Fault, Operation, Rule, failures};
use tidegate_tests::simulation::{World, WorldSettings, measure};

use crate::MODES;

const MAILS: usize = 4;
const QUOTA: f64 = 5.0;

/// What befalls a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It fails without effect.
    Fails,
    /// It takes effect, and its answer is lost.
    Unanswered,
    /// It takes effect, and the poller is killed.
    Killed,
}

const KINDS: [Kind; 3] = [Kind::Fails, Kind::Unanswered, Kind::Killed];

/// A fault at the call of this number: among the sends, or among all others.
#[derive(Clone, Copy, Debug)]
struct Placement {
    is_send: bool,
    nth: u64,
    kind: Kind,
}

impl Placement {
    fn add_to(self, world: &World) {
        if self.is_send {
            let fault = match self.kind {
                Kind::Fails => Fault::Before(failures::server_error()),
                Kind::Unanswered => Fault::After(failures::answer_lost()),
                Kind::Killed => Fault::HangAfter,
            };
            world.mail_faults.add(Rule::new(fault).on(Operation::Mail).nth(self.nth));
        } else {
            let fault = match self.kind {
                Kind::Fails => Fault::Before(FailureKind::TimedOut),
                Kind::Unanswered => Fault::After(FailureKind::TimedOut),
                Kind::Killed => Fault::HangAfter,
            };
            world.faults.add(Rule::new(fault).nth(self.nth));
        }
    }
}

/// The world with four mails, after a window with these faults; the number of them that struck.
async fn served(merge: bool, placements: &[Placement]) -> (World, usize) {
    let settings = WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(QUOTA, merge) };
    let world = World::new(settings.campaigns(&[("news", 1)]));
    world.fill("news", MAILS).await;
    for placement in placements {
        placement.add_to(&world);
    }
    let window = world.next_lead().await;
    let kill = async {
        tokio::select! {
            () = world.faults.hung() => {}
            () = world.mail_faults.hung() => {}
        }
        world.crash();
        pending::<()>().await;
    };
    tokio::select! {
        () = world.serve(Some(world.tick(window))) => {}
        () = kill => {}
    }
    let struck = world.faults.strikes().len() + world.mail_faults.strikes().len();
    world.faults.clear();
    world.mail_faults.clear();
    (world, struck)
}

/// The other pollers make good what that window left.
async fn is_made_good(world: &World, merge: bool, placements: &[Placement]) {
    for _ in 0..5 {
        if !world.is_drained() {
            world.run(34).await;
        }
    }
    let case = format!("merge {merge}, {placements:?}");
    assert_eq!(world.lost(), Vec::<String>::new(), "{case}: lost");
    assert!(world.is_drained(), "{case}: some queue holds mail for ever");
    assert_eq!(world.accepted().len(), MAILS, "{case}: not all sent");
    assert_eq!(world.dead_letters().len(), 0, "{case}: dead letters");
    let control = world.ledger_now().await.control;
    assert_eq!(control.standing_holds(), 0, "{case}: held for ever");
    let worst = measure::worst_second(&world.ses.arrivals());
    assert!(worst <= 5, "{case}: {worst} in one second");
    assert_eq!(world.audited(), Vec::<String>::new(), "{case}: audit");
}

/// All placements at calls that a window has: with `first` before them, which may have made it longer.
async fn placements(merge: bool, first: Option<Placement>) -> Vec<Placement> {
    let mut found = Vec::new();
    for is_send in [true, false] {
        for kind in KINDS {
            // The second of a pair comes after the first.
            let from =
                first.filter(|first| first.is_send == is_send).map_or(1, |first| first.nth + 1);
            for nth in from.. {
                let placed = Placement { is_send, nth, kind };
                let both: Vec<_> = first.into_iter().chain([placed]).collect();
                let (world, struck) = served(merge, &both).await;
                if struck < both.len() {
                    break;
                }
                is_made_good(&world, merge, &both).await;
                found.push(placed);
            }
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn one_or_two_faults_at_any_calls_of_a_window_lose_nothing_and_break_no_promise() {
    for merge in MODES {
        let singles = placements(merge, None).await;
        assert!(singles.len() >= 25, "merge {merge}: {} calls only", singles.len());
        let mut pairs = 0;
        for first in singles.iter().filter(|first| first.kind != Kind::Killed) {
            pairs += placements(merge, Some(*first)).await.len();
        }
        assert!(pairs >= 200, "merge {merge}: {pairs} pairs only");
    }
}
