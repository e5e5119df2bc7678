//! Runs the operator's commands on a simulated world.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::future::pending;

use tidegate_core::config::{Campaign, Campaigns};
use tidegate_core::deduplication::Deduplication;
use tidegate_delivery::ports::QueueUrl;
use tidegate_operator::dead::{
    self, LetterFilter, LetterPorts, LetterReport, LetterSnapshot, ReplayPace, Review,
    ReviewOptions,
};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::{self, StatusSettings};
use tidegate_operator::steer::Author;
use tidegate_operator::why::{Explanation, MailQuery, explain, gather};
use tidegate_tests::simulation::{DEAD_LETTERS, World};

pub(crate) fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}

fn campaigns(world: &World) -> Vec<Campaign> {
    match world.settings.poller().unwrap().campaigns {
        Campaigns::Listed(list) => list,
        Campaigns::Ledger => Vec::new(),
    }
}

/// Reads the dead-letter queue.
pub(crate) async fn dead_letters(world: &World) -> LetterSnapshot {
    let (clock, queue) = (world.universe.clock(), url(DEAD_LETTERS));
    dead::read(&world.queues, &clock, &queue, 1_000, pending(), |_| {}).await.unwrap()
}

/// Reviews a replay of all dead letters.
pub(crate) async fn review(
    world: &World,
    deduplication: Deduplication,
    include_unknown: bool,
) -> Review {
    let home = |campaign: Campaign| (campaign.name, QueueUrl::new(campaign.queue_url));
    let options = ReviewOptions {
        filter: LetterFilter::default(),
        include_unknown,
        drop_sent: false,
        campaign_queues: campaigns(world).into_iter().map(home).collect(),
        rules: world.settings.poller().unwrap().rules,
        deduplication,
    };
    let reading = dead_letters(world).await;
    dead::review(&reading, &options, &world.ledger, world.universe.now()).await.unwrap()
}

/// Replays, as `tidegate dead replay --go` does.
pub(crate) async fn replay(world: &World, review: &Review) -> LetterReport {
    let (clock, queue) = (world.universe.clock(), url(DEAD_LETTERS));
    let site = LetterPorts {
        queues: &world.queues,
        dead_letters: &queue,
        ledger: &world.ledger,
        clock: &clock,
    };
    let author = Author { by: "user/ada".to_owned(), reason: "corrected".to_owned() };
    let pace = ReplayPace { per_second: 10.0, backlog: 1_000 };
    dead::carry_out(&site, &review.work, &author, pace, pending(), |_| {}).await.unwrap()
}

/// Explains a mail, as `tidegate why ID --campaign NAME` does.
pub(crate) async fn why(world: &World, campaign: Option<&str>, id: &str) -> Explanation {
    let settings = StatusSettings {
        stack: "simulated".to_owned(),
        poller: world.settings.poller().unwrap(),
        scheduler: world.settings.scheduler().unwrap(),
        addresses: AddressVisibility::Masked,
        changes: 0,
        ses_price: None,
    };
    let (account, clock) = (world.ses.account(), world.universe.clock());
    let (account, clock, queues, ledger) = (&account, &clock, &world.queues, &world.ledger);
    let status = status::gather(settings, queues, account, ledger, clock).await.unwrap();
    let reading = dead_letters(world).await;
    let asked = MailQuery { id: id.to_owned(), campaign: campaign.map(str::to_owned) };
    explain(&gather(asked, status, &reading, &world.ledger).await.unwrap())
}
