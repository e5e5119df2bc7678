//! `Mailer` and `Account` on AWS End User Messaging (`sms-voice`), for text messages.

mod account;
mod call;
mod send_text_message;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aws_config::SdkConfig;
use serde::de::DeserializeOwned;
use tidegate_core::control::TenantStatus;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::{Account, AccountStatus, Mail, Mailer, Monotonic, PortError};

use crate::aws::clock::SystemClock;
use crate::aws::error::incomplete;
use crate::aws::wire::RequestKind;
use call::{Manner, SmsClient};

/// The time limits of a call with its retries and of one attempt, as of SES's account.
const OPERATION: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_secs(1);

/// Sends text messages, each once: nothing is retried here. Lateness and what was written are known as for
/// [`crate::aws::SesMailer`].
#[derive(Clone, Debug)]
pub struct SmsMailer {
    client: SmsClient,
    clock: SystemClock,
    send_timeout: Duration,
    /// The configuration set of texts that name none.
    configuration_set: Option<String>,
}

impl SmsMailer {
    /// Sends with the region, credentials and HTTP client of `config`. `clock` must be the clock of the `latest` instants
    /// given to [`Mailer::send`]. `send_timeout` is the time from the call to the answer.
    pub fn new(config: &SdkConfig, clock: SystemClock, send_timeout: Duration) -> Self {
        let client = SmsClient::new(config);
        Self { client, clock, send_timeout, configuration_set: None }
    }

    /// Sets the configuration set of texts that name none.
    pub fn with_configuration_set(self, configuration_set: Option<String>) -> Self {
        Self { configuration_set, ..self }
    }
}

impl Mailer for SmsMailer {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        send_text_message::send(self, mail, latest).await
    }

    /// Opens connections by a request that is not sent.
    async fn warm(&self, connections: usize) {
        let manner = Manner::Once(RequestKind::Warm(connections));
        let call = self.client.call("SendTextMessage", "{}".into(), manner);
        // `Wire` ends every such request with an error, by design.
        let _ = tokio::time::timeout(self.send_timeout, call).await;
    }
}

/// The quota of text messages and the month's spend limit.
#[derive(Clone, Debug)]
pub struct SmsAccount {
    client: SmsClient,
    quota: Option<Rate>,
    origin: Option<String>,
}

impl SmsAccount {
    /// The account of `config`'s credentials. Its rate is `quota` in parts per second; without one, that of the phone
    /// number or pool `origin`.
    pub fn new(config: &SdkConfig, quota: Option<Rate>, origin: Option<&str>) -> Self {
        let client = SmsClient::new(config);
        Self { client, quota, origin: origin.map(str::to_owned) }
    }

    /// All records that `operation`, such as `DescribePools`, lists as its `member`, such as `Pools`.
    ///
    /// # Errors
    /// [`PortError`]; also for a record without a member that `T` needs.
    pub async fn list<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        member: &str,
    ) -> Result<Vec<T>, PortError> {
        let records = account::list(&self.client, operation, member).await?;
        let records: Result<Vec<T>, _> = records.into_iter().map(serde_json::from_value).collect();
        records.map_err(|error| incomplete(operation, member, &format!("what is needed: {error}")))
    }
}

impl Account for SmsAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        account::account(self).await
    }

    /// Text messages have no tenants.
    async fn tenant(&self, _: &str) -> Result<Option<TenantStatus>, PortError> {
        Ok(None)
    }
}
