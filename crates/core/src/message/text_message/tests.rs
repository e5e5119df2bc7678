use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::email::{EmailErrorKind, addressed_to};
use crate::outcome::{Failure, Outcome, Stage};

const PHONE: &str = "+12065550100";

fn parse(members: &str) -> Result<TextMessage, EmailError> {
    TextMessage::parse(&format!("{{{members}}}"))
}

fn refused(members: &str) -> String {
    parse(members).unwrap_err().to_string()
}

#[test]
fn the_long_form_has_every_member() {
    let text = parse(
        r#""to_phone": "+12065550100", "text": "Grüße, €", "origination": "pool-1", "type": "promotional",
           "configuration_set": "texts", "id": "7", "priority": "high", "tags": {"list": "a"},
           "metadata": {"any": [1]}, "x_own": 1"#,
    )
    .unwrap();
    assert_eq!((&*text.to, &*text.text, text.parts), (PHONE, "Grüße, €", 1));
    assert_eq!(
        (text.origination.as_deref(), text.configuration_set.as_deref()),
        (Some("pool-1"), Some("texts"))
    );
    assert_eq!((text.id.as_deref(), text.priority), (Some("7"), Priority::High));
    assert_eq!(text.message_type, Some(MessageType::Promotional));
    assert_eq!(text.tags["list"], "a");
}

#[test]
fn faults_name_the_field_the_value_and_what_is_allowed() {
    let said = refused(r#""to_phone": "2065550100", "text": "a""#);
    let allowed = "must be one phone number in E.164: + and 7 to 15 digits with the country code, like +12065550100";
    assert_eq!(said, format!("to_phone: {allowed}, not \"2065550100\""));
    assert_eq!(refused(r#""text": "a""#), format!("to_phone: {allowed}"));
    let with = |member: &str| refused(&format!(r#""to_phone": "{PHONE}", "text": "a", {member}"#));
    assert_eq!(
        with(r#""type": "both""#),
        "type: must be transactional or promotional, not \"both\""
    );
    assert!(with(r#""to": "a@example.com""#).starts_with("to: is not a member Tidegate knows"));
    assert!(with(r#""text": "b""#).starts_with("text: must not stand twice"));
    assert!(with(r#""origination": "two words""#).starts_with("origination: must be"));
    assert!(
        with(r#""tags": {"a": "1", "b": "2", "c": "3"}"#).starts_with("tags: must be at most 2")
    );
    assert!(refused(r#""to_phone": "+12065550100", "text": " ""#).starts_with("text: must be"));
    let long = "a".repeat(1_531);
    let said = refused(&format!(r#""to_phone": "{PHONE}", "text": "{long}""#));
    assert!(said.ends_with("not 1531"), "{said}");
}

#[test]
fn a_refused_text_names_its_recipient_in_the_dead_letter_and_not_in_the_log() {
    let body = r#"{"to_phone": "+1 206 555 0100", "text": "a"}"#;
    assert_eq!(addressed_to(body), ["+1 206 555 0100"]);
    let error = TextMessage::parse(body).unwrap_err();
    assert_eq!(error.kind, EmailErrorKind::Invalid);
    assert!(!error.redacted().contains("555 0100"), "{}", error.redacted());
}

#[test]
fn a_failure_has_one_meaning() {
    let of = |status: u16, code: &str| {
        let code = Some(code.to_owned());
        let message = String::new();
        classify_text(&Failure { http_status: Some(status), code, message, stage: Stage::Answered })
    };
    for (status, code, outcome) in [
        (400, "ThrottlingException", Outcome::RateExceeded),
        (400, "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT", Outcome::SpendLimit),
        (400, "DESTINATION_PHONE_NUMBER_OPTED_OUT", Outcome::OptedOut),
        (400, "DESTINATION_PHONE_NUMBER_NOT_VERIFIED", Outcome::Permanent),
        (400, "ResourceNotFoundException", Outcome::NotReady),
        (400, "RESOURCE_NOT_ACTIVE", Outcome::NotReady),
        (400, "ACCOUNT_DISABLED", Outcome::AccountPaused),
        (400, "AccessDeniedException", Outcome::Environment),
        (400, "UnrecognizedClientException", Outcome::Environment),
        (400, "DESTINATION_COUNTRY_BLOCKED", Outcome::Permanent),
        (400, "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION", Outcome::Permanent),
        (400, "COUNTRY_NOT_ENABLED", Outcome::Permanent),
        (400, "INVALID_PARAMETER", Outcome::Permanent),
        (400, "PRICE_OVER_THRESHOLD", Outcome::Permanent),
        (400, "ValidationException", Outcome::Permanent),
        (500, "InternalServerException", Outcome::Transient),
        (503, "", Outcome::Transient),
    ] {
        assert_eq!(of(status, code), outcome, "{status} {code}");
    }
    for (stage, outcome) in [
        (Stage::NotSent, Outcome::NotSent),
        (Stage::Connect, Outcome::Transient),
        (Stage::AfterWrite, Outcome::Ambiguous),
    ] {
        let failure = Failure { http_status: None, code: None, message: String::new(), stage };
        assert_eq!(classify_text(&failure), outcome);
    }
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(
        text in "[a-z €🌊\"\\\\\n]{1,60}", digits in "[1-9][0-9]{6,14}", id in "[a-z]{1,8}"
    ) {
        prop_assume!(!text.trim().is_empty());
        let to_phone = format!("+{digits}");
        let body = serde_json::json!({ "to_phone": to_phone, "text": text, "id": id }).to_string();
        let read = TextMessage::parse(&body).unwrap();
        prop_assert_eq!((&*read.to, &*read.text, read.id.as_deref()), (&*to_phone, &*text, Some(&*id)));
        prop_assert_eq!(read.parts, TextLength::of(&text).parts);
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in any::<String>(), member in "[a-z_]{1,12}") {
        let _ = TextMessage::parse(&text);
        let mut body = String::new();
        write!(body, r#"{{"to_phone": "{PHONE}", "text": "a", "{member}": {text:?}}}"#).unwrap();
        let _ = TextMessage::parse(&body);
    }
}
