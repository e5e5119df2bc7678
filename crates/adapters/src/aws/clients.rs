//! Reads the SDK's configuration once and creates the adapters from it.

use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_sdk_sqs::config::StalledStreamProtectionConfig;
use tidegate_core::channel::Channel;
use tidegate_core::config::{Cap, PollerConfig};
use tidegate_core::control::TenantStatus;
use tidegate_core::store::Location;
use tidegate_core::text_message::Origins;
use tidegate_delivery::ports::{Account, AccountStatus, PortError};

#[cfg(feature = "sms")]
use super::SmsAccount;
use super::{
    AwsMailer, DynamoLedger, EventBus, LambdaInvoke, S3Store, SesAccount, SesSuppressionList,
    SnsTopic, SqsQueues, SystemClock, TraceEndpoint, Wire,
};

/// The SDK's configuration and the one HTTP client that all adapters share.
#[derive(Clone, Debug)]
pub struct Clients {
    config: SdkConfig,
    sqs: SdkConfig,
    ses: SdkConfig,
}

impl Clients {
    /// Reads the SDK's configuration from its usual sources (`AWS_REGION`, `AWS_ENDPOINT_URL`,
    /// `AWS_ENDPOINT_URL_SQS`, profile files, …) and loads the trusted certificate authorities. It opens no
    /// connection if the environment names a region; the first call fetches the credentials.
    pub async fn connect() -> Self {
        Self::of(Self::loader().load().await)
    }

    /// The loader that [`Clients::connect`] uses. Callers may set region, profile or endpoint before they
    /// load it.
    pub fn loader() -> ConfigLoader {
        aws_config::defaults(BehaviorVersion::latest())
            .http_client(Wire::new())
            // Answers are short, and every call has its own time limit.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
    }

    /// Creates the clients from a configuration that [`Clients::loader`] has loaded.
    pub fn of(config: SdkConfig) -> Self {
        Self { sqs: config.clone(), ses: config.clone(), config }
    }

    /// Replaces the endpoint of SQS; `None` keeps it.
    pub fn with_sqs_at(self, url: Option<String>) -> Self {
        Self { sqs: at(self.sqs, url), ..self }
    }

    /// Replaces the endpoint of SES; `None` keeps it.
    pub fn with_ses_at(self, url: Option<String>) -> Self {
        Self { ses: at(self.ses, url), ..self }
    }

    /// The SDK's configuration for SES, with its endpoint.
    pub fn ses_config(&self) -> &SdkConfig {
        &self.ses
    }

    /// The SDK's configuration for SQS, with its endpoint.
    pub fn sqs_config(&self) -> &SdkConfig {
        &self.sqs
    }

    /// The SDK's configuration for all other services.
    pub fn config(&self) -> &SdkConfig {
        &self.config
    }

    pub fn queues(&self) -> SqsQueues {
        SqsQueues::new(&aws_sdk_sqs::Client::new(&self.sqs))
    }

    /// Queues with long time limits, for a caller with a slow connection to SQS; see [`SqsQueues::patient`].
    pub fn patient_queues(&self) -> SqsQueues {
        SqsQueues::patient(&aws_sdk_sqs::Client::new(&self.sqs))
    }

    /// Creates the mailer of the poller's channel; see [`AwsMailer::email`].
    pub fn mailer(&self, poller: &PollerConfig, clock: SystemClock) -> AwsMailer {
        let limit = poller.send_timeout;
        let mailer = match poller.rules.channel {
            #[cfg(feature = "sms")]
            Channel::Sms => AwsMailer::texts(&self.ses, clock, limit),
            _ => AwsMailer::email(&aws_sdk_sesv2::Client::new(&self.ses), clock, limit),
        };
        mailer.with_configuration_set(poller.configuration_set.clone())
    }

    /// The account of a channel. The quota of text messages is the configured one (`cap`), or that of the first origin.
    #[cfg_attr(not(feature = "sms"), expect(unused_variables, reason = "SES tells its quota"))]
    pub fn account(&self, channel: Channel, cap: &Cap, origins: &Origins) -> ChannelAccount {
        match channel {
            #[cfg(feature = "sms")]
            Channel::Sms => ChannelAccount::Sms(crate::aws::SmsAccount::new(
                &self.ses,
                cap.quota,
                origins.0.first().map(String::as_str),
            )),
            _ => ChannelAccount::Email(self.ses_account()),
        }
    }

    /// SES's account, whatever the stack's channel is.
    pub fn ses_account(&self) -> SesAccount {
        SesAccount::new(&aws_sdk_sesv2::Client::new(&self.ses))
    }

    /// The suppression list that counts for the mail of a tenant, or for mail without one.
    ///
    /// # Errors
    /// As those of [`SesSuppressionList::of_tenant`].
    pub async fn suppression_list(
        &self,
        tenant: Option<&str>,
    ) -> Result<SesSuppressionList, PortError> {
        SesSuppressionList::new(aws_sdk_sesv2::Client::new(&self.ses)).of_tenant(tenant).await
    }

    pub fn ledger(&self, table: impl Into<String>) -> DynamoLedger {
        DynamoLedger::new(&aws_sdk_dynamodb::Client::new(&self.config), table)
    }

    pub fn store(&self, location: Location) -> S3Store {
        // An endpoint that stands in for S3 has no host name per bucket, so the bucket is put into the path.
        let own = self.config.endpoint_url().is_some();
        let config = aws_sdk_s3::config::Builder::from(&self.config).force_path_style(own).build();
        S3Store::new(&aws_sdk_s3::Client::from_conf(config), location)
    }

    /// The SNS topic with the ARN `arn`.
    pub fn topic(&self, arn: impl Into<String>) -> SnsTopic {
        SnsTopic::new(&aws_sdk_sns::Client::new(&self.config), arn)
    }

    /// The OTLP endpoint at `url`.
    pub fn traces(&self, url: impl Into<String>) -> TraceEndpoint {
        TraceEndpoint::new(&self.config, url)
    }

    /// The EventBridge bus with this name.
    pub fn event_bus(&self, name: impl Into<String>) -> EventBus {
        EventBus::new(&self.config, name)
    }

    /// The monitoring service, for the stack `stack` with the names of scheduler and poller.
    #[cfg(feature = "cloudwatch")]
    pub fn monitor(&self, stack: &str, functions: [String; 2]) -> crate::aws::CloudWatch {
        crate::aws::CloudWatch::new(
            &aws_sdk_cloudwatch::Client::new(&self.config),
            stack,
            functions,
        )
    }

    /// Invokes the poller `function`, given by name or ARN.
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

/// The quota of SES, or of text messages.
#[derive(Clone, Debug)]
pub enum ChannelAccount {
    Email(SesAccount),
    #[cfg(feature = "sms")]
    Sms(SmsAccount),
}

impl Account for ChannelAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        match self {
            Self::Email(account) => account.account().await,
            #[cfg(feature = "sms")]
            Self::Sms(account) => account.account().await,
        }
    }

    async fn tenant(&self, name: &str) -> Result<Option<TenantStatus>, PortError> {
        match self {
            Self::Email(account) => account.tenant(name).await,
            #[cfg(feature = "sms")]
            Self::Sms(account) => account.tenant(name).await,
        }
    }
}
