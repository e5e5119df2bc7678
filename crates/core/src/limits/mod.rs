//! Limits: how fast mail may be sent to a recipient's domain, from a campaign or sender, through a
//! configuration set or tenant, and how fast texts to a country or from an origin; and when.
//!
//! A limit has a key ([`LimitKey`]) and a pace ([`Limit`]): a rate, hours of the week, a begin and an end, a
//! warm-up, and whether deferrals lower it ([`Adapted`]). Each has its own slots beside the account's ([`LimitSlots`] explains the rules). A mail is sent
//! when the account and all of its limits have a slot. [`LimitTable`] finds the limits of a mail.

mod adaptive;
mod calendar;
mod key;
mod limit;
mod ramp;
mod slots;
mod table;

pub use adaptive::{Adapted, AdaptedLimits, DeferralLevel};
pub use calendar::{Hours, Zone};
pub use jiff::civil::Date;
pub use key::{Dimension, LimitKey, OTHERS};
pub use limit::{Limit, LimitRate};
pub use ramp::{DaySlots, InvalidLimit, Ramp, RampDays, RampTally, Setback};
pub use slots::{LimitGrid, LimitSlots, is_alone};
pub use table::{
    Demands, InitialLimits, LimitChanges, LimitRef, LimitTable, MailFacts, TAGS, digest,
};

#[cfg(test)]
mod tests;
