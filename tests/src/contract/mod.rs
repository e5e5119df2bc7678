//! One contract per port: what every adapter promises, whatever it runs on.
//!
//! Each behaviour is a function named for it. An adapter is tested by handing its *room* (what
//! makes it a fresh queue, ledger or account) to the contract.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these functions are tests that live outside #[test]: a panic is a finding"
)]

pub mod bucket;
pub mod directory;
pub mod exclusions;
pub mod ledger;
pub mod mail;
pub mod marks;
pub mod queues;
pub mod runs;
pub mod sqs;
pub mod store;
pub mod suppression;
pub mod texts;
pub mod topic;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::future::{FutureExt, join_all};

type Behaviour<'a> = (&'static str, Pin<Box<dyn Future<Output = ()> + 'a>>);

/// The behaviours named, each called with the room.
macro_rules! behaviours {
    ($room:expr => $($behaviour:ident),+ $(,)?) => {
        vec![$((stringify!($behaviour), Box::pin($behaviour($room)) as _)),+]
    };
}
use behaviours;

/// Runs behaviours at the same time, and fails naming those that do not hold.
async fn hold_together(behaviours: Vec<Behaviour<'_>>) {
    judge(&join_all(behaviours.into_iter().map(broken)).await);
}

/// Runs behaviours one after the other, for what answers in time only when it is not crowded.
async fn hold_in_turn(behaviours: Vec<Behaviour<'_>>) {
    let mut found = Vec::new();
    for behaviour in behaviours {
        found.push(broken(behaviour).await);
    }
    judge(&found);
}

/// The behaviour's name, if it does not hold.
async fn broken((name, run): Behaviour<'_>) -> Option<&'static str> {
    AssertUnwindSafe(run).catch_unwind().await.is_err().then_some(name)
}

fn judge(found: &[Option<&'static str>]) {
    let broken: Vec<&str> = found.iter().flatten().copied().collect();
    assert!(broken.is_empty(), "these behaviours do not hold: {broken:#?}");
}
