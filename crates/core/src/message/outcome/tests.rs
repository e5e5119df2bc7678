use proptest::prelude::*;

use super::*;
use crate::channel::{Channel, Content};

fn answered(status: u16, code: &str, message: &str) -> Failure {
    Failure {
        http_status: Some(status),
        code: (!code.is_empty()).then(|| code.to_owned()),
        message: message.to_owned(),
        stage: Stage::Answered,
    }
}

/// One row for each case that SES documents or was observed to answer.
const ROWS: &[(u16, &str, &str, Outcome)] = &[
    // The account's rate.
    (429, "TooManyRequestsException", "Maximum sending rate exceeded.", Outcome::RateExceeded),
    (400, "TooManyRequestsException", "Maximum sending rate exceeded.", Outcome::RateExceeded),
    (400, "Throttling", "Maximum sending rate exceeded.", Outcome::RateExceeded),
    (429, "ThrottlingException", "Rate exceeded", Outcome::RateExceeded),
    (400, "ThrottlingException", "", Outcome::RateExceeded),
    (400, "LimitExceededException", "Maximum sending rate exceeded.", Outcome::RateExceeded),
    (400, "MessageRejected", "Maximum sending rate exceeded.", Outcome::RateExceeded),
    (503, "SlowDown", "Please reduce your request rate.", Outcome::RateExceeded),
    (429, "", "", Outcome::RateExceeded),
    (429, "SomethingNew", "whatever", Outcome::RateExceeded),
    // The daily quota.
    (429, "TooManyRequestsException", "Daily message quota exceeded.", Outcome::DailyQuotaExceeded),
    (400, "Throttling", "Daily message quota exceeded.", Outcome::DailyQuotaExceeded),
    (400, "ThrottlingException", "DAILY MESSAGE QUOTA EXCEEDED", Outcome::DailyQuotaExceeded),
    (400, "LimitExceededException", "Daily message quota exceeded.", Outcome::DailyQuotaExceeded),
    (400, "MessageRejected", "Daily message quota exceeded.", Outcome::DailyQuotaExceeded),
    (429, "", "Daily message quota exceeded", Outcome::DailyQuotaExceeded),
    // The account is paused.
    (400, "SendingPausedException", "", Outcome::AccountPaused),
    (400, "AccountSuspendedException", "", Outcome::AccountPaused),
    (400, "AccountSendingPausedException", "", Outcome::AccountPaused),
    (
        400,
        "MessageRejected",
        "Sending paused for this account. For more information, please check \
        the inbox of the email address associated with your AWS account.",
        Outcome::AccountPaused,
    ),
    (400, "MessageRejected", "Sending suspended for this account.", Outcome::AccountPaused),
    (400, "MessageRejected", "Email sending for the account is paused.", Outcome::AccountPaused),
    (403, "AccountSuspendedException", "", Outcome::AccountPaused),
    // The environment's token, signature or clock.
    (401, "", "", Outcome::Environment),
    (403, "", "", Outcome::Environment),
    (403, "AccessDeniedException", "Access denied by the proxy", Outcome::Environment),
    (400, "AccessDeniedException", "", Outcome::Environment),
    (403, "InvalidClientTokenId", "", Outcome::Environment),
    (403, "SignatureDoesNotMatch", "", Outcome::Environment),
    (403, "ExpiredTokenException", "", Outcome::Environment),
    (
        403,
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
        Outcome::Environment,
    ),
    (
        403,
        "InvalidSignatureException",
        "Signature expired: 20261120T203607Z is now earlier than 20261120T203707Z",
        Outcome::Environment,
    ),
    (400, "ExpiredTokenException", "", Outcome::Environment),
    (400, "IncompleteSignature", "", Outcome::Environment),
    (400, "RequestExpired", "", Outcome::Environment),
    (403, "OptInRequired", "", Outcome::Environment),
    // What the mail names and SES does not have, or denies.
    (
        403,
        "AccessDeniedException",
        "User: arn:aws:sts::123456789012:assumed-role/poller/poller is not authorized to perform: ses:SendEmail on \
        resource: arn:aws:ses:eu-west-1:123456789012:identity/example.org because no identity-based policy allows it",
        Outcome::NotReady,
    ),
    (
        403,
        "AccessDenied",
        "User `arn:aws:iam::1:role/p' is not authorized to perform `ses:SendEmail' on resource \
        `arn:aws-cn:ses:cn-north-1:1:identity/example.org'",
        Outcome::NotReady,
    ),
    (
        400,
        "MessageRejected",
        "Email address is not verified. The following identities failed the \
        check in region US-EAST-1: news@example.org",
        Outcome::NotReady,
    ),
    (400, "MessageRejected", "Email address not verified \"news@example.org\"", Outcome::NotReady),
    (400, "MailFromDomainNotVerifiedException", "", Outcome::NotReady),
    (400, "MailFromDomainNotVerified", "", Outcome::NotReady),
    (404, "NotFoundException", "Template welcome does not exist", Outcome::NotReady),
    (404, "NotFoundException", "", Outcome::NotReady),
    (400, "BadRequestException", "Template welcome does not exist", Outcome::NotReady),
    (400, "TemplateDoesNotExistException", "", Outcome::NotReady),
    (400, "ConfigurationSetDoesNotExist", "", Outcome::NotReady),
    (400, "BadRequestException", "Configuration set <news> does not exist.", Outcome::NotReady),
    (400, "ConfigurationSetSendingPausedException", "", Outcome::NotReady),
    (400, "SendingPausedException", "Sending paused for configuration set news", Outcome::NotReady),
    // Refusals of the mail itself.
    (400, "MessageRejected", "Email contains invalid content", Outcome::Permanent),
    (400, "MessageRejected", "Address blacklisted.", Outcome::Permanent),
    (400, "MessageRejected", "", Outcome::Permanent),
    // SES repeats what a producer wrote: it says nothing about the account.
    (400, "BadRequestException", "Your account has been suspended", Outcome::Permanent),
    (400, "BadRequestException", "Illegal address: account.paused@example.com", Outcome::Permanent),
    (400, "InvalidParameterValue", "Sending paused <a@example.com>", Outcome::Permanent),
    (400, "BadRequestException", "Maximum sending rate exceeded <a@b>", Outcome::Permanent),
    (
        400,
        "MessageRejected",
        "Invalid content: Daily message quota exceeded, sending paused for this account",
        Outcome::Permanent,
    ),
    (400, "BadRequestException", "Missing final '@domain'", Outcome::Permanent),
    (400, "BadRequestException", "Template contains unsupported operations.", Outcome::Permanent),
    (400, "InvalidParameterValue", "Domain contains dot-dot", Outcome::Permanent),
    (400, "ValidationException", "", Outcome::Permanent),
    (400, "", "", Outcome::Permanent),
    (409, "ConflictException", "", Outcome::Permanent),
    (413, "RequestEntityTooLargeException", "", Outcome::Permanent),
    (418, "SomethingNew", "", Outcome::Permanent),
    // Faults that pass.
    (500, "InternalServiceErrorException", "", Outcome::Transient),
    (500, "InternalFailure", "", Outcome::Transient),
    (500, "ConcurrentModificationException", "", Outcome::Transient),
    (502, "", "", Outcome::Transient),
    (503, "ServiceUnavailable", "", Outcome::Transient),
    (504, "", "Email address is not verified", Outcome::Transient),
    (408, "RequestTimeoutException", "", Outcome::Transient),
    (400, "RequestAbortedException", "", Outcome::Transient),
    (302, "", "", Outcome::Transient),
    // Accepted mail whose answer could not be read.
    (200, "", "", Outcome::Ambiguous),
];

#[test]
fn every_documented_answer_has_its_outcome() {
    for &(status, code, message, expected) in ROWS {
        let found = classify(&answered(status, code, message));
        assert_eq!(found, expected, "{status} {code} {message}");
    }
}

#[test]
fn neither_case_nor_namespace_nor_url_of_a_code_matters() {
    for &(status, code, message, expected) in ROWS {
        for code in [
            code.to_uppercase(),
            code.to_lowercase(),
            format!("com.amazonaws.sesv2#{code}"),
            format!("{code}:http://internal.amazon.com/coral/com.amazonaws.sesv2/"),
        ] {
            let found = classify(&answered(status, &code, &message.to_uppercase()));
            assert_eq!(found, expected, "{status} {code} {message}");
        }
    }
}

#[test]
fn without_a_status_the_code_decides_and_without_both_the_mail_may_be_sent() {
    let of_code = |code: Option<&str>| {
        classify(&Failure {
            http_status: None,
            code: code.map(str::to_owned),
            message: String::new(),
            stage: Stage::Answered,
        })
    };
    assert_eq!(of_code(Some("TooManyRequestsException")), Outcome::RateExceeded);
    assert_eq!(of_code(Some("MessageRejected")), Outcome::Permanent);
    assert_eq!(of_code(Some("ExpiredToken")), Outcome::Environment);
    assert_eq!(of_code(Some("InternalFailure")), Outcome::Transient);
    assert_eq!(of_code(None), Outcome::Ambiguous);
}

#[test]
fn what_may_be_a_tenants_problem_is_not_the_accounts() {
    const DENIED: &str = "User: arn:aws:iam::123456789012:role/poller is not authorized to perform: ses:SendEmail \
        on resource: arn:aws:ses:eu-west-1:123456789012:tenant/acme/tn-1";
    let lacks =
        "Tenant not associated with resources [arn:aws:ses:eu-west-1:1:configuration-set/news].";
    let unknown = "Tenant acme for AwsAccountId 123456789012 not found.";
    let unverified = "Email address is not verified. The following identities failed the check in region \
        EU-WEST-1: tenant@example.org";
    for (status, code, message, with, without) in [
        (403, "AccessDeniedException", lacks, Outcome::Tenant, Outcome::NotReady),
        (403, "AccessDeniedException", "Tenant paused.", Outcome::Tenant, Outcome::Environment),
        (403, "AccessDenied", DENIED, Outcome::NotReady, Outcome::NotReady),
        (403, "AccessDenied", "", Outcome::NotReady, Outcome::Environment),
        (404, "NotFoundException", unknown, Outcome::Tenant, Outcome::NotReady),
        (
            404,
            "NotFoundException",
            "Template x does not exist",
            Outcome::NotReady,
            Outcome::NotReady,
        ),
        (400, "SendingPausedException", "", Outcome::Tenant, Outcome::AccountPaused),
        (
            400,
            "MessageRejected",
            "Sending paused for this account.",
            Outcome::Tenant,
            Outcome::AccountPaused,
        ),
        (
            400,
            "BadRequestException",
            "The tenant is disabled.",
            Outcome::Tenant,
            Outcome::Permanent,
        ),
        (400, "MessageRejected", unverified, Outcome::NotReady, Outcome::NotReady),
        (400, "MessageRejected", "to tenant@example.org", Outcome::Permanent, Outcome::Permanent),
        (403, "InvalidClientTokenId", "", Outcome::Environment, Outcome::Environment),
        (403, "", "", Outcome::Environment, Outcome::Environment),
        (429, "TooManyRequestsException", "", Outcome::RateExceeded, Outcome::RateExceeded),
        (500, "InternalFailure", "tenant", Outcome::Transient, Outcome::Transient),
    ] {
        let failure = answered(status, code, message);
        let found = (classify_for_tenant(&failure), classify(&failure));
        assert_eq!(found, (with, without), "{failure:?}");
    }
}

fn failures() -> impl Strategy<Value = Failure> {
    let codes: Vec<String> = ROWS.iter().map(|row| row.1.to_owned()).collect();
    let messages: Vec<String> = ROWS.iter().map(|row| row.2.to_owned()).collect();
    let code = prop_oneof![proptest::sample::select(codes), any::<String>()];
    let message = prop_oneof![proptest::sample::select(messages), any::<String>()];
    let status = proptest::option::of(prop_oneof![100_u16..600, any::<u16>()]);
    let stage = proptest::sample::select(vec![
        Stage::NotSent,
        Stage::Connect,
        Stage::AfterWrite,
        Stage::Answered,
    ]);
    (status, proptest::option::of(code), message, stage).prop_map(
        |(http_status, code, message, stage)| Failure { http_status, code, message, stage },
    )
}

proptest! {
    #[test]
    fn a_server_fault_never_dead_letters_and_only_a_refusal_does(failure in failures()) {
        let outcome = classify(&failure);
        if outcome == Outcome::Permanent {
            prop_assert_eq!(failure.stage, Stage::Answered);
            prop_assert!(failure.http_status.is_none_or(|s| (400..500).contains(&s)));
        }
    }

    #[test]
    fn what_never_left_us_is_never_called_sent(failure in failures()) {
        let outcome = classify(&failure);
        match failure.stage {
            Stage::NotSent => prop_assert_eq!(outcome, Outcome::NotSent),
            Stage::Connect => prop_assert_eq!(outcome, Outcome::Transient),
            Stage::AfterWrite => prop_assert!(outcome.possibly_sent()),
            Stage::Answered => prop_assert_ne!(outcome, Outcome::NotSent),
        }
    }

    #[test]
    fn permission_refused_never_dead_letters_at_once(
        status in prop_oneof![Just(401_u16), Just(403), Just(429)],
        failure in failures(),
    ) {
        let failure = Failure { http_status: Some(status), stage: Stage::Answered, ..failure };
        prop_assert_ne!(classify(&failure), Outcome::Permanent);
    }

    #[test]
    fn whatever_a_producer_wrote_an_unknown_code_stops_neither_account_nor_environment(
        code in "[a-z]{1,12}", before in ".{0,20}", text in proptest::sample::select(
            ROWS.iter().map(|row| row.2).collect::<Vec<_>>(),
        ),
    ) {
        let outcome = classify(&answered(400, &format!("x{code}"), &format!("{before}{text}")));
        prop_assert!(matches!(outcome, Outcome::Permanent | Outcome::NotReady), "{outcome:?}");
    }
}

#[test]
fn only_a_mail_whose_recipients_ses_names_is_refused_for_good() {
    let mail =
        r#"{"to": "ada@example.com", "from": "news@example.org", "subject": "S", "text": "T"}"#;
    let mail = Content::parse(Channel::Email, mail).unwrap();
    let said = |named: &str| {
        let message = format!(
            "Email address is not verified. The following identities failed the check in region EU-WEST-1: {named}"
        );
        mail.classify(&answered(400, "MessageRejected", &message), None)
    };
    assert_eq!(said("news@example.org"), Outcome::NotReady);
    assert_eq!(said("ada@example.com"), Outcome::Permanent);
}
