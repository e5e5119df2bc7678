use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::email::Priority;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limiter::WindowLeft;

use crate::format::{count, counted};

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

impl LeftStatus {
    /// The mails of each line and of each priority that are not 0, such as `3 mails: 1 express, 2 of campaigns (1
    /// high, 2 normal)`.
    pub fn in_words(&self, message: &str) -> String {
        let lines =
            [("express", "express"), ("campaigns", "of campaigns"), ("limited", "under limits")];
        let of_line = |line| self.mails.get(line).map_or(0, |mails| mails.values().sum());
        let of_priority = |priority: Priority| -> u64 {
            self.mails.values().filter_map(|mails| mails.get(priority.as_str())).sum()
        };
        let listed = |parts: Vec<(u64, &str)>| {
            let some = parts.into_iter().filter(|(mails, _)| *mails > 0);
            some.map(|(mails, of)| format!("{} {of}", count(mails))).collect::<Vec<_>>().join(", ")
        };
        let by_line: Vec<(u64, &str)> =
            lines.into_iter().map(|(line, of)| (of_line(line), of)).collect();
        let all = by_line.iter().map(|(mails, _)| mails).sum();
        let slots = format!("{} left", counted(self.slots, "slot"));
        if all == 0 {
            return format!("{slots}, no {message} waits for one");
        }
        let by_priority =
            Priority::ALL.map(|priority| (of_priority(priority), priority.as_str())).to_vec();
        let (by_line, by_priority) = (listed(by_line), listed(by_priority));
        format!("{slots}; {} without: {by_line} ({by_priority})", counted(all, message))
    }
}
