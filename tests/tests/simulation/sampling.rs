//! Receives that say nothing of their queue: short polls that ask few of its servers, and errors.

use tidegate_core::Window;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, QueueSettings, Rule};
use tidegate_tests::simulation::{World, WorldSettings, measure};

use crate::MODES;

/// The stacks under test: quota, and whether there is a merge queue and an express queue.
fn stacks() -> impl Iterator<Item = (u32, bool, bool)> {
    let quotas = [14, 60, 200].into_iter();
    let modes = quotas.flat_map(|quota| MODES.map(|merge| (quota, merge)));
    modes.flat_map(|(quota, merge)| [true, false].map(|express| (quota, merge, express)))
}

const WINDOWS: u64 = 45;

/// A run of a stack with mail enough, in which something befalls the receives.
async fn run(stack: (u32, bool, bool), befall: impl Fn(&World)) -> (World, Window) {
    let (quota, merge, express) = stack;
    let world =
        World::new(WorldSettings { express, ..WorldSettings::new(f64::from(quota), merge) });
    befall(&world);
    let mails = usize::try_from(u64::from(quota) * (WINDOWS + 5)).unwrap_or(0);
    world.fill("big", mails).await;
    world.fill("small", mails / 5).await;
    let first = world.run(WINDOWS).await;
    world.assert_clean();
    (world, first)
}

/// The calls to SQS that a mail took, those of mail that is on its way included.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn calls_per_mail(world: &World) -> f64 {
    let (standard, fifo) = world.queues.calls_by_kind();
    // Mails were put on the queues by the batch, some at the end still stand there.
    let produced = world.settings.quota * (WINDOWS + 5) as f64 * 1.2 / 10.0;
    ((standard + fifo) as f64 - produced) / world.accepted().len() as f64
}

/// A half more than the least: batches of ten, and some twelve calls a window.
fn most_calls(world: &World) -> f64 {
    let least = if world.settings.merge { 0.5 } else { 0.2 };
    1.5 * least + 12.0 / world.settings.quota
}

#[tokio::test(start_paused = true)]
async fn short_polls_of_few_servers_leave_no_slot_unused() {
    for stack in stacks() {
        let (world, first) = run(stack, |world| {
            for url in world.queues.urls() {
                let sampling = QueueSettings { sampling: 0.2, ..QueueSettings::default() };
                world.queues.reconfigure(&url, sampling);
            }
        })
        .await;
        let used = measure::utilisation(&world, first, 8..WINDOWS - 1, 20);
        assert!(used >= 0.97, "{stack:?}: {used:.4}");
        assert!(calls_per_mail(&world) < most_calls(&world), "{stack:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_receive_in_ten_that_fails_leaves_no_slot_unused() {
    for stack in stacks() {
        let (world, first) = run(stack, |world| {
            let fails = Fault::Before(FailureKind::TimedOut);
            world.faults.add(Rule::new(fails).on(Operation::Receive).chance(0.1));
        })
        .await;
        let used = measure::utilisation(&world, first, 8..WINDOWS - 1, 20);
        assert!(used >= 0.97, "{stack:?}: {used:.4}");
        assert!(calls_per_mail(&world) < most_calls(&world), "{stack:?}");
    }
}
