//! The mailer and the account of the channel that a stack sends on.

use tidegate_core::control::TenantStatus;
use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::{Account, AccountStatus, Mail, Mailer, Monotonic, PortError};

#[cfg(feature = "sms")]
use crate::aws::sms::{SmsAccount, SmsMailer};
use crate::aws::{SesAccount, SesMailer};

/// Sends through SES, or through AWS End User Messaging.
#[derive(Clone, Debug)]
pub enum ChannelMailer {
    Email(SesMailer),
    #[cfg(feature = "sms")]
    Sms(SmsMailer),
}

/// The quota of SES, or of text messages.
#[derive(Clone, Debug)]
pub enum ChannelAccount {
    Email(SesAccount),
    #[cfg(feature = "sms")]
    Sms(SmsAccount),
}

impl Mailer for ChannelMailer {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        match self {
            Self::Email(mailer) => mailer.send(mail, latest).await,
            #[cfg(feature = "sms")]
            Self::Sms(mailer) => mailer.send(mail, latest).await,
        }
    }

    async fn warm(&self, connections: usize) {
        match self {
            Self::Email(mailer) => mailer.warm(connections).await,
            #[cfg(feature = "sms")]
            Self::Sms(mailer) => mailer.warm(connections).await,
        }
    }
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
