//! Limits: how fast mail may be sent to a recipient's domain, from a campaign or sender, through a
//! configuration set or tenant, and how fast texts to a country or from an origin; and when.
//!
//! A limit has a key ([`LimitKey`]) and a pace ([`Limit`]): a rate, hours of the week, a begin and an end, a
//! warm-up, and whether deferrals lower it ([`Adapted`]). Each has its own slots beside the account's ([`LimitSlots`] explains the rules). A mail is sent
//! when the account and all of its limits have a slot. [`LimitTable`] finds the limits of a mail.

mod adaptive;
mod calendar;
mod grid;
mod key;
mod limit;
mod ramp;
mod rate;
mod slots;
mod table;
#[cfg(test)]
mod tests;

pub use adaptive::{Adapted, AdaptedLimits, DeferralLevel};
pub use calendar::{Hours, Zone};
pub use grid::LimitGrid;
pub use jiff::civil::Date;
pub use key::{Dimension, LimitKey, OTHERS};
pub use limit::{InvalidLimit, Limit};
pub use ramp::{DaySlots, Ramp, RampDays, RampTally, Setback};
pub use rate::LimitRate;
pub use slots::{LimitSlots, is_alone};
pub use table::{
    Demands, InitialLimits, LimitChanges, LimitRef, LimitTable, MailFacts, TAGS, digest,
};
