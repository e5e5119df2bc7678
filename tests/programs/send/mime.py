"""A mail as Python's standard library writes it."""

from __future__ import annotations

from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Any


def message(mail: dict[str, Any]) -> EmailMessage:
    written = EmailMessage()
    written["From"] = Address(mail["from_name"], addr_spec=mail["from"])
    written["To"] = Address(mail["to_name"], addr_spec=mail["to"])
    written["Subject"] = mail["subject"]
    written["Date"] = formatdate()
    written["Message-ID"] = make_msgid(domain="example.org")
    written["X-Order"] = mail["order"]
    others = {"Cc": "cc", "Bcc": "bcc", "Reply-To": "reply_to", "X-Tidegate-Campaign": "campaign"}
    for name, member in others.items():
        if mail[member]:
            written[name] = mail[member]
    written.set_content(mail["text"])
    if mail["html"]:
        written.add_alternative(mail["html"], subtype="html")
    if mail["attachment"]:
        file = Path(mail["attachment"])
        written.add_attachment(file.read_bytes(), maintype="application", subtype="pdf", filename=file.name)
    return written
