//! Sends one mail by `SendEmail`.

use tidegate_core::channel::Content;
use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::{Mail, Monotonic};

use super::{SesMailer, content};
use crate::aws::json;
use crate::aws::send::{once, other_channel, unwritable};
use crate::aws::wire::{RequestKind, Ticket};

pub(super) async fn send(
    mailer: &SesMailer,
    mail: Mail<'_>,
    latest: Monotonic,
) -> Result<String, Failure> {
    let Content::Email(email) = mail.content else { return Err(other_channel()) };
    let ticket = Ticket::new(mailer.clock, latest);
    let request = content::request(&mail, email, mailer.configuration_set.as_deref());
    let body = json::written(&request, content::size(email));
    let body = body.map_err(|error| unwritable(&error))?;
    let call =
        mailer.client.send_email().customize().interceptor(RequestKind::Send(ticket.clone()));
    let call = call.mutate_request(move |request| json::put(&body, request));
    let answer = once(&ticket, mailer.send_timeout, call.send()).await?;
    Ok(answer.message_id.unwrap_or_default())
}

#[cfg(test)]
mod tests;
