//! Campaigns found by their queues' tags, and kept as the ledger's list.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::time::Duration;

use tidegate_core::config::Campaign;
use tidegate_core::tagged::{Listing, TaggedQueue, listing, queue_name, same};

use crate::control;
use crate::ports::{Clock, Directory, FailureKind, Ledger, PortError, QueueUrl, Standing};

/// SQS lets an account make 30 calls about tags a second, and deployments make some too.
const BETWEEN_CALLS: Duration = Duration::from_millis(100);

/// Writes the campaigns that the queues' tags say into the control record, where they differ from
/// those that stand there. Gives how many stand there then; none where that is not known.
///
/// Where a call fails nothing changes: the next run tries again.
pub(crate) async fn keep(
    prefix: &str,
    clock: &impl Clock,
    directory: &impl Directory,
    ledger: &impl Ledger,
) -> Option<usize> {
    match try_keep(prefix, clock, directory, ledger).await {
        Ok(campaigns) => Some(campaigns),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn StdError,
                "the campaigns' queues are not known: the list stays as it is"
            );
            None
        }
    }
}

async fn try_keep(
    prefix: &str,
    clock: &impl Clock,
    directory: &impl Directory,
    ledger: &impl Ledger,
) -> Result<usize, PortError> {
    let listed = directory.queues(prefix).await?;
    let standing = ledger.read().await?;
    let queues = tagged(with_missing(listed, prefix, &standing), clock, directory).await?;
    let found = listing(prefix, &queues, &standing.control.campaigns);
    log_faults(&found);
    let stood = standing.control.campaigns.len();
    let stands = (standing.control_version, standing.control);
    let changed = control::change(ledger, stands, |control| {
        // On what stands then: another may have changed it meanwhile.
        if let Ok(campaigns) = listing(prefix, &queues, &control.campaigns).campaigns
            && !same(&campaigns, &control.campaigns)
        {
            control.campaigns = campaigns;
        }
    });
    Ok(changed.await?.made().map_or(stood, |(before, after)| {
        log_changes(&before.campaigns, &after.campaigns);
        after.campaigns.len()
    }))
}

/// The queues to be asked: those listed, and those of the list that stands which are not. A list that
/// lacks one for a moment must not stop its campaign: a queue is gone when it says so itself.
fn with_missing(listed: Vec<QueueUrl>, prefix: &str, standing: &Standing) -> Vec<QueueUrl> {
    let names: BTreeSet<&str> = listed.iter().map(QueueUrl::name).collect();
    let stood = standing.control.campaigns.iter().map(|campaign| campaign.queue_url.as_str());
    let missing =
        |url: &&str| queue_name(url).starts_with(prefix) && !names.contains(queue_name(url));
    let missing: Vec<QueueUrl> = stood.filter(missing).map(QueueUrl::new).collect();
    listed.into_iter().chain(missing).collect()
}

/// The tags of those queues that are there, asked one after the other.
async fn tagged(
    queues: Vec<QueueUrl>,
    clock: &impl Clock,
    directory: &impl Directory,
) -> Result<Vec<TaggedQueue>, PortError> {
    let mut tagged = Vec::with_capacity(queues.len());
    let mut next = clock.monotonic();
    for queue in queues {
        clock.sleep_until(next).await;
        next = clock.monotonic() + BETWEEN_CALLS;
        match directory.tags(&queue).await {
            Ok(tags) => tagged.push(TaggedQueue { url: queue.as_str().to_owned(), tags }),
            Err(PortError { kind: FailureKind::NotFound, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tagged)
}

fn log_faults(found: &Listing) {
    for invalid in &found.invalid {
        tracing::warn!(
            queue = invalid.queue,
            what = invalid.what,
            value = invalid.value,
            allowed = invalid.allowed,
            kept = invalid.kept,
            "a campaign queue's tag is invalid"
        );
    }
    if let Err(refused) = &found.campaigns {
        tracing::error!(
            error = refused as &dyn StdError,
            "the tags give no list of campaigns: the list stays as it is"
        );
    }
}

fn log_changes(before: &[Campaign], after: &[Campaign]) {
    let by_name = |list: &[Campaign]| -> BTreeMap<String, Campaign> {
        list.iter().map(|campaign| (campaign.name.clone(), campaign.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    for (name, now) in &after {
        let queue = queue_name(&now.queue_url);
        match before.get(name) {
            None => tracing::info!(campaign = name, queue, weight = now.weight, "campaign added"),
            Some(stood) if stood != now => tracing::info!(
                campaign = name,
                queue,
                queue_before = queue_name(&stood.queue_url),
                weight = now.weight,
                weight_before = stood.weight,
                "campaign changed"
            ),
            Some(_) => {}
        }
    }
    for (name, stood) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let queue = queue_name(&stood.queue_url);
        tracing::info!(campaign = name, queue, weight = stood.weight, "campaign removed");
    }
}
