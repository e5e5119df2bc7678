use std::time::Duration;

use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::email::Email;
use tidegate_core::rate::RateMargin;

use super::*;

fn email(to: &str) -> Content {
    let body = format!(
        r#"{{"to": [{to}], "from": "news@example.org", "subject": "Hello", "text": "Text."}}"#
    );
    Email::parse(&body).unwrap().into()
}

fn ses(per_second: f64) -> (MemorySes, SimClock) {
    let universe = Universe::starting_at(Timestamp::from_millis(100_000));
    let settings = SesSettings::of_rate(Rate::per_second(per_second).unwrap());
    (MemorySes::new(universe, 1, settings), universe.clock_with_offset(50_000_000))
}

fn mail(email: &Content) -> Mail<'_> {
    let pace = Pace { rate: Rate::MIN, rate_margin: RateMargin::default() };
    Mail::new(email, "big", "42", pace)
}

const NEVER: Monotonic = Monotonic::from_origin(Duration::MAX);

#[tokio::test(start_paused = true)]
async fn a_mail_is_recorded_with_its_arrival_on_the_true_clock() {
    let (ses, clock) = ses(14.0);
    ses.configure(|settings| settings.latency = Latency::always(Duration::from_millis(80)));
    let email = email(r#""ada@example.com", "bob@example.com""#);
    let message_id = ses.mailer(&clock).send(mail(&email), NEVER).await.result.unwrap();
    let arrival = SesArrival {
        at: Timestamp::from_millis(100_040),
        campaign: "big".into(),
        tenant: None,
        id: "42".into(),
        recipients: 2,
        addresses: vec!["ada@example.com".into(), "bob@example.com".into()],
        configuration_set: None,
        raw: None,
        environment: 0,
        verdict: Ok(message_id),
    };
    assert_eq!(ses.accepted(), [arrival]);
    assert_eq!(clock.monotonic().since_origin(), Duration::from_millis(80));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_be_written_after_its_latest_instant_never_arrives() {
    let (ses, clock) = ses(14.0);
    ses.configure(|settings| settings.hand_over = Latency::always(Duration::from_millis(20)));
    let email = email(r#""ada@example.com""#);
    let latest = |ms| Monotonic::from_origin(Duration::from_millis(ms));
    let refused = ses.mailer(&clock).send(mail(&email), latest(19)).await.result;
    assert_eq!(refused, Err(failures::too_late()));
    assert!(ses.arrivals().is_empty());
    assert!(ses.mailer(&clock).send(mail(&email), latest(40)).await.result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_arrived_but_counts_nowhere() {
    let (ses, clock) = ses(2.0);
    let mailer = ses.mailer(&clock);
    let (good, bad) = (email(r#""ada@example.com""#), email(r#""eve@example.com""#));
    ses.refuse_address("eve@example.com", failures::rejected());
    assert_eq!(mailer.send(mail(&bad), NEVER).await.result, Err(failures::rejected()));
    assert!(mailer.send(mail(&good), NEVER).await.result.is_ok());
    assert!(mailer.send(mail(&good), NEVER).await.result.is_ok());
    assert_eq!(mailer.send(mail(&good), NEVER).await.result, Err(failures::rate_exceeded()));
    let timed =
        ses.arrivals().into_iter().map(|arrival| (arrival.at.as_nanos(), arrival.recipients));
    let worst = crate::worst_second(timed.collect::<Vec<_>>());
    assert_eq!((ses.accepted().len(), worst), (2, 4));
    assert!((ses.account().account().await.unwrap().sent_last_24_hours - 2.0).abs() < 1e-9);
    ses.accept_address("eve@example.com");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(mailer.send(mail(&bad), NEVER).await.result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_account_tells_what_holds_and_the_mailer_obeys_it() {
    let (ses, clock) = ses(14.0);
    ses.configure(|settings| {
        settings.max_24_hour_send = Some(1);
        settings.max_send_rate = Rate::per_second(7.0).unwrap();
    });
    let (mailer, email) = (ses.mailer(&clock), email(r#""ada@example.com""#));
    assert!(mailer.send(mail(&email), NEVER).await.result.is_ok());
    assert_eq!(
        mailer.send(mail(&email), NEVER).await.result,
        Err(failures::daily_quota_exceeded())
    );
    ses.configure(|settings| settings.sending_enabled = false);
    assert_eq!(mailer.send(mail(&email), NEVER).await.result, Err(failures::sending_paused()));
    let expected = AccountStatus {
        max_send_rate: 7.0,
        max_24_hour_send: 1.0,
        sent_last_24_hours: 1.0,
        sending_enabled: false,
        spend_limit: None,
    };
    assert_eq!(ses.account().account().await.unwrap(), expected);
}

#[test]
fn each_failure_means_what_its_name_says() {
    use tidegate_core::outcome::{Outcome, classify};
    let cases = [
        (failures::rate_exceeded(), Outcome::RateExceeded),
        (failures::daily_quota_exceeded(), Outcome::DailyQuotaExceeded),
        (failures::sending_paused(), Outcome::AccountPaused),
        (failures::rejected(), Outcome::Permanent),
        (failures::not_verified(), Outcome::NotReady),
        (failures::template_missing(), Outcome::NotReady),
        (failures::access_denied(), Outcome::NotReady),
        (failures::token_refused(), Outcome::Environment),
        (failures::server_error(), Outcome::Transient),
        (failures::connection_refused(), Outcome::Transient),
        (failures::answer_lost(), Outcome::Ambiguous),
        (failures::too_late(), Outcome::NotSent),
    ];
    for (failure, outcome) in cases {
        assert_eq!(classify(&failure), outcome, "{failure:?}");
    }
}
