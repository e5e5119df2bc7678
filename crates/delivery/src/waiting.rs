//! The queues on which mail waits, and how much of it.

use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tidegate_core::Window;
use tidegate_core::config::{BackPressureConfig, Campaign, Campaigns, queue_key};
use tidegate_core::idle::RUN;
use tidegate_core::limits::InitialLimits;

use crate::poll::was_used;
use crate::ports::{MERGE_QUEUE, PortError, QueueDepth, QueueUrl, Queues, Standing};

/// Queue depths asked for at once.
const AT_ONCE: usize = 8;

/// The campaigns as a poller sees them: from the settings, or from the ledger's list.
pub(crate) fn listed<'a>(campaigns: &'a Campaigns, standing: &'a Standing) -> &'a [Campaign] {
    match campaigns {
        Campaigns::Listed(list) => list,
        Campaigns::Ledger => &standing.control.campaigns,
    }
}

/// The campaigns of which mail may be sent in `window`, or is to be deferred: neither held (but for refusals, which a
/// mail probes), nor with weight 0, nor with a limit that is closed and lets mail wait.
pub(crate) fn sending<'a>(
    config: &'a BackPressureConfig,
    standing: &'a Standing,
    window: Window,
) -> impl Iterator<Item = &'a Campaign> {
    let (control, list) = (&standing.control, listed(&config.campaigns, standing));
    let limits = control.limit_table(&InitialLimits::default());
    list.iter().filter(move |campaign| {
        let is_held = control.holds_campaign(&campaign.name);
        (!is_held || control.probed_hold(&campaign.name).is_some())
            && control.weight(&campaign.name, campaign.weight) > 0
            && (!limits.closes_campaign(&campaign.name, window)
                || config.has_store && limits.defers_campaign(&campaign.name, window))
    })
}

/// Whether a campaign of which nothing may be sent in `window` may send before the scheduler's next run begins:
/// its limit opens.
pub(crate) fn opens(config: &BackPressureConfig, standing: &Standing, window: Window) -> bool {
    let now: Vec<&Campaign> = sending(config, standing, window).collect();
    sending(config, standing, window.plus(RUN)).any(|then| !now.contains(&then))
}

/// The express queue, the merge queue, and the queues of campaigns of which mail may be sent in `window`,
/// without those whose name `is_left_out` knows (by [`queue_key`], or [`MERGE_QUEUE`]).
pub(crate) fn queues(
    config: &BackPressureConfig,
    standing: &Standing,
    window: Window,
    is_left_out: impl Fn(&str) -> bool,
) -> Vec<QueueUrl> {
    let campaigns = sending(config, standing, window);
    let queues =
        campaigns.flat_map(|campaign| campaign.queues().map(move |queue| (campaign, queue)));
    let left = queues.filter(|(of, (priority, _))| !is_left_out(&queue_key(&of.name, *priority)));
    let merge = config.merge_queue_url.as_deref().filter(|_| !is_left_out(MERGE_QUEUE));
    left.map(|(_, (_, url))| url)
        .chain(merge)
        .chain(config.express_queue_url.as_deref())
        .map(QueueUrl::new)
        .collect()
}

/// The limit queues into which mail was ever moved.
fn used_limit_queues(config: &BackPressureConfig, standing: &Standing) -> Vec<QueueUrl> {
    let urls = config.limit_queues.iter().enumerate();
    let used = urls.filter(|(place, _)| was_used(&standing.counters, *place));
    used.map(|(_, url)| QueueUrl::new(url.as_str())).collect()
}

/// True if SQS counts nothing that could be sent now. In limit queues delayed messages count, too: mail
/// under a slow limit is delayed until shortly before its slot, and would miss it if nobody were there.
pub(crate) async fn is_empty(
    queues: &impl Queues,
    config: &BackPressureConfig,
    standing: &Standing,
    window: Window,
) -> Result<bool, PortError> {
    let sources = self::queues(config, standing, window, |_| false);
    let domains = used_limit_queues(config, standing);
    let (sources, domains) = try_join(depths(queues, &sources), depths(queues, &domains)).await?;
    Ok(sources.iter().all(|depth| depth.visible == 0)
        && domains.iter().all(|depth| depth.all() == 0))
}

/// The depth of each queue, in no order. SQS's counts may lag behind by a minute.
pub(crate) async fn depths(
    queues: &impl Queues,
    urls: &[QueueUrl],
) -> Result<Vec<QueueDepth>, PortError> {
    stream::iter(urls).map(|url| queues.depth(url)).buffer_unordered(AT_ONCE).try_collect().await
}

#[cfg(test)]
mod tests {
    use tidegate_core::back_pressure::BackPressurePolicy;

    use super::*;

    #[test]
    fn nothing_is_sent_of_a_campaign_with_weight_0() {
        let campaign =
            |name: &str, weight| Campaign { name: name.to_owned(), weight, ..Campaign::default() };
        let config = BackPressureConfig {
            campaigns: Campaigns::Listed(vec![campaign("big", 1), campaign("idle", 0)]),
            merge_queue_url: None,
            express_queue_url: None,
            limit_queues: Vec::new(),
            policy: BackPressurePolicy::default(),
            has_store: false,
        };
        let standing = Standing::default();
        let sending = sending(&config, &standing, Window::default());
        assert_eq!(sending.map(|campaign| &*campaign.name).collect::<Vec<_>>(), ["big"]);
    }
}
