use serde::Deserialize;
use thiserror::Error;

use crate::config::{EXPRESS, is_campaign_name};
use crate::identity::EpochMillis;
use crate::limits::TAGS;

/// The SES tag with the limits that hear of a mail's bounces, complaints and deferrals.
pub const LIMIT_TAG: &str = "tidegate_limit";

/// The kinds of feedback that SES gives for a mail after accepting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A hard bounce: the recipient's address does not exist or never takes mail.
    Bounce,
    /// The recipient marked the mail as spam.
    Complaint,
    /// The recipient's provider did not take the mail yet; SES tries again.
    Deferral,
}

/// One bounce, complaint or deferral from the feedback queue. It contains no address.
///
/// ```
/// use tidegate_core::reputation::{Notice, NoticeKind};
/// let notice = Notice::parse(r#"{"kind": "bounce", "campaign": ["spring"], "id": "0102018f-1"}"#)?;
/// assert_eq!((notice.kind, &*notice.campaign), (NoticeKind::Bounce, "spring"));
/// # Ok::<(), tidegate_core::reputation::NoticeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a bounce, a complaint or a deferral.
    pub kind: NoticeKind,
    /// The mail's campaign, from its tag `tidegate_campaign`; may be `express`.
    pub campaign: String,
    /// SES's message id of the mail, as in the log event `sent`; 1 to 128 characters.
    pub ses_message_id: String,
    /// The limits that hear of it, from the mail's tag `tidegate_limit` ([`crate::limits::LimitTable::tags`]);
    /// empty without one.
    pub limits: String,
    /// When SES accepted the mail; `None` if the notice does not tell.
    pub sent_at: Option<EpochMillis>,
}

/// Reason why a body is not a notice. It contains nothing of the body, which may hold an address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoticeError {
    /// The body is not a JSON object with these members as texts (or the campaign as a list of one
    /// text).
    #[error("it is no JSON object with the texts kind, campaign and id")]
    Form,
    /// The kind is none of these.
    #[error("kind is not allowed: bounce, complaint and deferral are")]
    Kind,
    /// The campaign is not a campaign name, so Tidegate did not send the mail.
    #[error("campaign is not allowed: 1 to 64 letters, digits, - and _ are")]
    Campaign,
    /// The id is not in the form of SES's message ids.
    #[error("id is not allowed: 1 to 128 letters, digits, ., - and _ are")]
    Id,
}

#[derive(Deserialize)]
struct NoticeBody {
    kind: String,
    campaign: TagValue,
    id: String,
    #[serde(default)]
    tags: NoticeTags,
    sent_at: Option<EpochMillis>,
}

/// The mail's tags, of which the others do not matter.
#[derive(Default, Deserialize)]
struct NoticeTags {
    tidegate_limit: Option<TagValue>,
}

/// A tag's value. SES's events have a list, here of one text; a plain text is accepted too.
#[derive(Deserialize)]
#[serde(untagged)]
enum TagValue {
    List([String; 1]),
    Text(String),
}

impl Notice {
    /// The tags of the limits that hear of it.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.limits.split(TAGS).filter(|tag| !tag.is_empty())
    }

    /// Reads a message's body. Unknown members are ignored.
    ///
    /// # Errors
    /// [`NoticeError`], which names the faulty member.
    pub fn parse(body: &str) -> Result<Self, NoticeError> {
        let written: NoticeBody = serde_json::from_str(body).map_err(|_| NoticeError::Form)?;
        let kind = match &*written.kind {
            "bounce" => NoticeKind::Bounce,
            "complaint" => NoticeKind::Complaint,
            "deferral" => NoticeKind::Deferral,
            _ => return Err(NoticeError::Kind),
        };
        let (TagValue::List([campaign]) | TagValue::Text(campaign)) = written.campaign;
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !is_campaign_name(&campaign) && campaign != EXPRESS {
            return Err(NoticeError::Campaign);
        }
        if !(1..=128).contains(&written.id.len()) || !written.id.chars().all(legal) {
            return Err(NoticeError::Id);
        }
        let limits = match written.tags.tidegate_limit {
            Some(TagValue::List([limits]) | TagValue::Text(limits)) => limits,
            None => String::new(),
        };
        Ok(Self { kind, campaign, ses_message_id: written.id, limits, sent_at: written.sent_at })
    }
}
