//! SES: sending, the shared buckets, the account, and its suppression lists.

use std::any::Any;
use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::bucket::{Pace, Terms};
use tidegate_core::channel::Content;
use tidegate_core::control::TenantStatus;
use tidegate_core::identity::EpochMillis;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;

use super::{Monotonic, PortError};

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
    /// The value of the SES tag `tidegate_trace`; without one the mail has no such tag.
    pub trace: Option<&'a str>,
    /// SES's tenant for which it is sent; none without one.
    pub tenant: Option<&'a str>,
    /// The rate in force in recipients per second, and the rate margin.
    pub pace: Pace,
    /// The mail's recipients under limits with a rate; each limit's bucket is asked for them.
    pub takes: &'a [LimitTake],
    /// The request, if it was written before its slot; else it is written in it.
    pub written: Option<&'a WrittenRequest>,
}

/// A request that was written before its slot, since to write and hash megabytes takes longer than a send may be late. Its form is the
/// mailer's own; the content is not needed any more.
#[derive(Debug)]
pub struct WrittenRequest(Box<dyn Any + Send + Sync>);

impl WrittenRequest {
    /// A request in the mailer's form.
    pub fn new(request: impl Any + Send + Sync) -> Self {
        Self(Box::new(request))
    }

    /// The request, if it is in this form.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Writes the request of a mail. One that cannot be written fails in its slot.
pub type Writer = Box<dyn FnOnce(Mail<'_>) -> WrittenRequest + Send>;

impl<'a> Mail<'a> {
    /// A mail without a tenant, and without limits that change or pace it.
    pub const fn new(content: &'a Content, campaign: &'a str, id: &'a str, pace: Pace) -> Self {
        let (through, limits, trace, tenant) = (None, None, None, None);
        let takes = &[];
        Self { content, campaign, id, through, limits, trace, tenant, pace, takes, written: None }
    }

    /// The configuration set through which it is sent, or its own; `None` without either.
    pub fn configuration_set(&self) -> Option<&'a str> {
        self.through.or(self.content.configuration_set())
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

/// The end of one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendAnswer {
    /// The instant at which the request was handed to the connection; `None` if nothing of it was written.
    pub start: Option<Monotonic>,
    /// SES's message id; or the failure, to be classified by the caller: SES's answer, or how far the request got.
    pub result: Result<String, Failure>,
}

/// Sends mail through SES or text messages through AWS End User Messaging, or through a stand-in for them.
pub trait Mailer {
    /// Sends one mail once, without hidden retries.
    ///
    /// The monotonic clock is read again right before the request is written to the connection. If that is
    /// after `latest`, the request is not written, because its slot has passed.
    fn send(&self, mail: Mail<'_>, latest: Monotonic) -> impl Future<Output = SendAnswer>;

    /// Writes a request before its slot, on any thread.
    fn writer(&self) -> Writer;

    /// Opens up to `connections` connections without sending, so that the first sends of a window do not
    /// wait for TLS handshakes. Errors are not returned; the sends report them.
    fn warm(&self, connections: usize) -> impl Future<Output = ()>;

    /// How long nothing is sent to a recipient of these `takes` from `at` on, as far as the shared bucket has said since
    /// this mailer was made; `None` if it may be sent.
    fn away(&self, _takes: &[LimitTake], _at: Monotonic) -> Option<Duration> {
        None
    }

    /// The sends that a shared bucket affected since this mailer was made; all zeros without one.
    fn takes(&self) -> Takes {
        Takes::default()
    }
}

/// A take of recipients, which is granted from all of its buckets or from none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeRequest<'a> {
    /// The account's rate, and the rate margin that applies to every bucket.
    pub pace: Pace,
    /// The most recipients to take from the account's bucket.
    pub wanted: u32,
    /// The fewest recipients of use, from 1 to `wanted`. A mail needs its recipients as one block (`least` =
    /// `wanted`); `least` = 1 takes up to `wanted` single ones.
    pub least: u32,
    /// Takes from limits' buckets, granted together with the account's.
    pub limits: &'a [LimitTake],
}

/// Recipients to take from one limit's bucket, as one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitTake {
    /// The bucket's name: the limit's, such as `gmail.com` or `campaign:news`, or `recipient:` and a hash of the address.
    pub name: String,
    /// The limit's rate, in recipients per second.
    pub rate: Rate,
    /// The number of recipients, at least 1.
    pub recipients: u32,
    /// Whether it is the bucket of one recipient, who has several mails at once and then none for long.
    pub is_of_recipient: bool,
}

impl LimitTake {
    /// The terms of this limit's bucket for a sender that paces the account at `pace`.
    pub const fn terms(&self, pace: Pace) -> Terms {
        if self.is_of_recipient {
            Terms::of_recipient(self.rate, pace)
        } else {
            Terms::of_limit(self.rate, pace)
        }
    }
}

/// The result of a take, with the server's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number of recipients granted, or the refusal.
    pub answer: Answer,
    /// The server's time in microseconds since the epoch. Grants are bounded by this clock, not by the
    /// caller's.
    pub at_micros: u64,
}

/// A bucket's answer to a take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The recipients granted from the account's bucket, from `least` to `wanted`; from each limit's bucket
    /// all were granted.
    Granted(u32),
    /// No recipients were granted, and no bucket has changed.
    Refused {
        /// The same take is certainly refused before this time has passed.
        after: Duration,
        /// The limit whose bucket has the longest wait; `None` if it is the account's.
        by: Option<String>,
    },
}

/// The token buckets that all senders of the account share.
pub trait Bucket {
    /// Takes recipients atomically: no other take comes between the check and the grant.
    ///
    /// # Errors
    /// [`PortError`] within about 300 ms if the server does not answer; the take may have been granted all
    /// the same.
    fn take(&self, request: &TakeRequest<'_>) -> impl Future<Output = Result<Taken, PortError>>;

    /// Connects and loads what the first take needs. Errors are not returned; the next take reports them.
    fn warm(&self) -> impl Future<Output = ()>;
}

/// SES's answer to `GetAccount`, as far as Tidegate uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccountStatus {
    /// `MaxSendRate`: the quota in recipients per second, such as 14.0.
    pub max_send_rate: f64,
    /// `Max24HourSend`: recipients per 24 hours, such as 50,000.0; -1 if there is no limit.
    pub max_24_hour_send: f64,
    /// `SentLast24Hours`: recipients sent to in the last 24 hours.
    pub sent_last_24_hours: f64,
    /// `SendingEnabled`: false while SES does not let the account send.
    pub sending_enabled: bool,
    /// The most that text messages may cost in a month, in US dollars; none for e-mail.
    pub spend_limit: Option<u64>,
}

/// Access to the quota and state of the account, and to the state of its tenants.
pub trait Account {
    /// Calls SES's `GetAccount`.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer or refuses.
    fn account(&self) -> impl Future<Output = Result<AccountStatus, PortError>>;

    /// Asks SES whether a tenant may send, and for its associated resources; `None` if there is no such tenant.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer or refuses.
    fn tenant(&self, name: &str) -> impl Future<Output = Result<Option<TenantStatus>, PortError>>;
}

/// The reason why SES put an address on a suppression list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SuppressionReason {
    /// A mail to it bounced for good.
    Bounce,
    /// A recipient marked a mail as spam.
    Complaint,
}

/// An address on a suppression list. SES accepts mail to it, counts it, and delivers none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedAddress {
    /// The address, as SES has it.
    pub address: String,
    /// The reason why it is on the list.
    pub reason: SuppressionReason,
    /// Time at which it was put on the list, or last changed there.
    pub since: EpochMillis,
    /// The tenant on whose list it is; `None` for the account's.
    pub tenant: Option<String>,
}

/// One page of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuppressionPage {
    /// The addresses of this page, at most 1,000, in no order.
    pub addresses: Vec<SuppressedAddress>,
    /// The cursor for the next page; `None` if this is the last page.
    pub next: Option<String>,
}

/// A suppression list in a region of SES: the account's, or that of a tenant that has one.
pub trait SuppressionList {
    /// Reads a page. `after` is [`SuppressionPage::next`] of the page before, or `None` for the first page.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer or refuses.
    fn page(&self, after: Option<&str>)
    -> impl Future<Output = Result<SuppressionPage, PortError>>;

    /// Looks an address up; `None` if it is not on the list in exactly this spelling, case included. SES finds it in
    /// no other, and suppresses it in all.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer or refuses.
    fn find(
        &self,
        address: &str,
    ) -> impl Future<Output = Result<Option<SuppressedAddress>, PortError>>;
}

#[cfg(test)]
mod tests {
    use tidegate_core::channel::Channel;
    use tidegate_core::rate::RateMargin;

    use super::*;

    #[test]
    fn a_mail_goes_through_its_own_configuration_set_unless_the_poller_names_one() {
        let set = |own: &str, through: Option<&str>| {
            let body = format!(
                r#"{{"to": "a@b.example", "from": "c@d.example", "subject": "S", "text": "T"{own}}}"#
            );
            let content = Content::parse(Channel::Email, &body).unwrap();
            let rate = Rate::per_second(14.0).unwrap();
            let pace = Pace { rate, rate_margin: RateMargin::default() };
            let mail = Mail { through, ..Mail::new(&content, "big", "1", pace) };
            mail.configuration_set().map(str::to_owned)
        };
        let own = r#", "configuration_set": "news""#;
        assert_eq!((set("", None), set(own, None).as_deref()), (None, Some("news")));
        assert_eq!(set(own, Some("watched")).as_deref(), Some("watched"));
    }
}
