//! Why a mail has not arrived: where it is, which limit holds it, and when that lets go.
//!
//! SQS cannot be searched by id. What is known of one mail stands in deduplication's marks, where
//! it is on, and on the dead-letter queue; everything else is inferred, by ruling out what can be ruled
//! out, and the answer says so.

mod explain;
mod gather;
mod limits;
mod view;
mod waiting;

use serde::Serialize;
use tidegate_core::config::PollerConfig;
use tidegate_core::deduplication::Mark;
use tidegate_core::identity::{EpochMillis, Identity};

use crate::dead::{Coverage, Letter};
use crate::status;

pub use explain::explain;
pub use gather::gather;

/// The mail that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailQuery {
    /// Its `id`, an SQS message id, or a whole identity.
    pub id: String,
    /// Its campaign, where it was named.
    pub campaign: Option<String>,
}

#[derive(Clone, Debug)]
pub struct MailFacts {
    /// The mail that is asked for.
    pub query: MailQuery,
    pub status: status::StackFacts,
    /// What the pollers are configured with.
    pub poller: PollerConfig,
    /// The marks that stand of it, under any of the identities that it may have.
    pub marks: Vec<(Identity, Mark)>,
    pub letters: Vec<Letter>,
    /// What of the dead-letter queue was read.
    pub coverage: Coverage,
}

/// Where a mail is, or what holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MailVerdict {
    Sent,
    /// A poller is sending it, or died within the last 30 s as it did.
    Sending,
    Dead,
    /// A poller set out to send it, and nobody knows what came of it.
    Unknown,
    NoCampaign,
    /// It stands on no queue: it was sent, or it never came.
    Nowhere,
    NotServed,
    Paused,
    /// The daily quota is used up.
    DailyQuota,
    /// It is held for another reason.
    Held,
    /// There is no quota to send with.
    NoQuota,
    /// The circuit breaker does not let it through.
    Breaker,
    NoShare,
    /// It waits for a retry's delay.
    Retry,
    /// It waits for its recipient domain's limit.
    DomainLimit,
    Waiting,
    /// Several campaigns have a mail of this id; or it may be of several, and they differ.
    WhichCampaign,
}

/// Something that keeps a mail from being sent, and when it lets go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    pub verdict: MailVerdict,
    pub what: String,
    /// When it lets go, in words.
    pub lets_go: String,
    /// By when it lets go by itself, where that is known.
    pub until: Option<EpochMillis>,
}

/// A name and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Statement {
    pub of: &'static str,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The id that was asked for.
    pub id: String,
    /// The mail's campaign, where it is known.
    pub campaign: Option<String>,
    /// Where it is, or what holds it.
    pub verdict: MailVerdict,
    pub summary: String,
    /// When that lets go, in words.
    pub lets_go: Option<String>,
    /// By when it lets go by itself, where that is known.
    pub until: Option<EpochMillis>,
    /// All that holds it: it is sent when the last has let go.
    pub limits: Vec<Obstacle>,
    pub facts: Vec<Statement>,
    /// What was ruled out, and why.
    pub ruled_out: Vec<Statement>,
    pub not_known: Vec<&'static str>,
}

#[cfg(test)]
mod tests;
