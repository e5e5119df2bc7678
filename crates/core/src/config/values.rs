//! Values that are read from one or several variables.

use crate::daily::DailyPolicy;
use crate::rate::Rate;

/// The place where the claim, the control record and the window reports are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerKind {
    /// In the memory of this process; only for local runs, since other processes do not see it.
    Memory,
    /// In the `DynamoDB` table with this name.
    DynamoDb(String),
}

/// The settings that lower the account's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// `TIDEGATE_QUOTA_PER_SECOND`, in recipients per second; `None` leaves the account's quota.
    pub quota: Option<Rate>,
    /// `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`: how the daily quota is used over the day.
    pub daily: DailyPolicy,
}

impl Cap {
    /// The quota in force: the least of the account's quota per second, `TIDEGATE_QUOTA_PER_SECOND`,
    /// and the daily quota spread over the day if `TIDEGATE_DAILY` is `spread`.
    pub fn of(&self, account: Rate, daily_quota: Option<u64>) -> Rate {
        let day = daily_quota.and_then(|quota| self.daily.cap(quota));
        [self.quota, day].into_iter().flatten().fold(account, Rate::min)
    }
}
