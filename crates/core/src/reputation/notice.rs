use serde::Deserialize;
use thiserror::Error;

use crate::config::{EXPRESS, is_campaign_name};

/// The kinds of feedback that SES gives for a mail after accepting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A hard bounce: the recipient's address does not exist or never takes mail.
    Bounce,
    /// The recipient marked the mail as spam.
    Complaint,
}

/// One bounce or complaint from the feedback queue. It contains no address.
///
/// ```
/// use tidegate_core::reputation::{Notice, NoticeKind};
/// let notice = Notice::parse(r#"{"kind": "bounce", "campaign": ["spring"], "id": "0102018f-1"}"#)?;
/// assert_eq!((notice.kind, &*notice.campaign), (NoticeKind::Bounce, "spring"));
/// # Ok::<(), tidegate_core::reputation::NoticeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a bounce or a complaint.
    pub kind: NoticeKind,
    /// The mail's campaign, from its tag `tidegate_campaign`; may be `express`.
    pub campaign: String,
    /// SES's message id of the mail, as in the log event `sent`; 1 to 128 characters.
    pub ses_message_id: String,
}

/// Reason why a body is not a notice. It contains nothing of the body, which may hold an address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoticeError {
    /// The body is not a JSON object with these members as texts (or the campaign as a list of one
    /// text).
    #[error("it is no JSON object with the texts kind, campaign and id")]
    Form,
    /// The kind is neither bounce nor complaint.
    #[error("kind is not allowed: bounce and complaint are")]
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
}

/// A tag's value. SES's events have a list, here of one text; a plain text is accepted too.
#[derive(Deserialize)]
#[serde(untagged)]
enum TagValue {
    List([String; 1]),
    Text(String),
}

impl Notice {
    /// Reads a message's body. Unknown members are ignored.
    ///
    /// # Errors
    /// [`NoticeError`], which names the faulty member.
    pub fn parse(body: &str) -> Result<Self, NoticeError> {
        let written: NoticeBody = serde_json::from_str(body).map_err(|_| NoticeError::Form)?;
        let kind = match &*written.kind {
            "bounce" => NoticeKind::Bounce,
            "complaint" => NoticeKind::Complaint,
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
        Ok(Self { kind, campaign, ses_message_id: written.id })
    }
}
