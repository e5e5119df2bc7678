//! `Mailer` and `Account` on SES v2.

mod content;
mod get_account;
mod send_email;

use std::time::Duration;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_sdk_sesv2::config::timeout::TimeoutConfig;
use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::{Account, AccountStatus, Mail, Mailer, Monotonic, PortError};

use crate::clock::SystemClock;
use crate::wire::RequestKind;

/// What `GetAccount` may take in all: the scheduler asks it once, before its first tick.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(2);
const ACCOUNT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends mail through SES v2, each mail once: the SDK's retries are off.
///
/// On [`crate::Wire`] the lateness of a send is checked as a connection takes the request, and a
/// failure knows whether anything was written. On any other HTTP client it is checked at the SDK's
/// last hook, and whatever fails after that counts as possibly sent.
#[derive(Clone, Debug)]
pub struct SesMailer {
    client: Client,
    clock: SystemClock,
    send_timeout: Duration,
    /// Of mails that name none.
    configuration_set: Option<String>,
}

impl SesMailer {
    /// A mailer on `client`, whose retries and time-outs are replaced. `clock` is the one that the
    /// `latest` instants of [`Mailer::send`] are of; `send_timeout` is what a send may take from the
    /// call to SES's answer.
    pub fn new(client: &Client, clock: SystemClock, send_timeout: Duration) -> Self {
        let config = client.config().to_builder().retry_config(RetryConfig::disabled());
        let config = config.timeout_config(TimeoutConfig::disabled()).build();
        Self { client: Client::from_conf(config), clock, send_timeout, configuration_set: None }
    }

    /// This mailer with a configuration set for mails that name none.
    pub fn with_configuration_set(self, configuration_set: Option<String>) -> Self {
        Self { configuration_set, ..self }
    }
}

impl Mailer for SesMailer {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        send_email::send(self, mail, latest).await
    }

    /// Opens connections to the endpoint the SDK would call, by a request that is not sent.
    async fn warm(&self, connections: usize) {
        let call =
            self.client.get_account().customize().interceptor(RequestKind::Warm(connections));
        // The wire answers every such request with an error.
        let _ = tokio::time::timeout(self.send_timeout, call.send()).await;
    }
}

/// The account, asked of SES v2: within 2 s, with the SDK's standard retries.
#[derive(Clone, Debug)]
pub struct SesAccount {
    client: Client,
}

impl SesAccount {
    /// The account that `client`'s credentials belong to; its retries and time-outs are replaced.
    pub fn new(client: &Client) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_timeout(ACCOUNT_TIMEOUT)
            .operation_attempt_timeout(ACCOUNT_ATTEMPT_TIMEOUT)
            .build();
        let config = client.config().to_builder().retry_config(RetryConfig::standard());
        Self { client: Client::from_conf(config.timeout_config(timeouts).build()) }
    }
}

impl Account for SesAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        get_account::account(&self.client).await
    }
}
