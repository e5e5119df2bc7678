//! The contract of the `Mailer` and `Account` ports for text messages.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::outcome::{Failure, Outcome, Stage};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::text_message::{TextMessage, classify_text};
use tidegate_delivery::ports::{Account as _, Clock as _, Mail, Mailer as _, Monotonic};

use super::mail::{FREE, Limits, MailRoom, MailSite, Taken, Trouble};
use super::{behaviours, hold_together};

/// Runs all behaviours of text messages on one adapter.
pub async fn text_contract(room: &impl MailRoom) {
    hold_together(behaviours![room =>
        a_text_arrives_once_with_its_tags_and_its_parts,
        every_part_counts_and_over_the_rate_is_named_so,
        at_the_spend_limit_is_named_so_and_the_account_shows_the_limit,
        a_number_that_has_opted_out_is_named_so_and_its_neighbour_gets_its_text,
        a_fault_of_the_service_is_transient_and_tried_once_only,
        a_lost_answer_is_ambiguous_and_the_text_arrived,
        a_text_past_its_latest_instant_is_never_sent,
        connections_opened_in_advance_send_nothing,
    ])
    .await;
}

fn text(phone: &str, parts: usize) -> Content {
    let body = format!(r#"{{"to_phone": "{phone}", "text": "{}"}}"#, "€".repeat(76 * parts));
    Content::Text(TextMessage::parse(&body).unwrap())
}

async fn send_text(
    site: &impl MailSite,
    (id, phone, parts): (&str, &str, usize),
    latest: Option<Monotonic>,
) -> Result<String, Failure> {
    let content = text(phone, parts);
    assert_eq!(content.slots() as usize, parts);
    let pace = Pace { rate: Rate::MIN, rate_margin: RateMargin::default() };
    let latest = latest.unwrap_or_else(|| site.clock().monotonic() + Duration::from_secs(10));
    site.mailer().send(Mail::new(&content, "big", id, pace), latest).await.result
}

async fn send(site: &impl MailSite, id: &str, parts: usize) -> Result<String, Failure> {
    send_text(site, (id, "+12065550100", parts), None).await
}

fn outcome(answer: Result<String, Failure>) -> Outcome {
    classify_text(&answer.unwrap_err())
}

async fn a_text_arrives_once_with_its_tags_and_its_parts(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    let one = send(&site, "t-1", 1).await.unwrap();
    let three = send(&site, "t-2", 3).await.unwrap();
    let taken = |message_id, id: &str, slots| Taken {
        message_id,
        campaign: "big".to_owned(),
        id: id.to_owned(),
        slots,
        tenant: None,
        raw: None,
    };
    assert_ne!(one, three);
    assert_eq!(site.taken(), [taken(one, "t-1", 1), taken(three, "t-2", 3)]);
}

async fn every_part_counts_and_over_the_rate_is_named_so(room: &impl MailRoom) {
    let site = room.open(Limits { rate: 4.0, ..FREE }).await;
    let answers = join_all(["a", "b"].map(|id| send(&site, id, 3))).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((accepted.len(), refused.len()), (1, 1));
    assert!(refused.into_iter().all(|answer| outcome(answer) == Outcome::RateExceeded));
    tokio::time::sleep(Duration::from_secs(1)).await;
    send(&site, "c", 3).await.unwrap();
    assert_eq!(site.taken().len(), 2);
}

async fn at_the_spend_limit_is_named_so_and_the_account_shows_the_limit(room: &impl MailRoom) {
    let site = room.open(Limits { spend: Some(4), ..FREE }).await;
    send(&site, "a", 3).await.unwrap();
    assert_eq!(outcome(send(&site, "b", 2).await), Outcome::SpendLimit);
    let status = site.account().account().await.expect("it answers");
    assert_eq!(status.spend_limit, Some(4));
    assert!((status.max_send_rate - FREE.rate).abs() < 1e-9, "{status:?}");
    site.limit(Limits { spend: Some(5), ..FREE });
    send(&site, "b", 2).await.unwrap();
    assert_eq!(site.account().account().await.expect("it answers").spend_limit, Some(5));
}

async fn a_number_that_has_opted_out_is_named_so_and_its_neighbour_gets_its_text(
    room: &impl MailRoom,
) {
    let site = room.open(FREE).await;
    site.trouble("out", "+12065550199", Trouble::Rejected);
    let out = send_text(&site, ("out", "+12065550199", 1), None).await;
    assert_eq!(outcome(out), Outcome::OptedOut);
    send(&site, "in", 1).await.unwrap();
    assert_eq!(site.taken().len(), 1);
}

async fn a_fault_of_the_service_is_transient_and_tried_once_only(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.trouble("bad", "+12065550199", Trouble::ServerError);
    let bad = send_text(&site, ("bad", "+12065550199", 1), None).await;
    assert_eq!(outcome(bad), Outcome::Transient);
    assert!(site.taken().is_empty());
}

async fn a_lost_answer_is_ambiguous_and_the_text_arrived(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.trouble("lost", "+12065550199", Trouble::AnswerLost);
    let lost = send_text(&site, ("lost", "+12065550199", 2), None).await;
    assert_eq!(outcome(lost), Outcome::Ambiguous);
    assert_eq!(site.taken().len(), 1);
}

async fn a_text_past_its_latest_instant_is_never_sent(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    let latest = site.clock().monotonic();
    site.clock().sleep_until(latest + Duration::from_millis(1)).await;
    let failure = send_text(&site, ("late", "+12065550100", 1), Some(latest)).await.unwrap_err();
    assert_eq!(failure.stage, Stage::NotSent);
    assert!(site.taken().is_empty());
}

async fn connections_opened_in_advance_send_nothing(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.mailer().warm(3).await;
    assert!(site.taken().is_empty());
    send(&site, "a", 1).await.unwrap();
    assert_eq!(site.taken().len(), 1);
}
