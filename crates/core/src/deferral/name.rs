use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::config::is_campaign_name;
use crate::timestamp::Window;

const WRITTEN: &[BorrowedFormatItem<'static>] =
    format_description!("[year][month][day]T[hour][minute][second]Z");
const ENDING: &str = ".jsonl.gz";

/// An object's name: window, campaign, number of mails and token, separated by dots.
///
/// ```
/// use tidegate_core::deferral::ObjectName;
/// let name: ObjectName = "20261120T203607Z.big.250.1a2b3c4d.jsonl.gz".parse()?;
/// assert_eq!((&*name.campaign, name.mails), ("big", 250));
/// assert_eq!(name.window.to_string(), "2026-11-20T20:36:07Z");
/// # Ok::<(), tidegate_core::deferral::InvalidName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// The window in which the mails were received.
    pub window: Window,
    /// The campaign of all mails in the object.
    pub campaign: String,
    /// Number of mails in the object.
    pub mails: u64,
    /// Makes the name unique: 1 to 32 letters and digits.
    pub token: String,
}

/// Error for a text that is not an object's name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no name of an object of deferred mail")]
pub struct InvalidName(String);

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = i64::try_from(self.window.epoch_second()).map_err(|_| fmt::Error)?;
        let at = OffsetDateTime::from_unix_timestamp(second).map_err(|_| fmt::Error)?;
        let at = at.format(WRITTEN).map_err(|_| fmt::Error)?;
        write!(f, "{at}.{}.{}.{}{ENDING}", self.campaign, self.mails, self.token)
    }
}

impl FromStr for ObjectName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        read(text).ok_or_else(|| InvalidName(text.chars().take(120).collect()))
    }
}

fn read(text: &str) -> Option<ObjectName> {
    let mut parts = text.strip_suffix(ENDING)?.split('.');
    let mut part = || parts.next();
    let (at, campaign, mails, token) = (part()?, part()?, part()?, part()?);
    let at = PrimitiveDateTime::parse(at, WRITTEN).ok()?.assume_utc();
    let window = Window::from_epoch_second(u64::try_from(at.unix_timestamp()).ok()?);
    let is_token =
        (1..=32).contains(&token.len()) && token.chars().all(|c| c.is_ascii_alphanumeric());
    let digits = mails.bytes().all(|byte| byte.is_ascii_digit());
    let mails = mails.parse().ok().filter(|_| digits)?;
    (parts.next().is_none() && is_token && is_campaign_name(campaign)).then(|| ObjectName {
        window,
        campaign: campaign.to_owned(),
        mails,
        token: token.to_owned(),
    })
}
