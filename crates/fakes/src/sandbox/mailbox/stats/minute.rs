//! Recipients by whole second, for a chart of the last minute.

use std::collections::VecDeque;

use serde::Serialize;

use crate::sliding_second::SECOND_NS;

const SECONDS: u64 = 60;

/// Recipients that arrived in one whole second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Second {
    /// The second, since the Unix epoch.
    pub second: u64,
    pub accepted: u64,
    pub refused: u64,
}

#[derive(Debug, Default)]
pub(super) struct LastMinute {
    seconds: VecDeque<Second>,
}

impl LastMinute {
    pub(super) fn add(&mut self, now_ns: u64, accepted: u32, refused: u32) {
        let (accepted, refused) = (u64::from(accepted), u64::from(refused));
        let second = now_ns / SECOND_NS;
        match self.seconds.back_mut() {
            Some(last) if last.second >= second => {
                last.accepted += accepted;
                last.refused += refused;
            }
            _ => self.seconds.push_back(Second { second, accepted, refused }),
        }
        while self.seconds.front().is_some_and(|first| first.second + SECONDS < second) {
            self.seconds.pop_front();
        }
    }

    /// The 60 whole seconds before now and the current one, empty ones too.
    pub(super) fn until(&self, now_ns: u64) -> Vec<Second> {
        let now = now_ns / SECOND_NS;
        let mut known = self.seconds.iter().copied().peekable();
        (now.saturating_sub(SECONDS)..=now)
            .map(|second| {
                while known.next_if(|known| known.second < second).is_some() {}
                let empty = Second { second, accepted: 0, refused: 0 };
                known.next_if(|known| known.second == second).unwrap_or(empty)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_shows_every_second_with_gaps_as_zeros() {
        let mut minute = LastMinute::default();
        minute.add(10 * SECOND_NS, 1, 0);
        minute.add(100 * SECOND_NS, 2, 0);
        minute.add(100 * SECOND_NS + 5, 1, 4);
        let shown = minute.until(102 * SECOND_NS);
        assert_eq!(shown.len(), 61);
        assert_eq!(shown[58], Second { second: 100, accepted: 3, refused: 4 });
        assert_eq!(shown[60], Second { second: 102, accepted: 0, refused: 0 });
        assert_eq!(shown.iter().map(|second| second.accepted).sum::<u64>(), 3);
        assert_eq!(minute.seconds.len(), 1, "older seconds are dropped");
    }
}
