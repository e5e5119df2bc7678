//! The body of a `SendTextMessage` request for one text.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::email::ses_tag_value;
use tidegate_core::reputation::LIMIT_TAG;
use tidegate_core::text_message::{MessageType, TextMessage};
use tidegate_delivery::ports::Mail;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::aws) struct Request<'a> {
    destination_phone_number: &'a str,
    message_body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    origination_identity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set_name: Option<&'a str>,
    /// Custom data, which the events of the message contain: Tidegate's tags and the producer's.
    context: BTreeMap<&'a str, String>,
}

/// The request for the text `text`; `configuration_set` is used if it names none.
pub(in crate::aws) fn request<'a>(
    mail: &Mail<'a>,
    text: &'a TextMessage,
    configuration_set: Option<&'a str>,
) -> Request<'a> {
    let own = [("tidegate_campaign", mail.campaign), ("tidegate_id", mail.id)];
    let own = own.into_iter().chain(mail.limits.map(|limits| (LIMIT_TAG, limits)));
    let own = own.map(|(name, value)| (name, ses_tag_value(value).into_owned()));
    let producers = text.tags.iter().map(|(name, value)| (name.as_str(), value.clone()));
    Request {
        destination_phone_number: &text.to,
        message_body: &text.text,
        origination_identity: text.origination.as_deref(),
        message_type: text.message_type.map(MessageType::as_str).map(str::to_uppercase),
        configuration_set_name: mail
            .through
            .or(text.configuration_set.as_deref())
            .or(configuration_set),
        context: own.chain(producers).collect(),
    }
}
