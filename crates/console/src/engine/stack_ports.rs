use std::collections::BTreeMap;
use std::future::Future;

use tidegate_core::config::{Campaign, EXPRESS, PollerConfig, SchedulerConfig};
use tidegate_delivery::ports::{
    Account, Clock, History, Ledger, Marks, PortError, QueueUrl, Queues,
};
use tidegate_operate::dead::{self, LetterSnapshot};
use tidegate_operate::redact::AddressVisibility;
use tidegate_operate::status::{OtherQueues, StackFacts, StatusSettings, gather};

/// Letters that are read at most for the page.
pub(super) const LETTERS: usize = 1_000;

/// A stack, and how it is reached: the console sees and steers it through this alone.
#[derive(Clone, Debug)]
pub struct StackPorts<Q, L, A, C> {
    /// What `tidegate status` is told by.
    pub settings: StatusSettings,
    /// Who runs the console.
    pub operator: String,
    /// What the pollers are configured with.
    pub poller: PollerConfig,
    /// What the scheduler is configured with.
    pub scheduler: SchedulerConfig,
    /// The queues beside the campaigns'.
    pub places: OtherQueues,
    /// The queues.
    pub queues: Q,
    /// The ledger, its marks and its history.
    pub ledger: L,
    /// The account.
    pub account: A,
    /// Time.
    pub clock: C,
}

impl<Q, L, A, C> StackPorts<Q, L, A, C>
where
    Q: Queues,
    L: Ledger + Marks + History,
    A: Account,
    C: Clock,
{
    /// Whether addresses of recipients are shown.
    pub(crate) fn addresses(&self) -> AddressVisibility {
        self.settings.addresses
    }

    /// What stands now: the ledger, each queue's depth, the account and the history.
    ///
    /// # Errors
    /// [`PortError`] of ledger or queues.
    pub async fn look(&self) -> Result<StackFacts, PortError> {
        let (queues, account, history) = (&self.queues, &self.account, &self.ledger);
        let read = self.standing().await?;
        gather(self.settings.clone(), read, &self.places, queues, account, history, &self.clock)
            .await
    }

    /// The ledger as it stands now; all else as it was `before`.
    pub(crate) async fn look_again(&self, before: &StackFacts) -> Result<StackFacts, PortError> {
        let (standing, campaigns) = self.standing().await?;
        Ok(StackFacts { at: self.clock.wall(), standing, campaigns, ..before.clone() })
    }

    async fn standing(
        &self,
    ) -> Result<(tidegate_delivery::ports::Standing, Vec<Campaign>), PortError> {
        let standing = self.ledger.read().await?;
        let campaigns = self.poller.campaigns.in_force(&standing.control);
        Ok((standing, campaigns))
    }

    pub(crate) fn dead_letters(&self) -> QueueUrl {
        QueueUrl::new(self.poller.dead_letter_queue_url.as_str())
    }

    /// What stands on the dead-letter queue, until `stop`.
    pub(crate) async fn read_dead_letters(
        &self,
        stop: impl Future<Output = ()>,
    ) -> Result<LetterSnapshot, PortError> {
        let queue = self.dead_letters();
        dead::read(&self.queues, &self.clock, &queue, LETTERS, stop, |_| {}).await
    }

    /// Where dead letters of each campaign go home to.
    pub(crate) fn campaign_queues(&self, campaigns: &[Campaign]) -> BTreeMap<String, QueueUrl> {
        let home = |campaign: &Campaign| {
            (campaign.name.clone(), QueueUrl::new(campaign.queue_url.as_str()))
        };
        let express = self.poller.express_queue_url.as_deref();
        let express = express.map(|url| (EXPRESS.to_owned(), QueueUrl::new(url)));
        campaigns.iter().map(home).chain(express).collect()
    }
}
