//! The list of a message's members. The parser takes no others, and the schema describes each.

/// The form of a message that a member belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Short,
    Long,
    Both,
}

/// The kind of a member's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Address,
    /// One address or a list of them; `None` if their number is not limited.
    Addresses(Option<usize>),
    Subject,
    /// A text or HTML body.
    Body,
    Template,
    Headers,
    Attachments,
    ConfigurationSet,
    ListUnsubscribe,
    Id,
    Priority,
    Tags,
}

/// One member of a message.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) form: Form,
    pub(super) shape: Shape,
    /// Description for producers.
    pub(super) means: &'static str,
}

const fn member(name: &'static str, form: Form, shape: Shape, means: &'static str) -> Member {
    Member { name, form, shape, means }
}

const RECIPIENTS: Shape = Shape::Addresses(Some(super::MAX_RECIPIENTS));

/// All members. Error messages list them in this order.
pub(super) const MEMBERS: [Member; 19] = [
    member("to_address", Form::Short, Shape::Address, "The one recipient."),
    member("from_address", Form::Short, Shape::Address, "The sender."),
    member("body", Form::Short, Shape::Body, "The text."),
    member("to", Form::Long, RECIPIENTS, "Recipients; at most 50 in to, cc and bcc together."),
    member("cc", Form::Long, RECIPIENTS, "Recipients of copies, whom all recipients see."),
    member("bcc", Form::Long, RECIPIENTS, "Recipients of copies, whom nobody else sees."),
    member("from", Form::Long, Shape::Address, "The sender."),
    member(
        "reply_to",
        Form::Long,
        Shape::Addresses(None),
        "Where answers go; default: the sender.",
    ),
    member("text", Form::Long, Shape::Body, "The text body."),
    member("html", Form::Long, Shape::Body, "The HTML body."),
    member(
        "template",
        Form::Long,
        Shape::Template,
        "A template that SES has, instead of subject, text and html.",
    ),
    member("headers", Form::Long, Shape::Headers, "More headers, by their names."),
    member("attachments", Form::Long, Shape::Attachments, "Attached files."),
    member("configuration_set", Form::Long, Shape::ConfigurationSet, "SES's configuration set."),
    member(
        "list_unsubscribe",
        Form::Long,
        Shape::ListUnsubscribe,
        "One-click unsubscription (RFC 8058).",
    ),
    member("subject", Form::Both, Shape::Subject, "The subject; not beside template."),
    member("id", Form::Both, Shape::Id, "Identifies the mail within its campaign."),
    member(
        "priority",
        Form::Both,
        Shape::Priority,
        "Priority within the campaign; default: normal.",
    ),
    member("tags", Form::Both, Shape::Tags, "SES tags, by their names."),
];

/// Members of `template`.
pub(super) const TEMPLATE: [&str; 2] = ["name", "data"];
/// Members of an entry of `attachments`.
pub(super) const ATTACHMENT: [&str; 5] =
    ["name", "content_type", "content", "content_id", "disposition"];
/// Members of `list_unsubscribe`.
pub(super) const LIST_UNSUBSCRIBE: [&str; 2] = ["url", "mailto"];

/// True if the member called `name` belongs to `form` alone.
pub(super) fn is_of(name: &str, form: Form) -> bool {
    MEMBERS.iter().any(|member| member.name == name && member.form == form)
}
