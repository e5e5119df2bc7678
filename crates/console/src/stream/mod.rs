//! The event streams: which events wait for each, and which is sent next.

mod change_log;
mod counts;
mod hub;
mod outbox;
mod registry;

pub use change_log::{ChangeLog, Cursor, Gap, RecordedChange};
pub use counts::{Counts, SessionCount, SessionCounts};
pub use hub::{Hub, Subscription};
pub use outbox::{Outbox, QUEUE};
pub use registry::{Frame, StreamLimits, StreamRegistry, StreamStep};

#[cfg(test)]
pub(crate) mod tests;
