//! Recipients of the last 24 hours.

use std::collections::VecDeque;

use crate::sliding_second::SECOND_NS;

const DAY_S: u64 = 86_400;

/// Recipients over the last 24 hours, kept by whole seconds: a second leaves the count at most
/// one second late, and a full day is 86,400 entries however many mails it had.
#[derive(Debug, Clone, Default)]
pub(crate) struct RollingDay {
    seconds: VecDeque<(u64, u64)>,
    recipients: u64,
}

impl RollingDay {
    /// Recipients in the 24 hours before `now_ns`.
    pub(crate) fn recipients(&mut self, now_ns: u64) -> u64 {
        let now = now_ns / SECOND_NS;
        while let Some(&(second, recipients)) = self.seconds.front() {
            if second + DAY_S >= now {
                break;
            }
            self.recipients -= recipients;
            self.seconds.pop_front();
        }
        self.recipients
    }

    pub(crate) fn add(&mut self, now_ns: u64, recipients: u64) {
        let now = now_ns / SECOND_NS;
        self.recipients += recipients;
        match self.seconds.back_mut() {
            Some((second, count)) if *second >= now => *count += recipients,
            _ => self.seconds.push_back((now, recipients)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_leave_the_count_a_day_and_at_most_a_second_later() {
        let mut day = RollingDay::default();
        day.add(SECOND_NS / 2, 5);
        day.add(10 * SECOND_NS, 2);
        assert_eq!(day.recipients(DAY_S * SECOND_NS + SECOND_NS / 2), 7);
        assert_eq!(day.recipients((DAY_S + 1) * SECOND_NS + SECOND_NS / 2), 2);
        assert_eq!(day.recipients((DAY_S + 11) * SECOND_NS), 0);
    }
}
