//! The SDK's configuration, read once, and the adapters made of it.

use std::time::Duration;

use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_sdk_sqs::config::StalledStreamProtectionConfig;

use tidegate_core::deferral::Location;

use crate::{
    DynamoLedger, LambdaInvoke, S3DeferralStore, SesAccount, SesMailer, SqsFeedback, SqsQueues,
    SystemClock, Wire,
};

/// The SDK's configuration and the one HTTP client that all adapters share.
#[derive(Clone, Debug)]
pub struct Clients {
    config: SdkConfig,
    sqs: SdkConfig,
    ses: SdkConfig,
}

impl Clients {
    /// Reads the SDK's configuration as everywhere (`AWS_REGION`, `AWS_ENDPOINT_URL`,
    /// `AWS_ENDPOINT_URL_SQS`, profile files, …) and the trusted certificate authorities. Opens no
    /// connection where the environment names a region; credentials are fetched by the first call.
    pub async fn connect() -> Self {
        Self::of(Self::loader().load().await)
    }

    /// What [`Clients::connect`] loads, to be changed before: region, profile, endpoint.
    pub fn loader() -> ConfigLoader {
        aws_config::defaults(BehaviorVersion::latest())
            .http_client(Wire::new())
            // All answers are short and read within their call's time-out.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
    }

    /// The adapters of a configuration that [`Clients::loader`] loaded.
    pub fn of(config: SdkConfig) -> Self {
        Self { sqs: config.clone(), ses: config.clone(), config }
    }

    /// These, with SQS at another endpoint; `None` leaves it.
    pub fn with_sqs_at(self, url: Option<String>) -> Self {
        Self { sqs: at(self.sqs, url), ..self }
    }

    /// These, with SES at another endpoint; `None` leaves it.
    pub fn with_ses_at(self, url: Option<String>) -> Self {
        Self { ses: at(self.ses, url), ..self }
    }

    /// The SDK's configuration for SES.
    pub fn ses_config(&self) -> &SdkConfig {
        &self.ses
    }

    /// The SDK's configuration for SQS.
    pub fn sqs_config(&self) -> &SdkConfig {
        &self.sqs
    }

    /// The SDK's configuration, for any other client.
    pub fn config(&self) -> &SdkConfig {
        &self.config
    }

    /// The queues.
    pub fn queues(&self) -> SqsQueues {
        SqsQueues::new(&aws_sdk_sqs::Client::new(&self.sqs))
    }

    /// The queues, for whoever is not next to SQS; see [`SqsQueues::patient`].
    pub fn patient_queues(&self) -> SqsQueues {
        SqsQueues::patient(&aws_sdk_sqs::Client::new(&self.sqs))
    }

    /// The feedback queue at `url`.
    pub fn feedback(&self, url: &str) -> SqsFeedback {
        SqsFeedback::new(&aws_sdk_sqs::Client::new(&self.sqs), url)
    }

    /// A mailer; see [`SesMailer::new`].
    pub fn mailer(&self, clock: SystemClock, send_timeout: Duration) -> SesMailer {
        SesMailer::new(&aws_sdk_sesv2::Client::new(&self.ses), clock, send_timeout)
    }

    /// The account.
    pub fn account(&self) -> SesAccount {
        SesAccount::new(&aws_sdk_sesv2::Client::new(&self.ses))
    }

    /// The ledger in `table`.
    pub fn ledger(&self, table: impl Into<String>) -> DynamoLedger {
        DynamoLedger::new(&aws_sdk_dynamodb::Client::new(&self.config), table)
    }

    /// Deferred mail at `location`.
    pub fn deferral(&self, location: Location) -> S3DeferralStore {
        // Whoever stands in for S3 at an endpoint of its own has no name a bucket.
        let own = self.config.endpoint_url().is_some();
        let config = aws_sdk_s3::config::Builder::from(&self.config).force_path_style(own).build();
        S3DeferralStore::new(&aws_sdk_s3::Client::from_conf(config), location)
    }

    /// The poller `function`, a name or an ARN.
    pub fn invoke(&self, function: impl Into<String>) -> LambdaInvoke {
        LambdaInvoke::new(&aws_sdk_lambda::Client::new(&self.config), function)
    }
}

fn at(config: SdkConfig, url: Option<String>) -> SdkConfig {
    match url {
        Some(url) => config.into_builder().endpoint_url(url).build(),
        None => config,
    }
}
