use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_delivery::ports::ConsoleBuckets;
use tokio::time::{MissedTickBehavior, interval};

use super::hub::Hub;

/// The interval of the exchanges with the other consoles.
const EVERY: Duration = Duration::from_millis(250);

/// From this call on, sessions and addresses have their buckets together with all consoles that use the same
/// `buckets`. The future exchanges charges with them as long as it runs: every 250 ms while there are clients,
/// and at once when a client is new. It does not end.
///
/// While exchanges fail, each console goes on with its own buckets; the log says when that begins and ends.
pub fn share_buckets<B: ConsoleBuckets>(hub: Arc<Hub>, buckets: B) -> impl Future<Output = ()> {
    hub.change(|registry| registry.clients_mut().share());
    exchange(hub, buckets)
}

async fn exchange(hub: Arc<Hub>, buckets: impl ConsoleBuckets) {
    let mut due = interval(EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_lost = false;
    loop {
        let all = tokio::select! {
            biased;
            _ = due.tick() => true,
            () = hub.asked() => false,
        };
        let charges = hub.tell(all);
        if charges.is_empty() {
            continue;
        }
        let answer = buckets.charge(&charges).await;
        match &answer {
            Err(error) if !is_lost => {
                let error = tidegate_core::in_full(error);
                tracing::warn!(
                    error,
                    "the shared buckets do not answer: it paces by its own alone"
                );
            }
            Ok(_) if is_lost => tracing::info!("the shared buckets answer again"),
            _ => {}
        }
        is_lost = answer.is_err();
        hub.hear(answer.as_deref().ok());
    }
}
