use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};
use thiserror::Error;

use crate::config::{EXPRESS, is_campaign_name};
use crate::email::plain_address;
use crate::identity::{EpochMillis, Identity};
use crate::limits::TAGS;
use crate::parts::fnv1a;
use crate::text::is_word_of;
use crate::text_message::Receipt;

/// The SES tag with the limits that hear of a mail's bounces, complaints and deferrals.
pub const LIMIT_TAG: &str = "tidegate_limit";

/// The identity under which the ledger marks that SES dropped the mail to which it gave this id.
pub fn dropped_identity(ses_message_id: &str) -> Identity {
    Identity::of_notice(ses_message_id, NoticeKind::Dropped.name(), "")
}

/// The kinds of feedback that SES gives for a mail after accepting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum NoticeKind {
    /// A hard bounce: the recipient's address does not exist or never takes mail.
    Bounce,
    /// The recipient marked the mail as spam.
    Complaint,
    /// The recipient's provider did not take the mail yet; SES tries again.
    Deferral,
    /// SES did not try: the address is on a suppression list of the account or tenant, has unsubscribed, or failed
    /// SES's validation. SES counts neither this bounce nor this complaint.
    Suppressed,
    /// SES accepted the mail and then sent it to nobody: its template could not be rendered, or it has a virus.
    Dropped,
}

impl NoticeKind {
    /// The kind's name in a notice.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A report of SES about one recipient of a mail that it had accepted, from the feedback queue.
///
/// ```
/// use tidegate_core::reputation::{Notice, NoticeKind};
/// let notices = Notice::parse(r#"{"kind": "bounce", "campaign": ["spring"], "id": "0102018f-1"}"#)?;
/// assert_eq!((notices[0].kind, &*notices[0].campaign), (NoticeKind::Bounce, "spring"));
/// # Ok::<(), tidegate_core::reputation::NoticeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The event that it reports.
    pub kind: NoticeKind,
    /// The mail's campaign, from its tag `tidegate_campaign`; may be `express`.
    pub campaign: String,
    /// SES's message id of the mail, as in the log event `sent`; 1 to 128 characters.
    pub ses_message_id: String,
    /// The recipient, in lower case and without a name; empty if it is of a whole mail, or of a text.
    pub recipient: String,
    /// The slots that it concerns, as they were counted when the mail was sent: 1, a text's parts, or a whole mail's.
    pub slots: u64,
    /// The limits that hear of it, from the mail's tag `tidegate_limit` ([`crate::limits::LimitTable::tags`]);
    /// empty without one.
    pub limits: String,
    /// When SES accepted the mail; `None` if the notice does not tell.
    pub sent_at: Option<EpochMillis>,
    /// Why SES dropped the mail, in SES's words.
    pub reason: Option<String>,
}

/// Reason why a body is not a notice. It contains nothing of the body, which may hold an address.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoticeError {
    /// The body is not a JSON object with these members as texts (or the campaign as a list of one
    /// text).
    #[error("it is no JSON object with the texts kind, campaign and id")]
    Form,
    /// The kind is none of these, or a text's receipt says nothing of that sort.
    #[error("kind is not allowed: bounce, complaint, deferral, suppressed and dropped are")]
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
    /// Objects with an address, in a bounce, a complaint or a delay; else addresses.
    recipients: Option<Vec<Value>>,
    sent_at: Option<EpochMillis>,
    reason: Option<String>,
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

    /// The identity under which the ledger marks it as counted: the same for a second report of the same event, and
    /// for every other one different.
    pub fn identity(&self) -> Identity {
        Identity::of_notice(&self.ses_message_id, self.kind.name(), &self.recipient)
    }

    /// The mark by which the control record remembers it: 32 bits of a hash. A new notice has the mark of one of the
    /// 100 remembered ones with a probability of 1 in 43 million (100 / 2³²); it is then not counted.
    pub fn mark(&self) -> u32 {
        fnv1a(self.identity().as_str())
    }

    /// Reads a message's body: a notice for each recipient that it names. Unknown members are ignored.
    ///
    /// # Errors
    /// [`NoticeError`], which names the faulty member.
    pub fn parse(body: &str) -> Result<Vec<Self>, NoticeError> {
        let mut recipients = BTreeSet::new();
        let mut notice = match serde_json::from_str(body).map_err(|_| NoticeError::Form)? {
            Written::Notice(body) => {
                let all = body.recipients.unwrap_or_default();
                let texts = all.iter().map(|to| to.get("emailAddress").unwrap_or(to).as_str());
                recipients.extend(texts.flatten().map(plain_address));
                Self {
                    kind: body.kind.parse().map_err(|_| NoticeError::Kind)?,
                    campaign: body.campaign.text(),
                    ses_message_id: body.id,
                    recipient: String::new(),
                    slots: 1,
                    limits: body.tags.tidegate_limit.map_or_else(String::new, TagValue::text),
                    sent_at: body.sent_at,
                    reason: body.reason,
                }
            }
            Written::Receipt(mut receipt) => {
                let mut tag = |name| receipt.context.remove(name).unwrap_or_default();
                let (campaign, limits) = (tag("tidegate_campaign"), tag(LIMIT_TAG));
                Self {
                    kind: receipt.kind().parse().map_err(|_| NoticeError::Kind)?,
                    campaign,
                    recipient: String::new(),
                    slots: receipt.parts.max(1),
                    limits,
                    sent_at: receipt.sent_at(),
                    ses_message_id: receipt.message_id,
                    reason: None,
                }
            }
        };
        let (campaign, id) = (&notice.campaign, &notice.ses_message_id);
        if !is_campaign_name(campaign) && campaign != EXPRESS {
            return Err(NoticeError::Campaign);
        }
        if !is_word_of(id, 128, "._-") {
            return Err(NoticeError::Id);
        }
        if notice.kind == NoticeKind::Dropped {
            // SES drops a mail as a whole.
            notice.slots = std::mem::take(&mut recipients).len().max(1) as u64;
        }
        if recipients.is_empty() {
            return Ok(vec![notice]);
        }
        let of = |recipient| Self { recipient, ..notice.clone() };
        Ok(recipients.into_iter().map(of).collect())
    }
}

impl TagValue {
    fn text(self) -> String {
        let (Self::List([text]) | Self::Text(text)) = self;
        text
    }
}
