use std::time::Duration;

use super::account::{AccountHealth, SenderIdentity, TenantFacts};
use super::queues::{QueueAttributes, QueueKind};
use super::*;
use tidegate_core::control::TenantStatus;

use crate::page::Page;
use crate::status::tests::{NOW, facts as standing};

fn queue(name: &str, kind: QueueKind) -> DeployedQueue {
    let attributes = QueueAttributes {
        visibility_s: 30,
        retention_s: 1_209_600,
        max_bytes: if kind == QueueKind::Campaign { 1_032_192 } else { 1_048_576 },
        high_throughput: kind == QueueKind::Merge,
        redrive: None,
        encrypted: true,
    };
    DeployedQueue { name: name.to_owned(), kind, attributes: Ok(Some(attributes)) }
}

fn function(kind: &'static str, timeout_s: u32) -> FunctionSettings {
    FunctionSettings {
        kind,
        memory_mb: 256,
        timeout_s,
        expected_timeout_s: timeout_s,
        retries: Ok(Some(0)),
        reserved: Ok(None),
    }
}

fn tenant(name: &str, resources: &[&str]) -> TenantFacts {
    let arns = resources.iter().map(|resource| format!("arn:aws:ses:eu-west-1:1:{resource}"));
    let status = TenantStatus { sends: true, resources: arns.collect() };
    let (name, campaigns) = (name.to_owned(), vec!["big".to_owned()]);
    TenantFacts { name, campaigns, status: Ok(Some(status)) }
}

pub(super) fn healthy() -> DeploymentFacts {
    DeploymentFacts {
        status: Status::of(&standing()),
        channel: ChannelFacts::Email(SesFacts {
            account: Ok(AccountHealth {
                production: true,
                sending: true,
                enforcement: "HEALTHY".to_owned(),
                max_send_rate: 14.0,
                max_24_hour_send: 50_000.0,
                price_plan: None,
            }),
            senders: vec![SenderIdentity {
                identity: "example.com".to_owned(),
                verified: Ok(Some(true)),
            }],
            configuration_set: Some(("tidegate".to_owned(), Ok(true))),
            tenants: vec![tenant("acme", &["identity/example.com", "configuration-set/tidegate"])],
        }),
        queues: vec![
            queue("big", QueueKind::Campaign),
            queue("merge", QueueKind::Merge),
            queue("dead letters", QueueKind::DeadLetter),
            queue("domain 1", QueueKind::Domain),
        ],
        store_bucket: Some(("mail-storebucket-1a2b".to_owned(), Ok(true))),
        has_shared_bucket: false,
        functions: vec![function("scheduler", 90), function("poller", 15)],
        concurrency: Ok(1_000),
        expiry: Ok(true),
        express_wake: None,
        guarded: true,
        clocks: Ok((NOW, NOW)),
    }
}

/// The findings other than `Ok` after a change to healthy facts.
fn found(change: impl FnOnce(&mut DeploymentFacts)) -> Vec<(CheckState, String)> {
    let mut facts = healthy();
    change(&mut facts);
    let report = DoctorReport::of(&facts);
    let wrong = report.findings.into_iter().filter(|finding| finding.state != CheckState::Ok);
    let wrong: Vec<Finding> = wrong.collect();
    assert!(wrong.iter().all(|finding| !finding.remedy.is_empty()), "{wrong:?}");
    wrong.into_iter().map(|finding| (finding.state, finding.check)).collect()
}

fn mail(facts: &mut DeploymentFacts) -> &mut SesFacts {
    let ChannelFacts::Email(mail) = &mut facts.channel else { panic!("of e-mail") };
    mail
}

fn attributes(facts: &mut DeploymentFacts, queue: usize) -> &mut QueueAttributes {
    facts.queues[queue].attributes.as_mut().unwrap().as_mut().unwrap()
}

#[test]
fn a_healthy_stack_passes_every_check() {
    let report = DoctorReport::of(&healthy());
    assert!(report.findings.iter().all(|finding| finding.state == CheckState::Ok), "{report:?}");
    assert!(!report.has_failed());
}

#[test]
fn each_thing_that_is_wrong_is_found_alone_and_has_its_remedy() {
    use CheckState::{Failed, Warning};
    let one = |state, check: &str, change: fn(&mut DeploymentFacts)| {
        assert_eq!(found(change), [(state, check.to_owned())], "{check}");
    };
    one(Failed, "SES production access", |f| mail(f).account.as_mut().unwrap().production = false);
    one(Failed, "SES sending", |f| mail(f).account.as_mut().unwrap().sending = false);
    one(Warning, "SES sending", |f| {
        mail(f).account.as_mut().unwrap().enforcement = "PROBATION".into();
    });
    one(Failed, "SES quota", |f| mail(f).account.as_mut().unwrap().max_send_rate = 0.0);
    one(Warning, "SES price plan", |f| {
        mail(f).account.as_mut().unwrap().price_plan = Some("ESSENTIALS".into());
    });
    assert_eq!(found(|f| mail(f).account.as_mut().unwrap().price_plan = Some("NONE".into())), []);
    one(Warning, "express: after a pause", |f| f.express_wake = Some(60));
    assert_eq!(found(|f| f.express_wake = Some(5)), []);
    one(Failed, "sender example.com", |f| mail(f).senders[0].verified = Ok(Some(false)));
    one(Failed, "sender example.com", |f| mail(f).senders[0].verified = Ok(None));
    one(Warning, "senders", |f| mail(f).senders.clear());
    one(Failed, "configuration set tidegate", |f| {
        mail(f).configuration_set = Some(("tidegate".into(), Ok(false)));
    });
    one(Failed, "tenant acme: existence", |f| mail(f).tenants[0].status = Ok(None));
    one(Failed, "tenant acme: sending", |f| {
        mail(f).tenants[0].status.as_mut().unwrap().as_mut().unwrap().sends = false;
    });
    one(Failed, "tenant acme: configuration set", |f| {
        mail(f).tenants[0] = tenant("acme", &["identity/example.com"]);
    });
    for other in ["identity/other.example", "template/example.com"] {
        let resources = [other, "configuration-set/tidegate"];
        let found = found(|f| mail(f).tenants[0] = tenant("acme", &resources));
        assert_eq!(found, [(Failed, "tenant acme: senders".to_owned())], "{other}");
    }
    one(Failed, "queue big: visibility timeout", |f| attributes(f, 0).visibility_s = 60);
    one(Warning, "queue dead letters: visibility timeout", |f| attributes(f, 2).visibility_s = 60);
    one(Warning, "queue big: largest message", |f| attributes(f, 0).max_bytes = 1_048_576);
    one(Warning, "queue big: largest message", |f| attributes(f, 0).max_bytes = 262_144);
    one(Failed, "queue merge: largest message", |f| attributes(f, 1).max_bytes = 262_144);
    one(Failed, "queue merge: throughput", |f| attributes(f, 1).high_throughput = false);
    one(Failed, "queue big: redrive policy", |f| attributes(f, 0).redrive = Some("{}".into()));
    one(Warning, "queue big: retention", |f| attributes(f, 0).retention_s = 345_600);
    one(Warning, "queue big: encryption", |f| attributes(f, 0).encrypted = false);
    one(Failed, "queue domain 1: existence", |f| f.queues[3].attributes = Ok(None));
    one(Failed, "queue merge: existence", |f| f.queues[1].attributes = Ok(None));
    one(Failed, "bucket mail-storebucket-1a2b of the store", |f| {
        f.store_bucket.as_mut().unwrap().1 = Ok(false);
    });
    one(Failed, "scheduler: time-out", |f| f.functions[0].timeout_s = 60);
    one(Failed, "poller: retries of events", |f| f.functions[1].retries = Ok(None));
    one(Failed, "poller: reserved concurrency", |f| f.functions[1].reserved = Ok(Some(1)));
    one(Warning, "poller: memory against rate", |f| f.status.quota.in_force = Some(250.0));
    one(Failed, "account: concurrent functions", |f| f.concurrency = Ok(10));
    one(Failed, "ledger: expiry", |f| f.expiry = Ok(false));
    one(Warning, "clock", |f| f.clocks = Ok((NOW, NOW + Duration::from_secs(9))));
    one(Warning, "limit recipient:*", |f| {
        let limit = status::LimitStatus {
            key: "recipient:*".to_owned(),
            limit: "5/h".to_owned(),
            per_second: Some(0.001_388),
            closed: false,
            opens_at: None,
            waiting: None,
        };
        f.status.limits.push(limit);
    });
    one(Failed, "windows", |f| f.status.serving.state = "stopped");
    one(Warning, "windows", |f| f.status.serving.state = "never");
}

#[test]
fn a_tenant_needs_one_of_the_allowed_senders_and_is_told_the_others() {
    let identity =
        |name: &str| SenderIdentity { identity: name.to_owned(), verified: Ok(Some(true)) };
    let mut facts = healthy();
    mail(&mut facts).senders = ["news@eu.example.com", "other.example"].map(identity).to_vec();
    let report = DoctorReport::of(&facts);
    let senders = report.findings.iter().find(|finding| finding.check == "tenant acme: senders");
    let found = "news@eu.example.com associated; its mails from other.example are refused";
    assert_eq!(senders, Some(&Finding::ok("tenant acme: senders", found)));
}

#[test]
fn what_cannot_be_read_is_unknown_and_not_ok() {
    let why = || "AccessDenied".to_owned();
    let wrong = found(|facts| {
        mail(facts).account = Err(why());
        mail(facts).senders[0].verified = Err(why());
        mail(facts).tenants[0].status = Err(why());
        facts.queues[0].attributes = Err(why());
        facts.store_bucket.as_mut().unwrap().1 = Err(why());
        facts.functions[0].retries = Err(why());
        facts.concurrency = Err(why());
        facts.expiry = Err(why());
        facts.clocks = Err(why());
    });
    assert_eq!(wrong.len(), 9);
    assert!(wrong.iter().all(|(state, _)| *state == CheckState::Unknown), "{wrong:?}");
}

#[test]
fn the_worst_stands_first_and_the_report_says_how_many() {
    let mut facts = healthy();
    mail(&mut facts).account.as_mut().unwrap().production = false;
    mail(&mut facts).senders[0].verified = Ok(None);
    facts.status.quota.in_force = Some(250.0);
    facts.concurrency = Err("AccessDeniedException on GetAccountSettings".to_owned());
    let report = DoctorReport::of(&facts);
    assert!(report.has_failed());
    snapbox::assert_data_eq!(
        Page::of(&report).plain(),
        snapbox::file!["../../tests/golden/doctor.txt"]
    );
}

#[test]
fn a_relay_must_serve_the_stack_that_is_asked() {
    let url = "http://127.0.0.1:8025";
    let states = [Ok("mail"), Ok("other"), Err("connection refused")].map(|answer| {
        let answer = answer.map(str::to_owned).map_err(str::to_owned);
        relay("mail", url, answer)
    });
    assert_eq!(states[0], Finding::ok(format!("relay {url}"), "takes mail for this stack"));
    for (finding, named) in states[1..].iter().zip(["other", "refused"]) {
        assert_eq!(finding.state, CheckState::Failed);
        assert!(
            finding.found.contains(named) && finding.remedy.contains("tidegate relay --stack mail")
        );
    }
}
