use std::future::Future;

use super::PortError;

/// What SES says of the account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountStatus {
    /// `MaxSendRate`, recipients a second.
    pub max_send_rate: f64,
    /// `Max24HourSend`, recipients; -1 where there is no limit.
    pub max_24_hour_send: f64,
    /// `SentLast24Hours`, recipients.
    pub sent_last_24_hours: f64,
    /// `SendingEnabled`: false while SES has paused the account.
    pub sending_enabled: bool,
}

/// The account's quota and state.
pub trait Account {
    /// Asks SES (`GetAccount`).
    ///
    /// # Errors
    /// [`PortError`] when there is no answer.
    fn account(&self) -> impl Future<Output = Result<AccountStatus, PortError>>;
}
