//! The account of the channel that a stack sends on.

use tidegate_core::control::TenantStatus;
use tidegate_delivery::ports::{Account, AccountStatus, PortError};

use crate::aws::SesAccount;
#[cfg(feature = "sms")]
use crate::aws::SmsAccount;

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
