use super::*;
use crate::sliding_count::SECOND_NS;

const START: u64 = 1_795_206_967 * SECOND_NS;

fn engine(settings: &str) -> SesEngine {
    let config = SesSandboxConfig::default().with_json(settings.as_bytes()).expect("settings");
    SesEngine::new(config, START)
}

fn send(engine: &mut SesEngine, now_ns: u64, address: &str) -> PlannedReply {
    let draft = MailFields { to: vec![address.to_owned()], ..MailFields::default() };
    engine.send(now_ns, Ok(draft), b"{}")
}

fn code(plan: &PlannedReply) -> &str {
    match &plan.end {
        Reply::Answer(Ok(_)) => "accepted",
        Reply::Answer(Err(error)) => error.code.as_deref().unwrap_or_default(),
        Reply::Dropped(DroppedConnection::Closed) => "closed",
        Reply::Dropped(DroppedConnection::Reset) => "reset",
    }
}

#[test]
fn a_mail_over_the_rate_is_refused_and_counted_as_offered_only() {
    let mut engine = engine(r#"{"quota": 2}"#);
    let codes: Vec<String> =
        (0..3).map(|i| code(&send(&mut engine, START + i, "a@x")).to_owned()).collect();
    assert_eq!(codes, ["accepted", "accepted", "TooManyRequestsException"]);
    let stats = engine.stats(START + 3);
    assert_eq!((stats.arrived.mails, stats.accepted.mails), (3, 2));
    assert_eq!((stats.worst_sliding_second, stats.worst_sliding_second_offered), (2, 3));
    assert_eq!(stats.refused["TooManyRequestsException"], 1);
    assert_eq!(stats.sent_last_second, 2);
}

#[test]
fn the_daily_quota_refuses_with_its_own_code_and_shows_in_the_account() {
    let mut engine = engine(r#"{"quota": 100, "daily_quota": 1}"#);
    assert_eq!(code(&send(&mut engine, START, "a@x")), "accepted");
    assert_eq!(code(&send(&mut engine, START, "a@x")), "LimitExceededException");
    let account = SesAccount {
        max_24_hour_send: 1.0,
        max_send_rate: 100.0,
        sent_last_24_hours: 1.0,
        sending_enabled: true,
    };
    assert_eq!(engine.account(START).end, Reply::Answer(Ok(SesReply::Account(account))));
}

#[test]
fn a_text_over_the_rate_and_one_over_the_daily_quota_have_different_codes() {
    let text = || MailFields {
        to: vec!["+491701234567".to_owned()],
        parts: Some(1),
        ..MailFields::default()
    };
    for (settings, expected) in [
        (r#"{"quota": 1}"#, "ThrottlingException"),
        (r#"{"quota": 100, "daily_quota": 1}"#, "LimitExceededException"),
    ] {
        let mut engine = engine(settings);
        assert_eq!(code(&engine.send(START, Ok(text()), b"{}")), "accepted");
        assert_eq!(code(&engine.send(START, Ok(text()), b"{}")), expected);
    }
}

#[test]
fn the_figures_say_at_which_moment_they_were_read() {
    let mut engine = engine("{}");
    assert_eq!(engine.stats(START + 3).now_ns, START + 3);
}

#[test]
fn a_paused_account_refuses_and_says_so() {
    let mut engine = engine(r#"{"paused": true}"#);
    assert_eq!(code(&send(&mut engine, START, "a@x")), "SendingPausedException");
    let Reply::Answer(Ok(SesReply::Account(account))) = engine.account(START).end else {
        panic!("no account")
    };
    assert!(!account.sending_enabled);
}

#[test]
fn only_a_lost_answer_records_the_mail_that_it_fails() {
    let faults = r#"{"latency": "80ms", "faults": [
        "lost-answer,to=*@lost.example", "reset,to=*@reset.example",
        "timeout,to=*@never.example", "timeout,to=*@late.example,after=2s",
        "ServiceUnavailable,to=*@down.example"]}"#;
    let mut engine = engine(faults);
    let latency = Some(Duration::from_millis(80));
    for (address, expected, wait) in [
        ("Ada <a@lost.example>", "closed", latency),
        ("a@reset.example", "reset", latency),
        ("a@never.example", "closed", None),
        ("a@late.example", "closed", Some(Duration::from_secs(2))),
        ("a@down.example", "ServiceUnavailable", latency),
        ("a@well.example", "accepted", latency),
    ] {
        let plan = send(&mut engine, START, address);
        assert_eq!((code(&plan), plan.wait), (expected, wait), "{address}");
    }
    let kept = engine.mails.after(0, 10);
    let statuses: Vec<MailStatus> = kept.iter().map(|mail| mail.status).collect();
    assert_eq!(statuses, [MailStatus::AnswerLost, MailStatus::Accepted]);
    let stats = engine.stats(START);
    assert_eq!(stats.sent_last_24_hours, 2);
    assert_eq!(stats.faults["timeout"], 2);
    assert_eq!(stats.refused["ServiceUnavailable"], 1);
}

#[test]
fn a_lost_answer_does_not_get_past_the_quota() {
    let mut engine = engine(r#"{"quota": 1, "faults": ["lost-answer"]}"#);
    assert_eq!(code(&send(&mut engine, START, "a@x")), "closed");
    assert_eq!(code(&send(&mut engine, START, "a@x")), "TooManyRequestsException");
    assert_eq!(engine.stats(START).faults["lost-answer"], 1);
}

#[test]
fn the_same_seed_fails_the_same_mails() {
    let met = |seed: u64| {
        let settings = format!(
            r#"{{"quota": 1000, "seed": {seed}, "latency": "1ms..9ms", "faults": ["reset,ratio=0.3"]}}"#
        );
        let mut engine = engine(&settings);
        (0..200)
            .map(|i| send(&mut engine, START + i, "a@x"))
            .map(|plan| plan.wait)
            .collect::<Vec<_>>()
    };
    assert_eq!(met(5), met(5));
    assert_ne!(met(5), met(6));
}

#[test]
fn emptying_the_mailbox_keeps_the_quotas_memory_and_the_numbering() {
    let mut engine = engine(r#"{"quota": 1}"#);
    send(&mut engine, START, "a@x");
    engine.clear();
    assert_eq!(code(&send(&mut engine, START, "a@x")), "TooManyRequestsException");
    assert_eq!(code(&send(&mut engine, START + SECOND_NS, "a@x")), "accepted");
    let stats = engine.stats(START + SECOND_NS);
    assert_eq!((stats.accepted.mails, stats.last_seq, stats.sent_last_24_hours), (1, 2, 2));
    assert_eq!(engine.mails.after(0, 10)[0].seq, 2);
}

#[test]
fn a_request_that_was_read_earlier_but_comes_later_counts_as_now() {
    let mut engine = engine("{}");
    send(&mut engine, START + 10, "a@x");
    send(&mut engine, START + 5, "a@x");
    assert_eq!(engine.mails.after(1, 1)[0].arrived_ns, START + 10);
}
