//! Messages of other systems with the mail inside them, or elsewhere: SNS, EventBridge, job queues. Their bodies are no
//! mails, and what they call `id` is not the mail's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::error::{EmailError, EmailErrorKind};

/// The members by which a system's messages are known, and what a producer does about them.
const SYSTEMS: [(&[&str], &str); 11] = [
    (
        &["Type", "TopicArn", "SubscribeURL"],
        "a request of SNS to confirm a subscription: confirm it, and turn on raw message delivery",
    ),
    (&["Type", "TopicArn", "Message"], "an SNS notification: turn on raw message delivery"),
    (
        &["detail-type", "source", "detail"],
        "an EventBridge event: give the rule's target the input path $.detail",
    ),
    (
        &["requestContext", "requestPayload"],
        "a record of a Lambda function's destination: send the payload alone",
    ),
    (&["Records"], "an event notification of an AWS service: a function has to make a mail of it"),
    (&["eventType", "mail"], "SES's report on a mail: this queue is for mails to be sent"),
    (&["notificationType", "mail"], "SES's report on a mail: this queue is for mails to be sent"),
    (&["body", "headers", "properties"], "a task of Celery: send the body with an SQS client"),
    (&["job", "data"], "a job of Laravel's queue: send the body with an SQS client"),
    (&["job_class", "arguments"], "a job of Active Job: send the body with an SQS client"),
    (&["body", "headers"], "a message of Symfony Messenger: send the body with an SQS client"),
];

/// The names with which the extended client's pointers begin.
const POINTERS: [&str; 2] = [
    "software.amazon.payloadoffloading.PayloadS3Pointer",
    "com.amazon.sqs.javamessaging.MessageS3Pointer",
];

/// If a body is another system's message: which one, and what a producer does about it.
pub(super) fn system(body: &str) -> Option<&'static str> {
    match serde_json::from_str(body) {
        Ok(Value::Object(members)) => of_members(&members),
        Ok(Value::Array(items)) => {
            let name = items.first().and_then(Value::as_str)?;
            POINTERS.contains(&name).then_some(
                "a pointer of the SQS extended client to S3: send the body without that client, at most 1 MiB of it",
            )
        }
        Ok(Value::String(text)) => is_object(text.as_bytes())
            .then_some("JSON within a JSON text: it was encoded twice, encode it once"),
        Ok(_) => None,
        Err(_) => STANDARD
            .decode(body.trim())
            .is_ok_and(|decoded| is_object(&decoded))
            .then_some("Base64 of JSON: send the JSON itself"),
    }
}

fn of_members(members: &Map<String, Value>) -> Option<&'static str> {
    // A message of ours, with a fault of its own.
    const OWN: [&str; 5] = ["to", "to_address", "to_phone", "from", "from_address"];
    if OWN.iter().any(|name| members.contains_key(*name)) {
        return None;
    }
    let has = |names: &[&str]| names.iter().all(|name| members.contains_key(*name));
    SYSTEMS.iter().find(|(names, _)| has(names)).map(|(_, what)| *what)
}

fn is_object(text: &[u8]) -> bool {
    serde_json::from_slice::<Map<String, Value>>(text).is_ok()
}

/// The error for a body that is no mail: that it is another system's message, or `error`.
pub(crate) fn named(body: &str, error: EmailError) -> EmailError {
    match system(body) {
        Some(what) => {
            let problem = format!("must be the message itself, and is {what}");
            EmailError::new(EmailErrorKind::Wrapped, "body", problem)
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Channel, Content};
    use crate::email::id_of;

    #[test]
    fn a_message_of_another_system_is_named_with_the_remedy_and_its_id_is_not_the_mails() {
        let mail = r#"{"id": "w-1", "to": "ada@example.com", "from": "news@example.org", "subject": "Hello", "text": "T."}"#;
        let quoted = serde_json::to_string(mail).unwrap();
        let base64 = STANDARD.encode(mail);
        for (body, named) in [
            (
                format!(
                    r#"{{"Type": "Notification", "MessageId": "1", "TopicArn": "arn:t", "Message": {quoted}}}"#
                ),
                "turn on raw message delivery",
            ),
            (
                format!(
                    r#"{{"id": "0", "detail-type": "Mail", "source": "shop", "detail": {mail}}}"#
                ),
                "input path $.detail",
            ),
            (format!(r#"["{}", {{"s3BucketName": "b", "s3Key": "k"}}]"#, POINTERS[0]), "to S3"),
            (quoted.clone(), "encoded twice"),
            (base64.clone(), "Base64 of JSON"),
            (
                format!(r#"{{"body": "{base64}", "headers": {{}}, "properties": {{}}}}"#),
                "a task of Celery",
            ),
            (format!(r#"{{"id": "9", "job": "Send", "data": {mail}}}"#), "Laravel"),
        ] {
            for channel in [Channel::Email, Channel::Sms] {
                let error = Content::parse(channel, &body).unwrap_err();
                assert_eq!(error.kind.code(), "WrappedMessage", "{body}");
                assert!(error.redacted().contains(named), "{error}");
            }
            assert_eq!(id_of(&body), None, "{body}");
        }
        assert!(Content::parse(Channel::Email, mail).is_ok());
        let mixed = r#"{"to_address": "a@b.c", "body": "T", "headers": {}}"#;
        for other in ["{", "7", "[]", r#""a text""#, r#"{"to": "nobody"}"#, "bm90IGpzb24=", mixed] {
            assert_eq!(system(other), None, "{other}");
        }
    }
}
