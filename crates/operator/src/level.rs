//! The back-pressure level, for producers that respect it.

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_delivery::ports::{Clock, Ledger, PortError};

/// Reads the current back-pressure level from the ledger. A producer should hold back mail that the
/// level [defers](BackPressureLevel::defers), and ask again a minute later.
///
/// # Errors
/// [`PortError`] where the ledger does not answer: then nothing is known, and a producer that can wait
/// should.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::{Timestamp, email::Priority};
/// use tidegate_fakes::{MemoryLedger, Universe};
/// let ledger = MemoryLedger::default(); // tidegate_adapters::aws::Clients::connect().await.ledger("tidegate-ledger")
/// let clock = Universe::starting_at(Timestamp::from_millis(0)).clock(); // tidegate_adapters::aws::SystemClock::new()
/// let level = tidegate_operator::level::level(&ledger, &clock).await.unwrap();
/// if level.defers(Priority::Low) {
///     println!("{level}: the newsletter waits");
/// }
/// # }
/// ```
pub async fn level(
    ledger: &impl Ledger,
    clock: &impl Clock,
) -> Result<BackPressureLevel, PortError> {
    let control = ledger.read().await?.control;
    Ok(control.level(clock.wall().into()))
}
