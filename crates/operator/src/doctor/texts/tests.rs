use serde_json::{Value, from_value, json};

use super::records::EventDestination;
use super::*;
use crate::doctor::tests::healthy;
use crate::doctor::{ChannelFacts, DoctorReport};
use crate::page::Page;

fn number(phone: &str, rate: &Value) -> Value {
    json!({
        "PhoneNumber": phone, "PhoneNumberId": format!("id-{phone}"), "PhoneNumberArn": format!("arn:{phone}"),
        "Status": "ACTIVE", "NumberType": "SHORT_CODE", "NumberCapabilities": ["SMS", "MMS"], "PoolId": "pool-1",
        "OptOutListName": "Default", "SelfManagedOptOutsEnabled": false,
        "MessagingLimits": { "RateLimits": { "SMS": rate } },
    })
}

fn records() -> (Vec<PhoneNumber>, Vec<Pool>, Vec<SenderId>) {
    let numbers = [number("+12065550100", &json!(100)), number("+12065550101", &json!(20.5))];
    let pool = json!({
        "PoolId": "pool-1", "PoolArn": "arn:pool-1", "Status": "ACTIVE", "OptOutListName": "Default",
        "SelfManagedOptOutsEnabled": false,
    });
    let sender = json!({ "SenderId": "NEWS", "SenderIdArn": "arn:NEWS", "IsoCountryCode": "DE" });
    (
        from_value(json!(numbers)).unwrap(),
        vec![from_value(pool).unwrap()],
        vec![from_value(sender).unwrap()],
    )
}

/// A healthy stack for texts.
fn texts() -> TextFacts {
    let (numbers, pools, sender_ids) = records();
    let set = json!({ "ConfigurationSetName": "texts", "EventDestinations": [
        { "Enabled": true, "MatchingEventTypes": RECEIPTS.map(|(event, _)| event),
          "SnsDestination": { "TopicArn": "arn:topic" } },
    ]});
    let limits = json!([
        { "Name": "VOICE_MESSAGE_MONTHLY_SPEND_LIMIT", "EnforcedLimit": 1, "MaxLimit": 1, "Overridden": false },
        { "Name": "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT", "EnforcedLimit": 500, "MaxLimit": 1000, "Overridden": true },
    ]);
    TextFacts {
        origins: vec!["+12065550100".into(), "NEWS".into()],
        countries: vec!["+1".into(), "+49".into()],
        quota: None,
        feedback: true,
        attributes: Ok(
            from_value(json!([{ "Name": "ACCOUNT_TIER", "Value": "PRODUCTION" }])).unwrap()
        ),
        limits: Ok(from_value(limits).unwrap()),
        spent: Ok(Some(38.125)),
        identities: Ok(Identities { numbers, pools, sender_ids }),
        configuration_set: Some("texts".into()),
        configuration_sets: Ok(vec![from_value(set).unwrap()]),
    }
}

fn identities(facts: &mut TextFacts) -> &mut Identities {
    facts.identities.as_mut().unwrap()
}

/// The findings other than `Ok` after a change to healthy facts.
fn found(change: impl FnOnce(&mut TextFacts)) -> Vec<(CheckState, String)> {
    let mut facts = texts();
    change(&mut facts);
    let wrong = judge(&facts, &healthy().status.serving)
        .into_iter()
        .filter(|finding| finding.state != CheckState::Ok);
    let wrong: Vec<Finding> = wrong.collect();
    assert!(wrong.iter().all(|finding| !finding.remedy.is_empty()), "{wrong:?}");
    wrong.into_iter().map(|finding| (finding.state, finding.check)).collect()
}

#[test]
fn of_a_stack_for_texts_nothing_of_ses_is_asked() {
    let mut facts = healthy();
    facts.channel = ChannelFacts::Sms(texts());
    let report = DoctorReport::of(&facts);
    assert!(report.findings.iter().all(|finding| finding.state == CheckState::Ok), "{report:?}");
    snapbox::assert_data_eq!(
        Page::of(&report).plain(),
        snapbox::file!["../../../tests/golden/doctor-texts.txt"]
    );
}

#[test]
fn each_thing_that_is_wrong_with_texts_is_found_alone_and_has_its_remedy() {
    use CheckState::{Failed, Unknown, Warning};
    let one = |state, check: &str, change: fn(&mut TextFacts)| {
        assert_eq!(found(change), [(state, check.to_owned())], "{check}");
    };
    one(Failed, "text messages: production access", |f| {
        f.attributes.as_mut().unwrap()[0].value = "SANDBOX".into();
    });
    one(Unknown, "text messages: production access", |f| f.attributes = Ok(Vec::new()));
    one(Failed, "text messages: spend limit", |f| f.spent = Ok(Some(500.0)));
    one(Warning, "text messages: spend limit", |f| f.spent = Ok(Some(400.0)));
    one(Unknown, "text messages: spend limit", |f| f.spent = Ok(None));
    one(Failed, "origin NEWS", |f| identities(f).sender_ids.clear());
    one(Failed, "origin +12065550100", |f| identities(f).numbers[0].status = "PENDING".into());
    one(Failed, "origin +12065550100", |f| {
        identities(f).numbers[0].number_capabilities = vec!["VOICE".into()];
    });
    one(Warning, "origin +12065550100", |f| {
        identities(f).numbers[0].number_type = "SIMULATOR".into();
    });
    one(Failed, "origin pool-1", |f| {
        f.origins = vec!["pool-1".into()];
        identities(f).pools[0].status = "CREATING".into();
    });
    one(Warning, "opt-outs of +12065550100", |f| {
        identities(f).numbers[0].self_managed_opt_outs_enabled = true;
    });
    one(Failed, "text messages: quota", |f| {
        identities(f).numbers[0].messaging_limits.rate_limits.clear();
    });
    one(Failed, "text messages: quota", |f| f.quota = Some(100.5));
    one(Failed, "text messages: quota", |f| f.origins.push("+12065550101".into()));
    one(Warning, "allowed countries", |f| f.countries.clear());
    one(Failed, "configuration set texts", |f| f.configuration_sets = Ok(Vec::new()));
    let destination: fn(&mut TextFacts) -> &mut EventDestination =
        |f| &mut f.configuration_sets.as_mut().unwrap()[0].event_destinations[0];
    assert_eq!(found(|f| destination(f).matching_event_types = vec!["TEXT_ALL".into()]), []);
    for change in [
        |to: &mut EventDestination| to.enabled = false,
        |to: &mut EventDestination| to.sns_destination = None,
        |to: &mut EventDestination| to.matching_event_types.truncate(5),
    ] {
        let untold = [(Warning, "configuration set texts".to_owned())];
        assert_eq!(found(|f| change(destination(f))), untold);
        assert_eq!(
            found(|f| {
                change(destination(f));
                f.feedback = false;
            }),
            []
        );
    }
    one(Warning, "receipts", |f| f.configuration_set = None);
}

#[test]
fn where_no_window_is_served_the_functions_may_have_been_built_without_texts() {
    for (state, suspect) in
        [("serving", false), ("idle", false), ("never", true), ("stopped", true)]
    {
        let mut facts = healthy();
        facts.status.serving.state = state;
        facts.channel = ChannelFacts::Sms(texts());
        let report = DoctorReport::of(&facts);
        let is_it = |finding: &Finding| finding.check == "text messages: functions";
        assert_eq!(report.findings.iter().any(is_it), suspect, "{state}");
    }
}

#[test]
fn the_quota_is_the_configured_one_or_what_aws_gives_the_first_origin() {
    let said = |change: fn(&mut TextFacts)| {
        let mut facts = texts();
        change(&mut facts);
        let findings = judge(&facts, &healthy().status.serving);
        let quota = findings.into_iter().find(|finding| finding.check == "text messages: quota");
        quota.unwrap().found
    };
    assert_eq!(said(|_| ()), "100/s parts, the first origin's");
    assert_eq!(said(|f| f.quota = Some(26.67)), "26.67/s parts, set by QuotaPerSecond");
    assert_eq!(
        said(|f| f.origins = vec!["arn:pool-1".into()]),
        "120.5/s parts, the first origin's"
    );
    let none = "AWS tells no rate of the first of TIDEGATE_ORIGINS: nothing is sent";
    assert_eq!(said(|f| f.origins.reverse()), none);
    assert_eq!(said(|f| f.origins.clear()), none);
    let above = "26.67/s parts, but +12065550101 may send 20.5/s: AWS refuses what is above";
    assert_eq!(
        said(|f| {
            f.quota = Some(26.67);
            f.origins.push("+12065550101".into());
        }),
        above
    );
}

#[test]
fn what_cannot_be_read_of_texts_is_unknown_and_not_ok() {
    let why = || "AccessDenied".to_owned();
    let wrong = found(|facts| {
        facts.attributes = Err(why());
        facts.spent = Err(why());
        facts.identities = Err(why());
        facts.configuration_sets = Err(why());
    });
    assert_eq!(wrong.len(), 4);
    assert!(wrong.iter().all(|(state, _)| *state == CheckState::Unknown), "{wrong:?}");
}
