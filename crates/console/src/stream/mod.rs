//! The streams: what each still has to be told, and what goes out now.

mod counts;
mod history;
mod hub;
mod outbox;
mod switchboard;

pub use counts::Counts;
pub use history::{Cursor, Gap, History, Kept};
pub use hub::{Hub, Subscription};
pub use outbox::{Outbox, QUEUE};
pub use switchboard::{Frame, Limits, Next, Switchboard};

#[cfg(test)]
pub(crate) mod tests;
