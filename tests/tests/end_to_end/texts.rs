//! A stack for text messages, deployed by the template.

use tidegate_core::channel::Channel;
use tidegate_devstack::MailArrival;

use crate::site::{BIG, Site, event, message, plan};

#[tokio::test]
async fn a_stack_for_text_messages_sends_texts_in_parts_and_dead_letters_mail() {
    let mut site = Site::start(|setup| setup.settings.plan.channel = Channel::Sms).await;
    let mut plan = plan(60, 6);
    plan.channel = Channel::Sms;
    plan.campaigns[1].recipients = 3;
    site.fill(&plan).await;
    site.put(BIG, &[message(event("message_short.json"))]).await;
    site.fire().await;
    site.wait_for(66, 60).await;
    site.wait_until_empty(30).await;
    let of = |campaign: &str, parts: u32| {
        let is_it = |text: &&MailArrival| text.campaign == campaign && text.recipients == parts;
        site.arrivals().iter().filter(is_it).count()
    };
    assert_eq!((of("big", 1), of("small", 3), site.arrivals().len()), (60, 6, 66));
    let letters = site.dead_letters(1, 10).await;
    assert_eq!(letters[0].last_error.code.as_deref(), Some("UnknownMember"), "{letters:?}");
    assert!(site.stats().await.refused.is_empty());
}
