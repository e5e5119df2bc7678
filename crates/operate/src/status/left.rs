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
    /// The mails that were ready and got no slot, by line; `None` if there were none.
    pub fn in_words(&self, message: &str) -> Option<String> {
        let lines =
            [("express", "express"), ("campaigns", "of campaigns"), ("limited", "under limits")];
        let of_line = |line| self.mails.get(line).map_or(0, |mails| mails.values().sum());
        let lines = lines.map(|(line, of)| (of_line(line), of));
        let all: u64 = lines.iter().map(|(mails, _)| mails).sum();
        let some = lines.into_iter().filter(|(mails, _)| *mails > 0);
        let some: Vec<_> = some.map(|(mails, of)| format!("{} {of}", count(mails))).collect();
        let ready = counted(all, message);
        (all > 0).then(|| format!("{ready} got no slot and will go later: {}", some.join(", ")))
    }
}
