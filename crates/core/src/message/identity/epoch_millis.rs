//! Times in attributes, dead letters and the ledger.

use std::fmt;
use std::str::FromStr;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use crate::text::InvalidText;
use crate::timestamp::Timestamp;

const WRITTEN: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A time in whole milliseconds since the epoch, from 1970 to the end of the year 9999. It is written
/// as RFC 3339 in UTC with three decimals; further decimals are cut off when read.
///
/// ```
/// use tidegate_core::identity::EpochMillis;
/// let time = EpochMillis::new(1_795_206_967_042);
/// assert_eq!(time.to_string(), "2026-11-20T20:36:07.042Z");
/// assert_eq!("2026-11-20T21:36:07.0429+01:00".parse(), Ok(time));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochMillis(u64);

impl EpochMillis {
    /// 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Bytes of a time as it is written: all have the same number.
    pub(crate) const BYTES: usize = "2026-11-20T20:36:07.042Z".len();

    /// The time `millis` milliseconds after the epoch; [`EpochMillis::MAX`] if that would be later.
    pub const fn new(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Milliseconds since the epoch, at most [`EpochMillis::MAX`].
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl From<Timestamp> for EpochMillis {
    fn from(at: Timestamp) -> Self {
        Self::new(at.as_millis())
    }
}

impl From<EpochMillis> for Timestamp {
    fn from(at: EpochMillis) -> Self {
        Self::from_millis(at.0)
    }
}

impl fmt::Display for EpochMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .map_err(|_| fmt::Error)?;
        f.write_str(&time.format(WRITTEN).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for EpochMillis {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str =
            "is not allowed: an RFC 3339 time from 1970 on, like 2026-11-20T20:36:07.042Z, is";
        let millis = OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .and_then(|time| u64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok());
        millis.map(Self::new).ok_or_else(|| InvalidText::new(text, ALLOWED))
    }
}

serialized_as_text!(EpochMillis);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_time_is_refused_with_what_is_allowed() {
        for text in ["", "yesterday", "1969-12-31T23:59:59.999Z", "2026-11-20", "1795206967042"] {
            let error = text.parse::<EpochMillis>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("RFC 3339"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_time_reads_back_to_the_millisecond(millis in any::<u64>()) {
            let time = EpochMillis::new(millis);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            prop_assert_eq!(time.as_millis(), millis.min(EpochMillis::MAX.as_millis()));
        }
    }
}
