//! `Mailer`, `Account` and `SuppressionList` on SES v2.

mod account;
#[cfg(test)]
mod account_tests;
mod content;
mod send_email;
mod suppression;

use std::time::Duration;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_sdk_sesv2::config::timeout::TimeoutConfig;
use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::{Mail, Mailer, Monotonic};

use crate::aws::clock::SystemClock;
use crate::aws::wire::RequestKind;
pub use account::SesAccount;
pub use suppression::SesSuppressionList;

/// Sends mail through SES v2, each mail once: the SDK's retries are off.
///
/// On [`crate::aws::Wire`] the lateness of a send is checked when a connection takes the request, and after a
/// failure it is known whether anything was written. On any other HTTP client the lateness is checked at the
/// SDK's last hook, and any later failure counts as possibly sent.
#[derive(Clone, Debug)]
pub struct SesMailer {
    client: Client,
    clock: SystemClock,
    send_timeout: Duration,
    /// The configuration set of mails that name none.
    configuration_set: Option<String>,
}

impl SesMailer {
    /// Sends through `client`, whose retries and time limits are replaced. `clock` must be the clock of the
    /// `latest` instants given to [`Mailer::send`]. `send_timeout` is the time from the call to SES's
    /// answer.
    pub fn new(client: &Client, clock: SystemClock, send_timeout: Duration) -> Self {
        let config = client.config().to_builder().retry_config(RetryConfig::disabled());
        let config = config.timeout_config(TimeoutConfig::disabled()).build();
        Self { client: Client::from_conf(config), clock, send_timeout, configuration_set: None }
    }

    /// Sets the configuration set of mails that name none.
    pub fn with_configuration_set(self, configuration_set: Option<String>) -> Self {
        Self { configuration_set, ..self }
    }
}

impl Mailer for SesMailer {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        send_email::send(self, mail, latest).await
    }

    /// Opens connections to the endpoint that the SDK would call, by a request that is not sent.
    async fn warm(&self, connections: usize) {
        let call =
            self.client.get_account().customize().interceptor(RequestKind::Warm(connections));
        // `Wire` ends every such request with an error, by design.
        let _ = tokio::time::timeout(self.send_timeout, call.send()).await;
    }
}
