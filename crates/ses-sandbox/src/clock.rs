//! The one place that reads the machine's clocks.

use std::time::{Instant, SystemTime};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Tells the time, in nanoseconds since the Unix epoch.
///
/// Any `Fn() -> u64` is a clock, so a test can hold time still or move it by hand:
///
/// ```
/// use ses_sandbox::SandboxClock;
/// let clock = || 1_000_000_000_u64;
/// assert_eq!(clock.now_ns(), 1_000_000_000);
/// ```
pub trait SandboxClock: Send + Sync + 'static {
    fn now_ns(&self) -> u64;
}

impl<F: Fn() -> u64 + Send + Sync + 'static> SandboxClock for F {
    fn now_ns(&self) -> u64 {
        self()
    }
}

/// The wall clock, read once, and carried on by the monotonic clock: a step of the wall clock
/// must not look like a burst or a gap to the quota.
#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    epoch_ns: u64,
    started: Instant,
}

impl SteadyClock {
    /// Reads the wall clock and the monotonic clock together.
    #[expect(clippy::disallowed_methods, reason = "this is the adapter that reads the clock")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let epoch_ns = since_epoch.map_or(0, nanos);
        Self { epoch_ns, started: Instant::now() }
    }
}

impl SandboxClock for SteadyClock {
    fn now_ns(&self) -> u64 {
        self.epoch_ns.saturating_add(nanos(self.started.elapsed()))
    }
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
