use std::future::Future;

use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::outcome::Failure;

use super::{LimitTake, Monotonic};

/// A mail or text message to send, with the data that the send needs beside the content.
#[derive(Clone, Copy, Debug)]
pub struct Mail<'a> {
    /// The content, with its recipients.
    pub content: &'a Content,
    /// The value of the SES tag `tidegate_campaign`, not yet made legal for SES.
    pub campaign: &'a str,
    /// The value of the SES tag `tidegate_id`, not yet made legal for SES.
    pub id: &'a str,
    /// The configuration set through which it is sent in place of its own; `None` for its own.
    pub through: Option<&'a str>,
    /// The value of the SES tag `tidegate_limit`: the limits that hear of its bounces, complaints and
    /// deferrals. Without one the mail has no such tag.
    pub limits: Option<&'a str>,
    /// SES's tenant for which it is sent; none without one.
    pub tenant: Option<&'a str>,
    /// The rate in force in recipients per second, and the rate margin.
    pub pace: Pace,
    /// The mail's recipients under limits with a rate; each limit's bucket is asked for them.
    pub takes: &'a [LimitTake],
}

impl<'a> Mail<'a> {
    /// A mail without a tenant, and without limits that change or pace it.
    pub const fn new(content: &'a Content, campaign: &'a str, id: &'a str, pace: Pace) -> Self {
        let (through, limits, tenant) = (None, None, None);
        Self { content, campaign, id, through, limits, tenant, pace, takes: &[] }
    }
}

/// Counts of sends that the shared bucket affected, since the mailer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Sends that the shared bucket refused; they were not made.
    pub refused: u64,
    /// Sends while the shared bucket did not answer. They were made or not, as `TIDEGATE_SHARED_BUCKET_LOST`
    /// says.
    pub lost: u64,
}

/// Sends mail through SES or text messages through AWS End User Messaging, or through a stand-in for them.
pub trait Mailer {
    /// Sends one mail once, without hidden retries, and returns SES's message id.
    ///
    /// The monotonic clock is read again right before the request is written to the connection. If that is
    /// after `latest`, the request is not written, because its slot has passed.
    ///
    /// # Errors
    /// [`Failure`], to be classified by the caller: SES's answer, or how far the request got.
    fn send(
        &self,
        mail: Mail<'_>,
        latest: Monotonic,
    ) -> impl Future<Output = Result<String, Failure>>;

    /// Opens up to `connections` connections without sending, so that the first sends of a window do not
    /// wait for TLS handshakes. Errors are not returned; the sends report them.
    fn warm(&self, connections: usize) -> impl Future<Output = ()>;

    /// The sends that a shared bucket affected since this mailer was made; all zeros without one.
    fn takes(&self) -> Takes {
        Takes::default()
    }
}
