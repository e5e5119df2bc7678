use std::cell::{Cell, RefCell};

use futures_util::FutureExt as _;
use tidegate_core::bucket::{Pace, lost, withheld};
use tidegate_core::channel::Content;
use tidegate_core::email::Email;
use tidegate_core::outcome::{Outcome, classify};
use tidegate_core::rate::{Rate, RateMargin};

use super::*;
use crate::ports::{FailureKind, LimitTake, SendAnswer, Taken, WrittenRequest};

/// A recorded request: rate, recipients wanted, the fewest of use, domains.
type Taking = (f64, u32, u32, Vec<LimitTake>);

/// Gives the answer that a test has set, without waiting.
#[derive(Default)]
struct Fake {
    answer: RefCell<Option<Answer>>,
    asked: RefCell<Vec<Taking>>,
    warmed: Cell<bool>,
}

impl Bucket for &Fake {
    async fn take(&self, request: &TakeRequest<'_>) -> Result<Taken, PortError> {
        let rate = request.pace.rate.as_per_second();
        self.asked.borrow_mut().push((
            rate,
            request.wanted,
            request.least,
            request.limits.to_vec(),
        ));
        match self.answer.borrow().clone() {
            Some(answer) => Ok(Taken { answer, at_micros: 1 }),
            None => Err(PortError {
                operation: "EVALSHA",
                resource: "cache.example:6379".to_owned(),
                kind: FailureKind::TimedOut,
                source: None,
            }),
        }
    }

    async fn warm(&self) {
        self.warmed.set(true);
    }
}

/// Accepts and counts every mail.
#[derive(Default)]
struct Ses {
    sent: Cell<u64>,
    warmed: Cell<usize>,
}

impl Mailer for &Ses {
    async fn send(&self, _: Mail<'_>, latest: Monotonic) -> SendAnswer {
        self.sent.set(self.sent.get() + 1);
        SendAnswer { start: Some(latest), result: Ok("id".to_owned()) }
    }

    fn writer(&self) -> Writer {
        Box::new(|_| WrittenRequest::new(()))
    }

    async fn warm(&self, connections: usize) {
        self.warmed.set(connections);
    }
}

fn domain() -> LimitTake {
    LimitTake {
        name: "example.com".to_owned(),
        rate: Rate::MIN,
        recipients: 2,
        is_of_recipient: false,
    }
}

const MAIL: &str = r#"{"to": ["a@example.com", "b@example.com"], "from": "news@example.org", "subject": "Hello", "text": "Text."}"#;

fn pace() -> Pace {
    Pace { rate: Rate::per_second(14.0).unwrap(), rate_margin: RateMargin::default() }
}

fn slot(millis: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(millis))
}

fn send(mailer: &impl Mailer, at: Monotonic) -> Result<String, Failure> {
    let email = Email::parse(MAIL).unwrap().into();
    let domains = [domain()];
    let mail = Mail { takes: &domains, ..Mail::new(&email, "big", "1", pace()) };
    mailer.send(mail, at).now_or_never().unwrap().result
}

#[test]
fn a_mail_takes_its_recipients_at_the_rate_in_force_and_is_sent() {
    let (ses, bucket) = (Ses::default(), Fake::default());
    *bucket.answer.borrow_mut() = Some(Answer::Granted(2));
    let mailer = Bucketed::new(&ses, &bucket, BucketLost::Closed);
    assert_eq!(send(&mailer, slot(0)), Ok("id".to_owned()));
    assert_eq!(*bucket.asked.borrow(), [(14.0, 2, 2, vec![domain()])]);
    assert_eq!(mailer.takes(), Takes::default());
}

#[test]
fn what_is_refused_is_not_sent_and_waits_for_a_later_slot() {
    let (ses, bucket) = (Ses::default(), Fake::default());
    let after = Duration::from_micros(62_858);
    *bucket.answer.borrow_mut() = Some(Answer::Refused { after, by: Some("gmail.com".to_owned()) });
    let mailer = Bucketed::new(&ses, &bucket, BucketLost::Open);
    let failure = send(&mailer, slot(0)).unwrap_err();
    assert_eq!((classify(&failure), ses.sent.get()), (Outcome::NotSent, 0));
    assert!(withheld(&failure) && failure.message.contains("\"gmail.com\" is empty for 62.858ms"));
    assert_eq!(mailer.takes(), Takes { refused: 1, lost: 0 });
}

#[test]
fn closed_a_lost_bucket_sends_nothing_is_left_alone_for_a_while_and_comes_back_by_itself() {
    let (ses, bucket) = (Ses::default(), Fake::default());
    let mailer = Bucketed::new(&ses, &bucket, BucketLost::Closed);
    for at in [0, 1, 500, 999] {
        let failure = send(&mailer, slot(at)).unwrap_err();
        assert_eq!(classify(&failure), Outcome::NotSent);
        assert!(withheld(&failure) && lost(&failure) == (at == 0), "it stops its window");
    }
    assert_eq!((bucket.asked.borrow().len(), ses.sent.get()), (1, 0));
    assert_eq!(mailer.takes(), Takes { refused: 0, lost: 4 });
    *bucket.answer.borrow_mut() = Some(Answer::Granted(2));
    assert!(send(&mailer, slot(1_000)).is_ok() && send(&mailer, slot(1_001)).is_ok());
    assert_eq!((bucket.asked.borrow().len(), ses.sent.get()), (3, 2));
}

#[test]
fn open_a_lost_bucket_is_done_without() {
    let (ses, bucket) = (Ses::default(), Fake::default());
    let mailer = Bucketed::new(&ses, &bucket, BucketLost::Open);
    assert!((0..10).all(|at| send(&mailer, slot(at * 100)).is_ok()));
    assert_eq!((bucket.asked.borrow().len(), ses.sent.get()), (1, 10));
    assert_eq!(mailer.takes(), Takes { refused: 0, lost: 10 });
    // Then one mail tries; the others of that window do not wait for it.
    assert!((10..20).all(|at| send(&mailer, slot(at * 100)).is_ok()));
    assert_eq!(bucket.asked.borrow().len(), 2);
}

#[test]
fn warming_warms_both() {
    let (ses, bucket) = (Ses::default(), Fake::default());
    let mailer = Bucketed::new(&ses, &bucket, BucketLost::Closed);
    mailer.warm(3).now_or_never().unwrap();
    assert!(bucket.warmed.get() && ses.warmed.get() == 3);
}

#[test]
fn it_is_known_until_when_a_recipient_has_had_enough() {
    let (ses, bucket) = (Ses::default(), Fake::default());
    let after = Duration::from_secs(700);
    let mailer = Bucketed::new(&ses, &bucket, BucketLost::Closed);
    let of = |name: &str| LimitTake { name: name.to_owned(), is_of_recipient: true, ..domain() };
    let (ada, bob) = (of("recipient:ada"), of("recipient:bob"));
    for by in ["recipient:ada", "example.com"] {
        *bucket.answer.borrow_mut() = Some(Answer::Refused { after, by: Some(by.to_owned()) });
        let takes = [domain(), ada.clone(), bob.clone()];
        let email: Content = Email::parse(MAIL).unwrap().into();
        let mail = Mail { takes: &takes, ..Mail::new(&email, "big", "1", pace()) };
        let answer = mailer.send(mail, slot(1_000)).now_or_never().unwrap();
        assert!(withheld(&answer.result.unwrap_err()));
    }
    let away = |takes: &[LimitTake], at| mailer.away(takes, slot(at)).map(|left| left.as_secs());
    assert_eq!(away(&[bob.clone(), ada.clone()], 1_000), Some(700));
    assert_eq!((away(std::slice::from_ref(&ada), 700_500), away(&[ada], 701_000)), (Some(0), None));
    // A limit with slots of its own is tried again in its next slot.
    assert_eq!((away(&[domain(), bob], 1_000), away(&[], 1_000)), (None, None));
}

#[test]
fn however_many_have_had_enough_the_mail_that_was_refused_stays_away() {
    let mut state = BucketState::default();
    for number in 0..MOST_AWAY + 5 {
        // The last ones stand first in the order of their names.
        let name = format!("recipient:{:08}", MOST_AWAY + 5 - number);
        let takes = [LimitTake { name: name.clone(), is_of_recipient: true, ..domain() }];
        state.refused(&takes, Some(&name), slot(0), Duration::from_secs(700));
        assert!(state.away_until.contains_key(&name), "{number}");
    }
    assert_eq!(state.away_until.len(), MOST_AWAY);
}
