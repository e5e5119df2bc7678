use serde::Deserialize;
use thiserror::Error;

use crate::config::{EXPRESS, is_campaign_name};

/// What SES reports of a mail after it took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeKind {
    /// A hard bounce: the recipient's address does not take mail, and never will.
    Bounce,
    /// The recipient marked the mail as spam.
    Complaint,
}

/// One bounce or complaint, as it stands on the feedback queue. It holds no address.
///
/// ```
/// use tidegate_core::reputation::{Notice, NoticeKind};
/// let notice = Notice::parse(r#"{"kind": "bounce", "campaign": ["spring"], "id": "0102018f-1"}"#)?;
/// assert_eq!((notice.kind, &*notice.campaign), (NoticeKind::Bounce, "spring"));
/// # Ok::<(), tidegate_core::reputation::NoticeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which of the two.
    pub kind: NoticeKind,
    /// The mail's campaign: its tag `tidegate_campaign`.
    pub campaign: String,
    /// SES's id of the mail, as in the log event `sent`.
    pub ses_message_id: String,
}

/// Why a body is no notice. It shows nothing of the body, which may hold an address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoticeError {
    /// Not a JSON object with these members, each a text (the campaign also a list of one).
    #[error("it is no JSON object with the texts kind, campaign and id")]
    Form,
    /// Neither bounce nor complaint.
    #[error("kind is not allowed: bounce and complaint are")]
    Kind,
    /// Not a campaign's name: the mail was not sent by Tidegate.
    #[error("campaign is not allowed: 1 to 64 letters, digits, - and _ are")]
    Campaign,
    /// Not an id of SES's.
    #[error("id is not allowed: 1 to 128 letters, digits, ., - and _ are")]
    Id,
}

#[derive(Deserialize)]
struct NoticeBody {
    kind: String,
    campaign: TagValue,
    id: String,
}

/// A tag of a mail in SES's events: a list, here of one. A text is as good.
#[derive(Deserialize)]
#[serde(untagged)]
enum TagValue {
    List([String; 1]),
    Text(String),
}

impl Notice {
    /// Reads a message's body; members that are not known are ignored.
    ///
    /// # Errors
    /// [`NoticeError`], which names the member.
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
