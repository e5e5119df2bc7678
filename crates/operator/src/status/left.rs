use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::email::Priority;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limiter::WindowLeft;

/// The slots of a window that no mail took, and the mails that were received for it and got none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftStatus {
    pub window: EpochMillis,
    pub slots: u64,
    /// By line (`express`, `campaigns`, `limited`: from limit queues), and in it by priority.
    pub mails: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
}

impl From<WindowLeft> for LeftStatus {
    fn from(left: WindowLeft) -> Self {
        let priorities = Priority::ALL.map(Priority::as_str);
        let line =
            |(line, mails): (_, [u64; 4])| (line, priorities.into_iter().zip(mails).collect());
        Self {
            window: left.window.opens().into(),
            slots: left.slots,
            mails: left.mails.by_line().map(line).into(),
        }
    }
}
