//! `SuppressionList` by `ListSuppressedDestinations` and `GetSuppressedDestination`, with the SDK's retries.

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::primitives::DateTime;
use aws_sdk_sesv2::types::SuppressionListReason;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{
    FailureKind, PortError, SuppressedAddress, SuppressionList, SuppressionPage, SuppressionReason,
};

use crate::error::{incomplete, port_error};

const RESOURCE: &str = "the suppression list";
/// Addresses per page, the most that SES gives.
const PAGE: i32 = 1_000;

/// The suppression list of the account to which the client's credentials belong.
#[derive(Clone, Debug)]
pub struct SesSuppressionList {
    client: Client,
    page: i32,
}

impl SesSuppressionList {
    /// Reads the list through `client`, with its retries and time limits.
    pub fn new(client: Client) -> Self {
        Self { client, page: PAGE }
    }

    /// Sets the number of addresses per page, from 1 to 1,000.
    pub fn with_pages_of(self, page: i32) -> Self {
        Self { page: page.clamp(1, PAGE), ..self }
    }
}

impl SuppressionList for SesSuppressionList {
    async fn page(&self, after: Option<&str>) -> Result<SuppressionPage, PortError> {
        const OPERATION: &str = "ListSuppressedDestinations";
        let call = self.client.list_suppressed_destinations().page_size(self.page);
        let answer = call.set_next_token(after.map(str::to_owned)).send().await;
        let answer = answer.map_err(|error| port_error(OPERATION, RESOURCE, error))?;
        let read = |listed: &aws_sdk_sesv2::types::SuppressedDestinationSummary| {
            suppressed(listed.email_address(), listed.reason(), listed.last_update_time())
        };
        let addresses = answer.suppressed_destination_summaries().iter().map(read).collect();
        Ok(SuppressionPage { addresses, next: answer.next_token })
    }

    async fn find(&self, address: &str) -> Result<Option<SuppressedAddress>, PortError> {
        const OPERATION: &str = "GetSuppressedDestination";
        let call = self.client.get_suppressed_destination().email_address(address);
        let answer = match call.send().await.map_err(|error| port_error(OPERATION, RESOURCE, error))
        {
            Err(PortError { kind: FailureKind::NotFound, .. }) => return Ok(None),
            answer => answer?,
        };
        let found = answer
            .suppressed_destination()
            .ok_or_else(|| incomplete(OPERATION, RESOURCE, "SuppressedDestination"))?;
        let (reason, since) = (found.reason(), found.last_update_time());
        Ok(Some(suppressed(found.email_address(), reason, since)))
    }
}

fn suppressed(
    address: &str,
    reason: &SuppressionListReason,
    since: &DateTime,
) -> SuppressedAddress {
    let reason = match reason {
        SuppressionListReason::Complaint => SuppressionReason::Complaint,
        // SES knows no third reason.
        _ => SuppressionReason::Bounce,
    };
    let since = since.to_millis().ok().and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
    SuppressedAddress { address: address.to_owned(), reason, since: EpochMillis::new(since) }
}
