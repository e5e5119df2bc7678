"""Compares a mail that SES got through the relay with what the same program sends straight."""

from __future__ import annotations

import base64
import email
import email.policy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import parseaddr
from typing import Any

from letters import ATTACHMENT, BCC, CC, Letter
from sink import Handed

# The differences that there may be, as docs/programs/index.md lists them; a test compares the two.
OWN_TAGS = "Two more tags"
STEERING = "`X-Tidegate-…` is gone"
BLIND = "`Bcc` is gone from the header"
SETTINGS = "`X-SES-…` becomes a member"
ONE_LIST = "One list of recipients"
STACK_SET = "The stack's configuration set"
QUOTES = "Quotes around a name"
KNOWN = {OWN_TAGS, STACK_SET, STEERING, BLIND, SETTINGS, ONE_LIST, QUOTES}

# What is new each time that a program writes a mail.
ANEW = rb"(?im)^(?:date|message-id|content-id):.*\n(?:[ \t].*\n)*"
STEERING_FIELDS = rb"(?im)^x-tidegate-[a-z-]+:.*\n(?:[ \t].*\n)*"
BLIND_FIELDS = rb"(?im)^(?:resent-)?bcc:.*\n(?:[ \t].*\n)*"
SETTING_FIELDS = rb"(?im)^x-ses-(?:configuration-set|message-tags):.*\n(?:[ \t].*\n)*"
BOUNDARY = rb"(?i)boundary=\"?([^\";\r\n]+)\"?"
OWN = ("tidegate_campaign", "tidegate_id")
# Members of a request that the relay carries, as paths; each index of a list is `*`.
CARRIED = {
    "FromEmailAddress", "Destination.ToAddresses.*", "Destination.CcAddresses.*", "Destination.BccAddresses.*",
    "ReplyToAddresses.*", "EmailTags.*.Name", "EmailTags.*.Value", "ConfigurationSetName", "Content.Raw.Data",
    "Content.Simple.Subject.Data", "Content.Simple.Body.Text.Data", "Content.Simple.Body.Html.Data",
    "Content.Simple.Headers.*.Name", "Content.Simple.Headers.*.Value", "Content.Simple.Attachments.*.FileName",
    "Content.Simple.Attachments.*.RawContent", "Content.Simple.Attachments.*.ContentType",
    "Content.Simple.Attachments.*.ContentId", "Content.Simple.Attachments.*.ContentDisposition",
}  # fmt: skip
# They say how a text or a file travels. It arrives the same.
OF_THE_WAY = (".Charset", ".ContentTransferEncoding")


@dataclass
class Mail:
    """A mail as SES, or a server of SMTP, got it."""

    sender: str
    # Addresses without names.
    recipients: list[str]
    # By name; those of Tidegate are not in it.
    tags: dict[str, str] = field(default_factory=dict)
    configuration_set: str | None = None
    # The members of a mail that SES puts together; none of a mail that came as a whole.
    members: dict[str, Any] = field(default_factory=dict)
    # The MIME message; none if SES puts the mail together.
    message: bytes | None = None
    # The recipients stand in more lists than one.
    is_sorted: bool = False
    names_own_tags: bool = False


def bare(mailbox: str) -> str:
    """The address in `Name <address>`."""
    return mailbox.rsplit("<", 1)[-1].rstrip("> ").strip()


def paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from paths(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, f"{path}.*")
    elif value is not None:
        yield path


def of_request(request: dict[str, Any]) -> Mail:
    """A mail from the body that the call has in version 2."""
    found = set(paths(request))
    if strange := {path for path in found - CARRIED if not path.endswith(OF_THE_WAY)}:
        raise ValueError(f"members that are not compared: {sorted(strange)}")
    tags = {tag["Name"]: tag["Value"] for tag in request.get("EmailTags") or []}
    lists = {name: request.get("Destination", {}).get(f"{name}Addresses") or [] for name in ("To", "Cc", "Bcc")}
    mail = Mail(
        sender=request.get("FromEmailAddress", ""),
        recipients=[bare(one) for several in lists.values() for one in several],
        tags={name: value for name, value in tags.items() if name not in OWN},
        configuration_set=request.get("ConfigurationSetName"),
        is_sorted=bool(lists["Cc"] or lists["Bcc"]),
        names_own_tags=set(OWN) <= set(tags),
    )
    content = request["Content"]
    if raw := content.get("Raw"):
        mail.message = base64.b64decode(raw["Data"])
        mail.sender = bare(mail.sender)
        if not mail.recipients or not mail.sender:
            header = read(mail.message)
            fields = [header[name] for name in ("To", "Cc", "Bcc") if header[name]]
            mail.recipients = mail.recipients or [one.addr_spec for each in fields for one in each.addresses]
            mail.sender = mail.sender or header["From"].addresses[0].addr_spec
        return mail
    simple = content["Simple"]
    files = [
        (file["FileName"], file.get("ContentType"), file.get("ContentDisposition"), file.get("ContentId"),
         base64.b64decode(file["RawContent"])) for file in simple.get("Attachments") or []
    ]  # fmt: skip
    mail.members = {
        "lists": lists,
        "reply_to": request.get("ReplyToAddresses") or [],
        "subject": simple["Subject"]["Data"],
        "body": {kind: text["Data"] for kind, text in simple["Body"].items() if text},
        "headers": sorted((header["Name"], header["Value"]) for header in simple.get("Headers") or []),
        "attachments": files,
    }
    return mail


def of_handed(handed: Handed) -> Mail:
    return Mail(sender=handed.sender, recipients=list(handed.recipients), message=handed.message)


def read(message: bytes) -> EmailMessage:
    parsed = email.message_from_bytes(message, policy=email.policy.default)
    if not isinstance(parsed, EmailMessage):
        raise TypeError(type(parsed))
    return parsed


def split(message: bytes) -> tuple[bytes, bytes]:
    end = re.search(rb"\r?\n\r?\n", message)
    place = end.end() if end else len(message)
    return message[:place], message[place:]


def canonical(message: bytes) -> bytes:
    """The message without what is new each time."""
    for number, boundary in enumerate(dict.fromkeys(re.findall(BOUNDARY, message))):
        message = message.replace(boundary, b"boundary-%d" % number)
    return re.sub(ANEW, b"", message)


def differences(direct: Mail, relayed: Mail, stack_set: str | None) -> tuple[set[str], list[str]]:
    """The known differences between two mails, and the others in words; `stack_set` is the stack's configuration set."""
    known: set[str] = set()
    others: list[str] = []

    def same(what: str, left: Any, right: Any) -> None:
        if left != right:
            others.append(f"{what}: straight {left!r}, through the relay {right!r}")

    if relayed.names_own_tags:
        known.add(OWN_TAGS)
    else:
        others.append("the relayed mail lacks Tidegate's tags")
    if direct.sender != relayed.sender and parseaddr(direct.sender) == parseaddr(relayed.sender):
        known.add(QUOTES)
    else:
        same("sender", direct.sender, relayed.sender)
    same("recipients", sorted(direct.recipients), sorted(relayed.recipients))
    if direct.message is None or relayed.message is None:
        same("a whole message", direct.message is not None, relayed.message is not None)
        members(direct, relayed, known, same)
        settings = False
    else:
        if direct.is_sorted and not relayed.is_sorted:
            known.add(ONE_LIST)
        settings = whole(direct, relayed, known, same)
    if not settings:
        same("tags", direct.tags, relayed.tags)
        if direct.configuration_set is None and relayed.configuration_set == stack_set:
            known |= {STACK_SET} if stack_set else set()
        else:
            same("configuration set", direct.configuration_set, relayed.configuration_set)
    return known, others


def members(direct: Mail, relayed: Mail, known: set[str], same: Any) -> None:
    """Compares mails that SES puts together."""
    for name in direct.members:
        left, right = direct.members[name], relayed.members.get(name)
        if name == "headers":
            steering = [header for header in left if header[0].lower().startswith("x-tidegate-")]
            left = [header for header in left if header not in steering]
            known |= {STEERING} if steering else set()
        same(name, left, right)


def whole(direct: Mail, relayed: Mail, known: set[str], same: Any) -> bool:
    """Compares MIME messages byte for byte, but for the fields that never leave; whether some of them are SES's settings."""
    head, body = split(direct.message or b"")
    settings = re.search(SETTING_FIELDS, head) is not None
    for name, fields in ((STEERING, STEERING_FIELDS), (BLIND, BLIND_FIELDS), (SETTINGS, SETTING_FIELDS)):
        head, number = re.subn(fields, b"", head)
        known |= {name} if number else set()
    expected, got = canonical(head + body), canonical(relayed.message or b"")
    if expected != got:
        lines, others = expected.split(b"\n"), got.split(b"\n")
        place = next((at for at, pair in enumerate(zip(lines, others, strict=False)) if pair[0] != pair[1]), -1)
        shown = slice(place, place + 3)
        same(f"the message from line {place + 1} on", lines[shown], others[shown])
    return settings


def faults(mail: Mail, letter: Letter, unsaid: tuple[str, ...] = ()) -> Iterator[str]:
    """Whatever of a letter is not in the mail, but for what its program leaves unsaid: both ways may be wrong alike."""
    found = of_members(mail) if mail.message is None else of_message(read(mail.message))
    wanted: dict[str, Any] = {
        "subject": letter["subject"],
        "text": lines(letter["text"]),
        "attachments": [("plan.pdf", ATTACHMENT)] if letter["attachment"] else [],
        "reply_to": [letter["reply_to"]] if letter["reply_to"] else [],
        "html": lines(letter["html"] or ""),
        "order": letter["order"],
    }
    for name, value in wanted.items():
        if name not in unsaid and found[name] != value:
            yield f"{name} is {found[name]!r}, and should be {value!r}"
    key = letter["to"].split("@")[0]
    everybody = {letter["to"], *(f"{key}@{role}" for role in (CC, BCC) if letter["cc"])}
    if set(mail.recipients) != everybody:
        yield f"recipients are {mail.recipients!r}"


def lines(text: str) -> list[str]:
    """Programs end lines as they like (Ruby's mail with two CR), and the last one or not."""
    return re.sub(r"\r+\n", "\n", text).rstrip("\n").split("\n")


def of_members(mail: Mail) -> dict[str, Any]:
    said = mail.members
    return {
        "subject": said["subject"],
        "text": lines(said["body"].get("Text", "")),
        "html": lines(said["body"].get("Html", "")),
        "attachments": [(file[0], file[-1]) for file in said["attachments"]],
        "reply_to": [bare(one) for one in said["reply_to"]],
        "order": dict(said["headers"]).get("X-Order"),
    }


def of_message(message: EmailMessage) -> dict[str, Any]:
    def text(kind: str) -> list[str]:
        part = message.get_body(preferencelist=(kind,))
        return lines(part.get_content()) if part else [""]

    reply_to = message["Reply-To"]
    files = [part for part in message.walk() if part.get_filename()]
    return {
        "subject": message["Subject"],
        "text": text("plain"),
        "html": text("html"),
        "attachments": [(part.get_filename(), part.get_payload(decode=True)) for part in files],
        "reply_to": [one.addr_spec for one in reply_to.addresses] if reply_to else [],
        "order": message["X-Order"],
    }
