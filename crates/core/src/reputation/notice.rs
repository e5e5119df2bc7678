use serde::Deserialize;
use thiserror::Error;

use crate::config::{EXPRESS, is_campaign_name};
use crate::identity::EpochMillis;
use crate::limits::TAGS;
use crate::text_message::Receipt;

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
    /// The slots that it concerns: 1, or the parts of a text, as they were counted when it was sent.
    pub slots: u64,
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
    /// The kind is none of these, or a text's receipt says nothing of that sort.
    #[error("kind is not allowed: bounce, complaint and deferral are")]
    Kind,
    /// The campaign is not a campaign name, so Tidegate did not send the mail.
    #[error("campaign is not allowed: 1 to 64 letters, digits, - and _ are")]
    Campaign,
    /// The id is not in the form of SES's message ids.
    #[error("id is not allowed: 1 to 128 letters, digits, ., - and _ are")]
    Id,
}

/// A notice that the stack's rules make of SES's events, or a text's receipt as AWS gives it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Notice(NoticeBody),
    Receipt(Receipt),
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
        let (kind, campaign, id, slots, limits, sent_at) =
            match serde_json::from_str(body).map_err(|_| NoticeError::Form)? {
                Written::Notice(NoticeBody { kind, campaign, id, tags, sent_at }) => {
                    let limits = tags.tidegate_limit.map_or_else(String::new, TagValue::text);
                    (kind_of(&kind), campaign.text(), id, 1, limits, sent_at)
                }
                Written::Receipt(mut receipt) => {
                    let mut tag = |name| receipt.context.remove(name).unwrap_or_default();
                    let (campaign, limits) = (tag("tidegate_campaign"), tag(LIMIT_TAG));
                    let (slots, sent_at) = (receipt.parts.max(1), receipt.sent_at());
                    (kind_of(receipt.kind()), campaign, receipt.message_id, slots, limits, sent_at)
                }
            };
        let kind = kind.ok_or(NoticeError::Kind)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !is_campaign_name(&campaign) && campaign != EXPRESS {
            return Err(NoticeError::Campaign);
        }
        if !(1..=128).contains(&id.len()) || !id.chars().all(legal) {
            return Err(NoticeError::Id);
        }
        Ok(Self { kind, campaign, ses_message_id: id, slots, limits, sent_at })
    }
}

fn kind_of(name: &str) -> Option<NoticeKind> {
    match name {
        "bounce" => Some(NoticeKind::Bounce),
        "complaint" => Some(NoticeKind::Complaint),
        "deferral" => Some(NoticeKind::Deferral),
        _ => None,
    }
}

impl TagValue {
    fn text(self) -> String {
        let (Self::List([text]) | Self::Text(text)) = self;
        text
    }
}
