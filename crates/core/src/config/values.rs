//! Values of more than one variable.

use crate::daily::DailyPolicy;
use crate::rate::Rate;

/// Where claim, control record and reports stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerKind {
    /// In this process: one environment only, for local runs.
    Memory,
    /// In the `DynamoDB` table of this name.
    DynamoDb(String),
}

/// What caps the account's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// `TIDEGATE_QUOTA_PER_SECOND`.
    pub quota: Option<Rate>,
    /// `TIDEGATE_DAILY` and `TIDEGATE_DAILY_RESERVE`.
    pub daily: DailyPolicy,
}

impl Cap {
    /// The quota in force, of an account with this quota a second and this daily quota, if any.
    pub fn of(&self, account: Rate, daily_quota: Option<u64>) -> Rate {
        let day = daily_quota.and_then(|quota| self.daily.cap(quota));
        [self.quota, day].into_iter().flatten().fold(account, Rate::min)
    }
}
