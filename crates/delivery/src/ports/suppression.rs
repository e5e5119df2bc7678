use std::future::Future;

use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;

use super::PortError;

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
