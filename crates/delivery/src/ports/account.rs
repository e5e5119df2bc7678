use std::future::Future;

use tidegate_core::control::TenantStatus;

use super::PortError;

/// SES's answer to `GetAccount`, as far as Tidegate uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountStatus {
    /// `MaxSendRate`: the quota in recipients per second, such as 14.0.
    pub max_send_rate: f64,
    /// `Max24HourSend`: recipients per 24 hours, such as 50,000.0; -1 if there is no limit.
    pub max_24_hour_send: f64,
    /// `SentLast24Hours`: recipients sent to in the last 24 hours.
    pub sent_last_24_hours: f64,
    /// `SendingEnabled`: false while SES does not let the account send.
    pub sending_enabled: bool,
    /// The most that text messages may cost in a month, in US dollars; none for e-mail.
    pub spend_limit: Option<u64>,
}

/// Access to the quota and state of the account, and to the state of its tenants.
pub trait Account {
    /// Calls SES's `GetAccount`.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer or refuses.
    fn account(&self) -> impl Future<Output = Result<AccountStatus, PortError>>;

    /// Asks SES whether a tenant may send, and for its associated resources; `None` if there is no such tenant.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer or refuses.
    fn tenant(&self, name: &str) -> impl Future<Output = Result<Option<TenantStatus>, PortError>>;
}
