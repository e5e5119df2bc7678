//! Mail that is too large for its queue.

use std::collections::BTreeMap;
use std::future::pending;

use tidegate_core::channel::MessageRules;
use tidegate_core::email::{AllowedSenders, Content, Email};
use tidegate_delivery::ports::{FailureKind, Store as _};
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_operator::send::{CampaignDraft, DraftContent, RunEnd, TemplatePart};

use super::world::{Journal, World, checked, draft, recipients, templates};

fn large() -> CampaignDraft {
    let html = format!("<p>Dear {{{{ first_name }}}},</p>\n{}", "<p>News.</p>\n".repeat(100_000));
    let content = DraftContent::Templates(templates(&[
        (TemplatePart::Subject, "--subject", "Hello"),
        (TemplatePart::Html, "mail.html", &html),
    ]));
    let rules = MessageRules { has_store: true, ..AllowedSenders::everyone().into() };
    CampaignDraft { content, rules, ..draft() }
}

/// The HTML of each mail on the queue, with its content from the store.
async fn mails(world: &World) -> BTreeMap<String, String> {
    let mut mails = BTreeMap::new();
    for message in world.queues.contents(&world.queue) {
        let stored = Email::parse(&message.body).unwrap().stored().cloned().unwrap();
        let (object, _) = world.store.get(&stored.key()).await.unwrap().unwrap();
        let email = Email::with_object(&message.body, &object).unwrap();
        let Content::Simple { html: Some(html), .. } = email.content else { panic!("{message:?}") };
        let html = html.decode();
        assert!(html.len() > 1_200_000);
        mails.insert(email.to[0].addr_spec().to_owned(), html[..20].to_owned());
    }
    mails
}

#[tokio::test(start_paused = true)]
async fn each_row_has_its_content_in_the_store_and_a_pointer_on_the_queue() {
    let mut world = World::new(1);
    world.draft = large;
    world
        .faults
        .add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::PutObject).nth(2));
    let report = world.run(&recipients(4), &mut Journal::default(), pending()).await.unwrap();
    assert_eq!((report.ended, report.enqueued, report.retries), (RunEnd::Done, 4, 1));
    let mails = mails(&world).await;
    assert_eq!(mails.len(), 4);
    assert!(mails["ada3@example.com"].starts_with("<p>Dear Ada 3,</p>"), "{mails:?}");
    assert_eq!(world.store.list("large", None).await.unwrap().objects.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_killed_goes_on_and_every_pointer_has_its_content() {
    for (operation, nth) in [(Operation::PutObject, 2), (Operation::Send, 2)] {
        let mut world = World::new(1);
        world.draft = large;
        world.faults.add(Rule::new(Fault::HangAfter).on(operation).nth(nth));
        let mut journal = Journal::default();
        assert!(!world.run_until_killed(&recipients(2), &mut journal).await);
        world.faults.clear();
        assert!(world.run_until_killed(&recipients(2), &mut journal).await);
        assert_eq!(mails(&world).await.len(), 2);
    }
}

#[test]
fn without_a_store_a_large_mail_is_refused_before_anything_is_sent() {
    let draft = CampaignDraft { rules: AllowedSenders::everyone().into(), ..large() };
    let said = checked(&draft, &recipients(1)).unwrap_err()[0].to_string();
    assert!(said.contains("must be at most 10"), "{said}");
}
