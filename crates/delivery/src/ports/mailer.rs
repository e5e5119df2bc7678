use std::future::Future;

use tidegate_core::bucket::Pace;
use tidegate_core::email::Email;
use tidegate_core::outcome::Failure;

use super::{DomainTake, Monotonic};

/// A mail on its way to SES.
#[derive(Clone, Copy, Debug)]
pub struct Mail<'a> {
    /// The mail.
    pub email: &'a Email,
    /// The value of the SES tag `tidegate_campaign`, not yet made legal for SES.
    pub campaign: &'a str,
    /// The value of the SES tag `tidegate_id`, not yet made legal for SES.
    pub id: &'a str,
    /// The rate in force, and its rate margin.
    pub pace: Pace,
    /// Its recipients in domains with a limit below the account's.
    pub domains: &'a [DomainTake],
}

/// Sends that a mailer did not make for want of leave to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// The shared bucket refused them.
    pub refused: u64,
    /// The shared bucket did not answer, or had not a moment before.
    pub lost: u64,
}

/// Sends mail.
pub trait Mailer {
    /// Sends one mail, once (no hidden retries), and gives SES's message id.
    ///
    /// As the request is handed to the wire the monotonic clock is read once more: after `latest`
    /// the request is not written.
    ///
    /// # Errors
    /// [`Failure`], to be classified: what SES said, or how far the request got.
    fn send(
        &self,
        mail: Mail<'_>,
        latest: Monotonic,
    ) -> impl Future<Output = Result<String, Failure>>;

    /// Opens up to `connections` connections without sending anything, so that the first sends of a
    /// window do not wait for TLS handshakes. Failures show at the send.
    fn warm(&self, connections: usize) -> impl Future<Output = ()>;

    /// What the shared bucket did not grant since this mailer was made; nothing where there is none.
    fn takes(&self) -> Takes {
        Takes::default()
    }
}
