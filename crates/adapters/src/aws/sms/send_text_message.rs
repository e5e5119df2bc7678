//! Sends one text by `SendTextMessage`.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::channel::Content;
use tidegate_core::email::ses_tag_value;
use tidegate_core::outcome::Failure;
use tidegate_core::reputation::LIMIT_TAG;
use tidegate_core::text_message::{MessageType, TextMessage};
use tidegate_delivery::ports::{Mail, Monotonic};

use super::SmsMailer;
use super::call::Manner;
use crate::aws::json;
use crate::aws::send::{once, other_channel, unwritable};
use crate::aws::wire::{RequestKind, Ticket};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
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

pub(super) async fn send(
    mailer: &SmsMailer,
    mail: Mail<'_>,
    latest: Monotonic,
) -> Result<String, Failure> {
    let Content::Text(text) = mail.content else { return Err(other_channel()) };
    let ticket = Ticket::new(mailer.clock, latest);
    let request = request(&mail, text, mailer.configuration_set.as_deref());
    let body = json::written(&request, text.text.len()).map_err(|error| unwritable(&error))?;
    let manner = Manner::Once(RequestKind::Send(ticket.clone()));
    let call = mailer.client.call("SendTextMessage", body, manner);
    let answer = once(&ticket, mailer.send_timeout, call).await?;
    Ok(answer["MessageId"].as_str().unwrap_or_default().to_owned())
}

fn request<'a>(
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
