//! The contract of the `Mailer` and `Account` ports: two views of one SES account.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::control::TenantStatus;
use tidegate_core::email::Email;
use tidegate_core::outcome::{Failure, Outcome, Stage, classify, classify_for_tenant};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{Account, AccountStatus, Clock, Mail, Mailer, Monotonic};

use super::{behaviours, hold_together};

/// The limits of an account under test.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Recipients or parts a second, counted by a bucket of one second.
    pub rate: f64,
    pub daily: Option<u64>,
    /// Dollars that texts may cost in a month, at a dollar a part.
    pub spend: Option<u64>,
    pub paused: bool,
}

/// Nothing that a test of a few messages would meet.
pub(super) const FREE: Limits = Limits { rate: 1_000.0, daily: None, spend: None, paused: false };

/// The failure that a mail meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The recipient is refused: by the suppression list, or because the number has opted out.
    Rejected,
    /// The service has a fault of its own.
    ServerError,
    /// The service takes it, and the answer is lost.
    AnswerLost,
}

/// A message that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub message_id: String,
    /// The campaign it is tagged with.
    pub campaign: String,
    /// The id it is tagged with.
    pub id: String,
    /// Recipients, or parts of a text.
    pub slots: u32,
    pub tenant: Option<String>,
    /// The MIME message, if it came as one.
    pub raw: Option<Vec<u8>>,
}

/// An account, of mails or of texts, and what looks at it.
pub trait MailSite {
    type Mailer: Mailer;
    type Account: Account;
    type Clock: Clock;

    fn mailer(&self) -> &Self::Mailer;
    fn account(&self) -> &Self::Account;
    fn clock(&self) -> &Self::Clock;
    /// The messages it took, in order of arrival.
    fn taken(&self) -> Vec<Taken>;
    /// Changes its limits from now on.
    fn limit(&self, limits: Limits);
    /// Replaces its tenants, each such as `acme,paused,identity/example.org`.
    fn set_tenants(&self, tenants: &[&str]);
    /// Lets the message `id` to `to`, an address or a phone number, fail from now on; called once.
    fn trouble(&self, id: &str, to: &str, trouble: Trouble);
}

/// Gives the contract fresh accounts of one adapter.
pub trait MailRoom {
    type Site: MailSite;

    /// An account that has sent nothing.
    fn open(&self, limits: Limits) -> impl Future<Output = Self::Site>;
}

/// A rate that only a shared bucket uses.
fn pace() -> Pace {
    Pace { rate: Rate::MIN, rate_margin: RateMargin::default() }
}

/// Runs all behaviours of the mailer on one adapter.
pub async fn mailer_contract(room: &impl MailRoom) {
    hold_together(behaviours![room =>
        a_mail_arrives_once_with_its_tags_and_gets_its_own_message_id,
        every_recipient_counts,
        a_raw_mail_arrives_byte_for_byte_but_for_who_gets_blind_copies,
        over_the_rate_is_named_so_and_frees_up_within_a_second,
        over_the_daily_quota_is_named_so,
        a_paused_account_is_named_so,
        a_mail_arrives_for_its_tenant,
        a_tenant_that_is_unknown_or_paused_or_lacks_an_association_is_named_so,
        a_rejected_mail_is_permanent_and_its_neighbour_arrives,
        a_fault_of_ses_is_transient_and_tried_once_only,
        a_lost_answer_is_ambiguous_and_the_mail_arrived,
        a_mail_past_its_latest_instant_is_never_sent,
        connections_opened_in_advance_send_nothing,
    ])
    .await;
}

/// Runs all behaviours of the account on one adapter.
pub async fn account_contract(room: &impl MailRoom) {
    hold_together(behaviours![room =>
        the_status_shows_quotas_and_what_was_sent,
        an_account_without_a_daily_quota_shows_minus_one,
        a_changed_quota_shows_at_once,
        a_tenant_shows_whether_it_may_send_and_all_that_is_associated,
        a_tenant_that_is_unknown_is_none,
    ])
    .await;
}

fn email(id: &str, copies: usize) -> Content {
    let copies: Vec<String> = (0..copies).map(|n| format!(r#""copy-{n}@example.com""#)).collect();
    let body = format!(
        r#"{{"to": "{id}@example.com", "cc": [{}], "from": "news@example.org",
            "subject": "Grüße", "text": "Text."}}"#,
        copies.join(", ")
    );
    Email::parse(&body).unwrap().into()
}

async fn send_email(site: &impl MailSite, id: &str, email: &Content) -> Result<String, Failure> {
    let latest = site.clock().monotonic() + Duration::from_secs(10);
    let mail = Mail::new(email, "big", id, pace());
    site.mailer().send(mail, latest).await.result
}

async fn send_for(
    site: &impl MailSite,
    tenant: &str,
    set: Option<&str>,
) -> Result<String, Failure> {
    let set = set.map(|set| format!(r#", "configuration_set": "{set}""#)).unwrap_or_default();
    let email = Email::parse(&format!(
        r#"{{"to": "ada@example.com", "from": "News <news@example.org>", "subject": "S", "text": "T."{set}}}"#
    ));
    let email = email.unwrap().into();
    let latest = site.clock().monotonic() + Duration::from_secs(10);
    let tenant = Some(tenant);
    let mail = Mail { tenant, ..Mail::new(&email, "big", "1", pace()) };
    site.mailer().send(mail, latest).await.result
}

async fn send(site: &impl MailSite, id: &str) -> Result<String, Failure> {
    send_email(site, id, &email(id, 0)).await
}

fn outcome(answer: Result<String, Failure>) -> Outcome {
    classify(&answer.expect_err("it is refused"))
}

async fn a_mail_arrives_once_with_its_tags_and_gets_its_own_message_id(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    let ids = ["m-1", "m-2", "m-3"];
    let answers = join_all(ids.map(|id| send(&site, id))).await;
    let mut expected: Vec<Taken> = ids
        .into_iter()
        .zip(answers)
        .map(|(id, answer)| Taken {
            message_id: answer.unwrap(),
            campaign: "big".into(),
            id: id.into(),
            slots: 1,
            tenant: None,
            raw: None,
        })
        .collect();
    let mut taken = site.taken();
    expected.sort_by(|a, b| a.id.cmp(&b.id));
    taken.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(taken, expected);
    expected.dedup_by(|a, b| a.message_id == b.message_id);
    assert_eq!(expected.len(), 3, "message ids are distinct");
}

async fn every_recipient_counts(room: &impl MailRoom) {
    let site = room.open(Limits { rate: 5.0, ..FREE }).await;
    send_email(&site, "large", &email("large", 3)).await.unwrap();
    assert_eq!(site.taken()[0].slots, 4);
    let answer = send_email(&site, "second", &email("second", 3)).await;
    assert_eq!(outcome(answer), Outcome::RateExceeded);
}

async fn a_raw_mail_arrives_byte_for_byte_but_for_who_gets_blind_copies(room: &impl MailRoom) {
    let (begin, blind) =
        ("From: News <news@example.org>\r\n", "Bcc: eve@example.com,\r\n\tada@example.com\r\n");
    let rest = "To: all: ;\r\nSUBJECT:  Gr\u{fc}\u{df}e \r\nMIME-Version: 1.0\r\n\r\n.\r\nBcc: text\r\n\n \r\n\u{fe}";
    let rest: Vec<u8> = rest.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let site = room.open(FREE).await;
    for (id, blind) in [("plain", ""), ("blind", blind)] {
        let mime = [begin.as_bytes(), blind.as_bytes(), &rest].concat();
        let body = format!(
            r#"{{"from": "news@example.org", "to": ["ada@example.com", "eve@example.com"], "raw": "{}"}}"#,
            STANDARD.encode(mime)
        );
        send_email(&site, id, &Email::parse(&body).unwrap().into()).await.unwrap();
    }
    for taken in site.taken() {
        assert_eq!(taken.slots, 2);
        assert_eq!(taken.raw.unwrap(), [begin.as_bytes(), &rest].concat(), "{}", taken.id);
    }
    assert_eq!(site.taken().len(), 2);
}

async fn over_the_rate_is_named_so_and_frees_up_within_a_second(room: &impl MailRoom) {
    let site = room.open(Limits { rate: 2.0, ..FREE }).await;
    let answers = join_all(["a", "b", "c", "d"].map(|id| send(&site, id))).await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!(accepted.len(), 2);
    assert!(refused.into_iter().all(|answer| outcome(answer) == Outcome::RateExceeded));
    tokio::time::sleep(Duration::from_secs(1)).await;
    send(&site, "e").await.unwrap();
    assert_eq!(site.taken().len(), 3);
}

async fn over_the_daily_quota_is_named_so(room: &impl MailRoom) {
    let site = room.open(Limits { daily: Some(1), ..FREE }).await;
    send(&site, "a").await.unwrap();
    assert_eq!(outcome(send(&site, "b").await), Outcome::DailyQuotaExceeded);
    assert_eq!(site.taken().len(), 1);
}

async fn a_paused_account_is_named_so(room: &impl MailRoom) {
    let site = room.open(Limits { paused: true, ..FREE }).await;
    assert_eq!(outcome(send(&site, "a").await), Outcome::AccountPaused);
    site.limit(FREE);
    send(&site, "a").await.unwrap();
    assert_eq!(site.taken().len(), 1);
}

async fn a_mail_arrives_for_its_tenant(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.set_tenants(&["acme,identity/example.org,configuration-set/news", "other"]);
    send_for(&site, "acme", None).await.unwrap();
    send_for(&site, "acme", Some("news")).await.unwrap();
    send(&site, "a").await.unwrap();
    let tenants: Vec<_> = site.taken().into_iter().map(|mail| mail.tenant).collect();
    assert_eq!(tenants, [Some("acme".to_owned()), Some("acme".to_owned()), None]);
}

async fn a_tenant_that_is_unknown_or_paused_or_lacks_an_association_is_named_so(
    room: &impl MailRoom,
) {
    let site = room.open(FREE).await;
    let paused = "paused,paused,identity/example.org";
    site.set_tenants(&["acme,identity/example.org", "bare", paused]);
    for (tenant, set, named) in [
        ("unknown", None, "unknown"),
        ("paused", None, "paused"),
        ("bare", None, "[arn:aws:ses:us-east-1:123456789012:identity/example.org]"),
        ("acme", Some("news"), "[arn:aws:ses:us-east-1:123456789012:configuration-set/news]"),
    ] {
        let failure = send_for(&site, tenant, set).await.unwrap_err();
        assert_eq!(classify_for_tenant(&failure), Outcome::Tenant, "{failure:?}");
        assert!(failure.message.contains(named), "{failure:?}");
    }
    assert!(site.taken().is_empty());
    site.set_tenants(&["acme,identity/news@example.org"]);
    send_for(&site, "acme", None).await.unwrap();
}

async fn tenant(site: &impl MailSite, name: &str) -> Option<TenantStatus> {
    site.account().tenant(name).await.expect("SES answers")
}

async fn a_tenant_shows_whether_it_may_send_and_all_that_is_associated(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    let many: Vec<String> = (0..25).map(|n| format!("identity/n{n:02}.example")).collect();
    site.set_tenants(&["paused,paused", &format!("acme,{}", many.join(","))]);
    let paused = TenantStatus::default();
    assert_eq!(tenant(&site, "paused").await, Some(paused));
    let arns = many.iter().map(|name| format!("arn:aws:ses:us-east-1:123456789012:{name}"));
    let acme = TenantStatus { sends: true, resources: arns.collect() };
    assert_eq!(tenant(&site, "acme").await, Some(acme));
}

async fn a_tenant_that_is_unknown_is_none(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    assert_eq!(tenant(&site, "acme").await, None);
}

async fn a_rejected_mail_is_permanent_and_its_neighbour_arrives(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.trouble("bad", "bad@example.com", Trouble::Rejected);
    let (bad, good) = (send(&site, "bad").await, send(&site, "good").await);
    let failure = bad.unwrap_err();
    assert_eq!(classify(&failure), Outcome::Permanent);
    assert_eq!(failure.http_status, Some(400));
    assert!(failure.code.is_some_and(|code| code.contains("MessageRejected")));
    assert_eq!(site.taken()[0].message_id, good.unwrap());
}

async fn a_fault_of_ses_is_transient_and_tried_once_only(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.trouble("late", "late@example.com", Trouble::ServerError);
    let failure = send(&site, "late").await.unwrap_err();
    assert_eq!((classify(&failure), failure.stage), (Outcome::Transient, Stage::Answered));
    assert!(site.taken().is_empty());
}

async fn a_lost_answer_is_ambiguous_and_the_mail_arrived(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.trouble("lost", "lost@example.com", Trouble::AnswerLost);
    assert_eq!(outcome(send(&site, "lost").await), Outcome::Ambiguous);
    // Once: a hidden retry would be a second mail.
    let ids: Vec<String> = site.taken().into_iter().map(|mail| mail.id).collect();
    assert_eq!(ids, ["lost"]);
}

async fn a_mail_past_its_latest_instant_is_never_sent(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    let latest: Monotonic = site.clock().monotonic();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let email = email("late", 0);
    let mail = Mail::new(&email, "big", "late", pace());
    let failure = site.mailer().send(mail, latest).await.result.unwrap_err();
    assert_eq!((classify(&failure), failure.stage), (Outcome::NotSent, Stage::NotSent));
    assert!(site.taken().is_empty());
    send(&site, "late").await.unwrap();
}

async fn connections_opened_in_advance_send_nothing(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.mailer().warm(3).await;
    site.mailer().warm(0).await;
    assert!(site.taken().is_empty());
    send(&site, "a").await.unwrap();
    assert_eq!(site.taken().len(), 1);
}

async fn status(site: &impl MailSite) -> AccountStatus {
    site.account().account().await.expect("the account answers")
}

async fn the_status_shows_quotas_and_what_was_sent(room: &impl MailRoom) {
    let site = room.open(Limits { rate: 14.5, daily: Some(50_000), ..FREE }).await;
    send_email(&site, "a", &email("a", 2)).await.unwrap();
    let expected = AccountStatus {
        max_send_rate: 14.5,
        max_24_hour_send: 50_000.0,
        sent_last_24_hours: 3.0,
        sending_enabled: true,
        spend_limit: None,
    };
    assert_eq!(status(&site).await, expected);
}

async fn an_account_without_a_daily_quota_shows_minus_one(room: &impl MailRoom) {
    let unlimited = status(&room.open(FREE).await).await.max_24_hour_send;
    assert!((unlimited + 1.0).abs() < f64::EPSILON, "{unlimited}");
}

async fn a_changed_quota_shows_at_once(room: &impl MailRoom) {
    let site = room.open(FREE).await;
    site.limit(Limits { rate: 7.0, daily: Some(9), paused: true, ..FREE });
    let status = status(&site).await;
    assert!(!status.sending_enabled);
    assert!((status.max_send_rate - 7.0).abs() < 1e-9);
    assert!((status.max_24_hour_send - 9.0).abs() < 1e-9);
}
