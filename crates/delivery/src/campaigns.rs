//! Finds campaigns by the tags of their queues and keeps them as the ledger's list.
//!
//! Asking for the tags of 1,000 queues takes 40 s (25 calls per second). So new queues are asked first, and
//! the list is written after every 100 queues. A run that is cut off keeps what it has written, and a new
//! campaign starts within seconds. A queue that was not asked yet, or did not answer, keeps its entry.
//!
//! Once a minute it also lifts the holds for SES's tenants.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tidegate_core::config::Campaign;
use tidegate_core::tagged::{Listing, TaggedQueue, listing, queue_name, same};

use crate::control;
use crate::ports::{Account, Clock, Directory, FailureKind, Ledger, PortError, QueueUrl, Standing};

/// 25 calls per second: SQS allows an account 30 calls about tags per second, and deployments need some of
/// them.
const BETWEEN_CALLS: Duration = Duration::from_millis(40);
/// Calls about tags under way at once, because an answer may take longer than [`BETWEEN_CALLS`].
const AT_ONCE: usize = 8;
/// The list is written after this many queues.
const A_WRITE: usize = 100;
/// The queues that one run can ask, in 40 s. If there are more, each run begins at another place.
const A_RUN: u64 = 1_000;

/// Reads the tags of all queues whose names begin with `prefix`, and writes the campaigns they describe into
/// the control record if they differ from the list there. Returns the number of campaigns then listed. If a call fails,
/// the next run tries again.
pub(crate) async fn keep(
    prefix: &str,
    clock: &impl Clock,
    directory: &impl Directory,
    ledger: &impl Ledger,
    standing: &Standing,
) -> Result<usize, PortError> {
    let listed = directory.queues(prefix).await?;
    let mut waiting = in_order(with_missing(listed, prefix, standing), standing, clock);
    let mut scan = Scan {
        prefix,
        tagged: Vec::new(),
        unasked: BTreeSet::new(),
        failure: None,
        campaigns: standing.control.campaigns.len(),
    };
    loop {
        let rest = waiting.split_off(waiting.len().min(A_WRITE));
        scan.ask(waiting, clock, directory).await;
        scan.write(&rest, standing, ledger).await?;
        if rest.is_empty() {
            return scan.failure.map_or(Ok(scan.campaigns), Err);
        }
        waiting = rest;
    }
}

/// The answers about tags that one run has received so far.
struct Scan<'a> {
    prefix: &'a str,
    tagged: Vec<TaggedQueue>,
    /// Names of queues that did not answer.
    unasked: BTreeSet<String>,
    failure: Option<PortError>,
    /// The number of campaigns on the ledger's list.
    campaigns: usize,
}

impl Scan<'_> {
    /// Asks for the tags of `queues`, one call every 40 ms, at most [`AT_ONCE`] under way.
    async fn ask(&mut self, queues: Vec<QueueUrl>, clock: &impl Clock, directory: &impl Directory) {
        let mut next = clock.monotonic();
        let asks = queues.into_iter().map(|queue| {
            let at = next;
            next = next + BETWEEN_CALLS;
            async move {
                clock.sleep_until(at).await;
                (directory.tags(&queue).await, queue)
            }
        });
        let mut answers = stream::iter(asks).buffer_unordered(AT_ONCE);
        while let Some((answer, queue)) = answers.next().await {
            match answer {
                Ok(tags) => {
                    self.tagged.push(TaggedQueue { url: queue.as_str().to_owned(), tags });
                }
                Err(PortError { kind: FailureKind::NotFound, .. }) => {}
                Err(error) => {
                    self.unasked.insert(queue.name().to_owned());
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// Writes the list if the answers so far change it. The queues in `rest`, which are still to be asked,
    /// keep their entries.
    async fn write(
        &mut self,
        rest: &[QueueUrl],
        standing: &Standing,
        ledger: &impl Ledger,
    ) -> Result<(), PortError> {
        let mut unasked = self.unasked.clone();
        unasked.extend(rest.iter().map(|queue| queue.name().to_owned()));
        let listing = |before: &[Campaign]| listing(self.prefix, &self.tagged, &unasked, before);
        if rest.is_empty() {
            log_faults(&listing(&standing.control.listed()));
        }
        let (version, control) = (standing.control_version, standing.control.clone());
        let changed = control::change(ledger, version, control, |control| {
            // Computed from the record that stands now: another may have changed the list meanwhile.
            let before = control.listed();
            if let Ok(campaigns) = listing(&before).campaigns
                && !same(&campaigns, &before)
            {
                control.list(campaigns);
            }
        });
        if let Some((before, after)) = changed.await?.made() {
            log_changes(&before.listed(), &after.listed());
            self.campaigns = after.campaigns.len();
        }
        Ok(())
    }
}

/// Puts queues that are not yet campaigns first. If there are more than [`A_RUN`], the order is rotated by
/// [`A_RUN`] per minute. Of 2,500 queues the run of minute m begins at place 1,000·m mod 2,500: at 0, 1,000,
/// 2,000, 500, 1,500, …
fn in_order(queues: Vec<QueueUrl>, standing: &Standing, clock: &impl Clock) -> Vec<QueueUrl> {
    let stood = urls(standing).map(queue_name);
    let stood: BTreeSet<&str> = stood.collect();
    let (known, mut order): (Vec<_>, Vec<_>) =
        queues.into_iter().partition(|queue| stood.contains(queue.name()));
    order.extend(known);
    if order.len() as u64 > A_RUN {
        let minute = clock.wall().as_millis() / 60_000;
        let ahead = minute.wrapping_mul(A_RUN) % order.len() as u64;
        order.rotate_left(usize::try_from(ahead).unwrap_or(0));
    }
    order
}

/// The queues to ask: those that SQS listed, and those on the ledger's list that SQS did not name. SQS's
/// list may lack a queue for a moment, which must not stop its campaign. A queue counts as gone only after
/// SQS answers that it does not exist.
fn with_missing(listed: Vec<QueueUrl>, prefix: &str, standing: &Standing) -> Vec<QueueUrl> {
    let names: BTreeSet<&str> = listed.iter().map(QueueUrl::name).collect();
    let missing =
        |url: &&str| queue_name(url).starts_with(prefix) && !names.contains(queue_name(url));
    let missing: Vec<QueueUrl> = urls(standing).filter(missing).map(QueueUrl::new).collect();
    listed.into_iter().chain(missing).collect()
}

/// The queues on the ledger's list.
fn urls(standing: &Standing) -> impl Iterator<Item = &str> {
    standing.control.campaigns.iter().flat_map(Campaign::queues).map(|(_, url)| url)
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
                tenant = now.tenant,
                queues = now.queues().count(),
                queues_before = stood.queues().count(),
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

/// SES allows about one call a second, and a tenant takes two or more.
const BETWEEN_TENANTS: Duration = Duration::from_secs(2);
/// The tenants that one run asks for. If more are held, each run begins at another one.
const TENANTS_A_RUN: usize = 20;

/// Asks SES for each tenant for which a campaign is held, and lifts the holds whose cause is gone; true if it lifted
/// one. Makes no call while none is held.
pub(crate) async fn lift_holds(
    clock: &impl Clock,
    account: &impl Account,
    ledger: &impl Ledger,
    before: &Standing,
) -> bool {
    let asked = clock.wall();
    let held = before.control.held_tenants();
    let minute = usize::try_from(asked.as_millis() / 60_000).unwrap_or(0);
    let first = minute.wrapping_mul(TENANTS_A_RUN) % held.len().max(1);
    let mut found = BTreeMap::new();
    let mut next = clock.monotonic();
    for tenant in held.iter().cycle().skip(first).take(held.len().min(TENANTS_A_RUN)) {
        clock.sleep_until(next).await;
        next = next + BETWEEN_TENANTS;
        match account.tenant(tenant).await {
            Ok(status) => found.extend(status.map(|status| ((*tenant).to_owned(), status))),
            Err(error) => tracing::warn!(
                tenant,
                error = &error as &dyn StdError,
                "SES does not tell the tenant's state: its campaigns stay held"
            ),
        }
    }
    if found.is_empty() {
        return false;
    }
    let (version, control) = (before.control_version, before.control.clone());
    let lifted = control::change(ledger, version, control, |control| {
        control.lift_tenants(&found, asked.into());
    });
    let lifted = lifted.await.inspect_err(|error| {
        tracing::warn!(error = error as &dyn StdError, "holds of tenants are not lifted");
    });
    lifted.is_ok_and(|changed| changed.made().is_some())
}
