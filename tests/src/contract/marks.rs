//! The contract of the `Marks` port.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::Timestamp;
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{MarkRequest, MarkResult, Marks};

use super::ledger::LedgerRoom;
use super::{behaviours, hold_in_turn};

/// Runs all behaviours of the port on one adapter.
pub async fn marks_contract(room: &impl LedgerRoom) {
    hold_in_turn(behaviours![room =>
        a_mail_is_marked_once,
        the_same_request_again_succeeds,
        of_concurrent_requests_exactly_one_wins,
        mails_are_marked_apart_from_each_other,
        a_mark_that_expired_is_no_mark,
        a_mark_is_replaced_by_whoever_found_it,
        sent_is_set_whoever_marked_it,
        parked_is_set_by_its_own_marker,
        a_mail_that_was_not_sent_is_unmarked,
        a_mail_that_was_sent_is_never_unmarked,
        what_is_not_marked_is_not_set,
        marks_are_found_in_the_order_asked_and_left_as_they_are,
    ])
    .await;
}

const NOW: Timestamp = Timestamp::from_millis(1_795_207_000_125);

fn mail(id: &str) -> Identity {
    Identity::from_body_id("news", id)
}

fn request(token: &str) -> MarkRequest {
    MarkRequest {
        identity: mail("7"),
        token: token.to_owned(),
        pass: 3,
        now: NOW,
        kept: Duration::from_hours(24),
        replaces: None,
    }
}

fn mark(token: &str, state: MarkState) -> Mark {
    let accepted = (state == MarkState::Sent).then(accepted);
    Mark { state, token: token.to_owned(), pass: 3, since: EpochMillis::from(NOW), accepted }
}

fn accepted() -> Acceptance {
    Acceptance { at: EpochMillis::from(NOW), ses_message_id: "0102018f-1".to_owned() }
}

async fn found(marks: &impl Marks, request: &MarkRequest) -> Mark {
    match marks.mark(request).await.unwrap() {
        MarkResult::Found(mark) => mark,
        MarkResult::Ours => panic!("it is marked by {}", request.token),
    }
}

async fn a_mail_is_marked_once(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    let later = MarkRequest { now: NOW + Duration::from_hours(1), pass: 4, ..request("b") };
    assert_eq!(found(&marks, &later).await, mark("a", MarkState::Sending));
}

async fn the_same_request_again_succeeds(room: &impl LedgerRoom) {
    let marks = room.open().await;
    for _ in 0..2 {
        assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    }
}

async fn of_concurrent_requests_exactly_one_wins(room: &impl LedgerRoom) {
    let marks = room.open().await;
    let requests: Vec<_> = (0..8).map(|n| request(&n.to_string())).collect();
    let answers = join_all(requests.iter().map(|request| marks.mark(request))).await;
    let ours = answers.into_iter().filter(|answer| matches!(answer, Ok(MarkResult::Ours)));
    assert_eq!(ours.count(), 1);
}

async fn mails_are_marked_apart_from_each_other(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    let others =
        [mail("8"), Identity::from_body_id("other", "7"), Identity::from_message_id("news", "7")];
    for identity in others {
        let request = MarkRequest { identity, ..request("b") };
        assert_eq!(marks.mark(&request).await.unwrap(), MarkResult::Ours);
    }
}

async fn a_mark_that_expired_is_no_mark(room: &impl LedgerRoom) {
    let marks = room.open().await;
    let short = MarkRequest { kept: Duration::from_mins(1), ..request("a") };
    assert_eq!(marks.mark(&short).await.unwrap(), MarkResult::Ours);
    assert!(marks.set_sent(&mail("7"), &accepted()).await.unwrap());
    let at = |seconds| MarkRequest { now: NOW + Duration::from_secs(seconds), ..request("b") };
    assert_eq!(found(&marks, &at(59)).await, mark("a", MarkState::Sent));
    assert_eq!(marks.mark(&at(61)).await.unwrap(), MarkResult::Ours);
}

async fn a_mark_is_replaced_by_whoever_found_it(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    let over =
        |token: &str, of: &str| MarkRequest { replaces: Some(of.to_owned()), ..request(token) };
    assert_eq!(marks.mark(&over("b", "a")).await.unwrap(), MarkResult::Ours);
    // Tried once more, since the answer was lost; and by another that had found it too.
    assert_eq!(marks.mark(&over("b", "a")).await.unwrap(), MarkResult::Ours);
    assert_eq!(found(&marks, &over("c", "a")).await, mark("b", MarkState::Sending));
}

async fn sent_is_set_whoever_marked_it(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    assert!(marks.set_sent(&mail("7"), &accepted()).await.unwrap());
    assert_eq!(found(&marks, &request("b")).await, mark("a", MarkState::Sent));
}

async fn parked_is_set_by_its_own_marker(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    assert!(!marks.set_parked(&mail("7"), "b", 9).await.unwrap());
    assert_eq!(found(&marks, &request("b")).await, mark("a", MarkState::Sending));
    assert!(marks.set_parked(&mail("7"), "a", 9).await.unwrap());
    let parked = Mark { pass: 9, ..mark("a", MarkState::Parked) };
    assert_eq!(found(&marks, &request("b")).await, parked);
}

async fn a_mail_that_was_not_sent_is_unmarked(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    assert!(!marks.unmark(&mail("7"), "b").await.unwrap());
    assert_eq!(found(&marks, &request("b")).await, mark("a", MarkState::Sending));
    assert!(marks.unmark(&mail("7"), "a").await.unwrap());
    assert_eq!(marks.mark(&request("b")).await.unwrap(), MarkResult::Ours);
}

async fn a_mail_that_was_sent_is_never_unmarked(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
    assert!(marks.set_sent(&mail("7"), &accepted()).await.unwrap());
    assert!(!marks.unmark(&mail("7"), "a").await.unwrap());
    assert_eq!(found(&marks, &request("b")).await, mark("a", MarkState::Sent));
}

async fn what_is_not_marked_is_not_set(room: &impl LedgerRoom) {
    let marks = room.open().await;
    assert!(!marks.set_sent(&mail("7"), &accepted()).await.unwrap());
    assert!(!marks.set_parked(&mail("7"), "a", 9).await.unwrap());
    assert!(!marks.unmark(&mail("7"), "a").await.unwrap());
    assert_eq!(marks.mark(&request("a")).await.unwrap(), MarkResult::Ours);
}

async fn marks_are_found_in_the_order_asked_and_left_as_they_are(room: &impl LedgerRoom) {
    let marks = room.open().await;
    let marked = |token: &str, id: &str| MarkRequest { identity: mail(id), ..request(token) };
    for (token, id) in [("a", "1"), ("b", "2"), ("c", "3")] {
        assert_eq!(marks.mark(&marked(token, id)).await.unwrap(), MarkResult::Ours);
    }
    assert!(marks.set_sent(&mail("2"), &accepted()).await.unwrap());
    assert!(marks.set_parked(&mail("3"), "c", 9).await.unwrap());
    // A mail may be asked for twice, and a hundred at once.
    let asked: Vec<_> = ["3", "none", "1", "2", "1"].into_iter().map(mail).collect();
    let parked = Mark { pass: 9, ..mark("c", MarkState::Parked) };
    let sending = Some(mark("a", MarkState::Sending));
    let expected = [Some(parked), None, sending.clone(), Some(mark("b", MarkState::Sent)), sending];
    for _ in 0..2 {
        assert_eq!(marks.find(&asked).await.unwrap(), expected);
    }
    let hundred: Vec<_> = (0..100).map(|n| mail(&n.to_string())).collect();
    let found = marks.find(&hundred).await.unwrap();
    assert_eq!(found.iter().flatten().count(), 3);
    assert!(found[1..=3].iter().all(Option::is_some), "{found:?}");
}
