//! One more campaign for a stack that is running: `infra/sam/campaign.yaml`, and nothing else.

use std::process::Command;

use serde_json::Value;
use tidegate_delivery::ports::{Ledger as _, QueueUrl, Queues as _};

use crate::site::{BIG, SMALL, Site, checkout, mail, python};

/// Deploys one more campaign for the stack `tidegate`; gives its queue.
fn deploy_campaign(site: &Site, name: &str, weight: u32) -> QueueUrl {
    let mut command = Command::new(python());
    command.arg(checkout("infra/local/local_aws.py")).args(["deploy", "--endpoint"]);
    command.arg(site.aws.endpoint()).arg("--template").arg(checkout("infra/sam/campaign.yaml"));
    command.arg("--stack").arg(format!("tidegate-{name}"));
    for (parameter, value) in
        [("Stack", "tidegate"), ("Campaign", name), ("Weight", &weight.to_string())]
    {
        command.arg("--parameter").arg(format!("{parameter}={value}"));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    QueueUrl::new(said["outputs"]["CampaignQueueUrl"].as_str().unwrap())
}

async fn listed(site: &Site) -> Vec<(String, u32)> {
    let control = site.aws.ledger().unwrap().read().await.unwrap().control;
    control.campaigns.into_iter().map(|campaign| (campaign.name, campaign.weight)).collect()
}

#[tokio::test]
async fn a_campaign_is_added_to_a_running_stack_by_a_stack_of_its_own() {
    let mut site = Site::start(|setup| {
        setup.parameters.push(("Campaigns".to_owned(), "tags".to_owned()));
    })
    .await;
    let mails = |name: &str, count: u32| -> Vec<_> {
        (0..count).map(|n| mail(&format!("{name}-{n}@example.com"))).collect()
    };
    for batch in mails("big", 60).chunks(10) {
        site.put(BIG, batch).await;
    }
    site.put(SMALL, &mails("small", 5)).await;
    site.fire().await;
    site.wait_for(10, 20).await;
    let two = [("big".to_owned(), 90), ("small".to_owned(), 10)];
    assert_eq!(listed(&site).await, two);

    // What the next minute's run finds, without waiting for it.
    let queue = deploy_campaign(&site, "third", 100);
    for entry in site.aws.sdk.queues.send(&queue, &mails("third", 10)).await.unwrap() {
        entry.unwrap();
    }
    site.fire().await;
    // A send that is called off as late comes back after the visibility timeout, which is 30 s.
    site.wait_for(75, 55).await;
    let arrived = |campaign: &str| {
        site.arrivals().iter().filter(|arrival| arrival.campaign == campaign).count()
    };
    assert_eq!((arrived("big"), arrived("small"), arrived("third")), (60, 5, 10));
    let [big, small] = two;
    assert_eq!(listed(&site).await, [big, small, ("third".to_owned(), 100)]);
}
