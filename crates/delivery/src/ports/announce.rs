use std::future::Future;

use super::PortError;

/// Tells operators something, by the topic that the alarms tell, too.
pub trait Announce {
    /// Tells `text` with a `subject` of at most 100 ASCII characters. It may arrive twice.
    ///
    /// # Errors
    /// [`PortError`] if it is not known whether anybody was told.
    fn announce(&self, subject: &str, text: &str) -> impl Future<Output = Result<(), PortError>>;
}
