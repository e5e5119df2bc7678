//! The quota a run goes by: what SES says, under the configured cap.

use tidegate_core::rate::Rate;

/// The quota in force: the account's, capped.
///
/// A `MaxSendRate` above 10,000 counts as 10,000; one that is no rate (0, in an account that may
/// not send) gives none.
#[must_use]
pub fn capped(max_send_rate: f64, cap: Option<Rate>) -> Option<Rate> {
    let account = Rate::per_second(max_send_rate.min(Rate::MAX.as_per_second())).ok()?;
    Some(cap.map_or(account, |cap| cap.min(account)))
}

/// The quota where SES does not tell it: the last known, else the cap, else nothing is sent.
#[must_use]
pub fn fallback(last_known: Option<Rate>, cap: Option<Rate>) -> Option<Rate> {
    match (last_known, cap) {
        (Some(known), Some(cap)) => Some(known.min(cap)),
        (known, cap) => known.or(cap),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(value: f64) -> Rate {
        Rate::per_second(value).unwrap()
    }

    #[test]
    fn the_cap_lowers_the_quota_and_never_raises_it() {
        assert_eq!(capped(14.0, None), Some(rate(14.0)));
        assert_eq!(capped(14.0, Some(rate(5.0))), Some(rate(5.0)));
        assert_eq!(capped(14.0, Some(rate(50.0))), Some(rate(14.0)));
        assert_eq!(capped(0.0, Some(rate(50.0))), None);
        assert_eq!(capped(50_000.0, None), Some(Rate::MAX));
    }

    #[test]
    fn without_an_answer_the_last_known_quota_counts_then_the_cap_then_none() {
        assert_eq!(fallback(Some(rate(14.0)), Some(rate(50.0))), Some(rate(14.0)));
        assert_eq!(fallback(Some(rate(14.0)), None), Some(rate(14.0)));
        assert_eq!(fallback(None, Some(rate(5.0))), Some(rate(5.0)));
        assert_eq!(fallback(None, None), None);
    }
}
