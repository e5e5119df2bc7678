//! Explains why a mail has not arrived: where it is, what delays it, and until when.
//!
//! SQS cannot be searched by id. Facts about one mail are in the marks of deduplication, if it is
//! on, and on the dead-letter queue. If neither names the mail, the answer says what can have become
//! of it, and what it waits for if it waits.

mod address;
pub(crate) mod command;
mod explain;
mod in_store;
mod obstacles;

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;
use tidegate_core::config::{EXPRESS, PollerConfig};
use tidegate_core::deduplication::Mark;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{Marks, PortError};

use crate::dead::{Coverage, Letter, LetterSnapshot, marks_of};
use crate::page::{Page, Span, Tone, View};
use crate::status;

pub use address::{AddressReport, dead_to, is_address};
pub use explain::explain;
pub use in_store::{MailInStore, find};

/// The mail that the operator asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailQuery {
    /// The mail's `id`, an SQS message id, or an identity.
    pub id: String,
    /// The campaign, if the operator named one.
    pub campaign: Option<String>,
}

/// A text that can be no mail's id.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the id has {0} characters, or control characters; a mail's id has 1 to 256 others, and an identity is campaign/id/… or campaign/msg/…"
)]
pub struct InvalidMailId(usize);

impl MailQuery {
    /// A question about the mail that `id` names.
    ///
    /// # Errors
    /// [`InvalidMailId`]: no mail can have this id.
    pub fn new(id: &str, campaign: Option<String>) -> Result<Self, InvalidMailId> {
        let id = id.trim().to_owned();
        let length = id.chars().count();
        let is_id = (1..=256).contains(&length) && !id.chars().any(char::is_control);
        if is_id || Identity::parse(&id).is_ok() {
            Ok(Self { id, campaign })
        } else {
            Err(InvalidMailId(length))
        }
    }
}

#[derive(Clone, Debug)]
pub struct MailFacts {
    pub query: MailQuery,
    pub status: status::StackFacts,
    /// The marks of the mail, under all identities that it can have.
    pub marks: Vec<(Identity, Mark)>,
    pub letters: Vec<Letter>,
    /// The part of the dead-letter queue that was read.
    pub coverage: Coverage,
}

impl MailFacts {
    pub(crate) fn poller(&self) -> &PollerConfig {
        &self.status.settings.poller
    }
}

/// Says what is known of a mail, or what mail of its campaign waits for. The order is by importance: of
/// several obstacles the first is the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MailVerdict {
    Sent,
    /// A poller is sending it, or died while sending it within the last 30 s.
    Sending,
    Dead,
    /// A poller began to send it, and its outcome is unknown.
    Unknown,
    NoCampaign,
    /// It is on no queue: it was sent, or it was never enqueued.
    Nowhere,
    /// No mark and no dead letter names it: it was sent, it was never enqueued, or it waits.
    #[default]
    Unrecorded,
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
    /// A limit lets nothing of its campaign through now: outside its hours, before its begin, after its end.
    Closed,
    NoShare,
    /// It waits for a retry's delay.
    Retry,
    /// It waits for its recipient domain's limit.
    Limit,
    Waiting,
    /// It is in the store.
    Stored,
    /// Several campaigns have a mail with this id.
    WhichCampaign,
}

/// A reason why a mail is not sent now, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Obstacle {
    pub verdict: MailVerdict,
    pub what: String,
    /// A description of when it ends.
    pub lets_go: String,
    /// The latest time at which it ends by itself, if known.
    pub until: Option<EpochMillis>,
}

/// A fact for the report: its subject and its text.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Statement {
    pub of: &'static str,
    pub what: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Explanation {
    /// The id that was asked for.
    pub id: String,
    /// The mail's campaign, if it is known.
    pub campaign: Option<String>,
    pub verdict: MailVerdict,
    pub summary: String,
    /// A description of when the mail goes on, or the operator's next step.
    pub lets_go: Option<String>,
    /// The latest time at which the mail goes on by itself, if known.
    pub until: Option<EpochMillis>,
    /// The first obstacle, or the turn, of a mail that is one of those on the queues; `None` if it is not,
    /// or if that depends on its campaign.
    pub if_it_waits: Option<Obstacle>,
    /// All obstacles of such a mail; it is sent when the last one has ended.
    pub limits: Vec<Obstacle>,
    pub facts: Vec<Statement>,
    /// Explanations that were ruled out, with the reason.
    pub ruled_out: Vec<Statement>,
    pub not_known: Vec<&'static str>,
}

impl MailVerdict {
    const fn tone(self) -> Tone {
        match self {
            Self::Sent => Tone::Good,
            Self::Sending | Self::Stored => Tone::Strong,
            Self::Nowhere | Self::Unrecorded | Self::WhichCampaign | Self::Unknown => Tone::Warning,
            _ => Tone::Bad,
        }
    }
}

impl View for Explanation {
    fn view(&self, page: &mut Page) {
        page.line(self.verdict.tone(), &self.summary);
        if let Some(lets_go) = &self.lets_go {
            let guesses = matches!(self.verdict, MailVerdict::Nowhere | MailVerdict::Unrecorded);
            let when = if guesses { "next" } else { "lets go" };
            page.fields([(when, Span::from(lets_go))]);
        }
        if let Some(first) = &self.if_it_waits {
            page.heading("If it waits");
            let others = self.limits.iter().filter(|limit| *limit != first);
            for limit in std::iter::once(first).chain(others) {
                page.line(Tone::Plain, format!("  {}", limit.what));
                page.line(Tone::Faint, format!("    lets go {}", limit.lets_go));
            }
        }
        section(page, "Read", &self.facts);
        section(page, "Ruled out", &self.ruled_out);
        if !self.not_known.is_empty() {
            page.heading("Not known");
            for text in &self.not_known {
                page.line(Tone::Plain, format!("  {text}"));
            }
        }
    }
}

fn section(page: &mut Page, heading: &str, said: &[Statement]) {
    if !said.is_empty() {
        page.heading(heading);
        page.fields(said.iter().map(|said| (said.of, Span::from(&said.what))));
    }
}

/// Reads the mail's marks, under all identities that it can have, and its dead letters.
///
/// # Errors
/// [`PortError`] of the marks.
pub async fn gather(
    query: MailQuery,
    status: status::StackFacts,
    reading: &LetterSnapshot,
    marks: &impl Marks,
) -> Result<MailFacts, PortError> {
    let of_campaign = |letter: &&Letter| {
        let own = letter.entry().map(|entry| entry.campaign.as_str());
        query.campaign.is_none() || own == query.campaign.as_deref()
    };
    let meant = reading.letters.iter().filter(|letter| letter.is(&query.id)).filter(of_campaign);
    let letters: Vec<Letter> = meant.cloned().collect();
    let mut identities = identities(&query, &status);
    identities.extend(letters.iter().filter_map(Letter::identity));
    let found = marks_of(identities, marks).await?.into_iter().collect();
    Ok(MailFacts { query, status, marks: found, letters, coverage: reading.coverage })
}

/// The identities that the mail may have.
pub(crate) fn identities(query: &MailQuery, status: &status::StackFacts) -> Vec<Identity> {
    if let Ok(identity) = Identity::parse(&query.id) {
        return vec![identity];
    }
    let all = status.campaigns.iter().map(|campaign| campaign.name.as_str()).chain([EXPRESS]);
    let campaigns: Vec<&str> =
        query.campaign.as_deref().map_or_else(|| all.collect(), |one| vec![one]);
    let both = |campaign: &str| {
        [
            Identity::from_body_id(campaign, &query.id),
            Identity::from_message_id(campaign, &query.id),
        ]
    };
    campaigns.into_iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests;
