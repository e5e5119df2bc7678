//! The CDK app's template is deployed and used like the SAM template.

use tidegate_delivery::ports::QueueDepth;
use tidegate_devstack::Infra;

use crate::site::{BIG, DEAD_LETTERS, QUOTA, SMALL, Site, plan};

#[tokio::test]
async fn the_cdk_stack_sends_both_campaigns_and_an_update_under_way_loses_nothing() {
    let plan = plan(150, 18);
    let mut site = Site::strict(|setup| setup.settings.infra = Infra::Cdk).await;
    let before = [BIG, SMALL, DEAD_LETTERS].map(|output| site.queue(output));
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(40, 30).await;
    // The poller gets a new environment while its windows are under way.
    site.aws.update(&[("MaxInFlight", "50"), ("MaxAttempts", "7")]).await.unwrap();
    site.wait_for(168, 40).await;
    site.wait_until_empty(40).await;

    assert_eq!([BIG, SMALL, DEAD_LETTERS].map(|output| site.queue(output)), before);
    assert_eq!(site.depth(DEAD_LETTERS).await, QueueDepth::default());
    let (figures, stats) = (site.figures(&plan), site.stats().await);
    assert_eq!((figures.missing, figures.foreign), (0, 0));
    // AWS lets the pollers under way finish; the local AWS kills them, and what they had not deleted
    // comes again.
    assert!(figures.duplicates <= 2 * QUOTA, "{} twice", figures.duplicates);
    assert!(stats.refused.is_empty(), "{stats:?}");
    assert!(figures.worst_second <= QUOTA, "{} in a second", figures.worst_second);
}
