"""The mails that every program sends: their content, and the addresses by which each is known again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# The roles of recipients, by their domain (RFC 2606 reserves it, so no mail can reach anybody).
TO, CC, BCC = "to.example", "cc.example", "bcc.example"
# The campaign of mail that names none: the relay's --campaign.
UNNAMED = "small"
TEXT = """Grüße aus Köln,

.eine Zeile mit einem Punkt am Anfang
..und eine mit zweien

Nummer {number}
"""
HTML = "<html><body><p>Grüße aus <b>Köln</b>, Nummer {number}</p></body></html>"
# Every byte, several times: a bit that some way does not carry shows.
ATTACHMENT = bytes(range(256)) * 8

Letter = dict[str, Any]


def letters(program: str, number: int, folder: Path) -> list[Letter]:
    """So many mails of a program, of four kinds in turn; their attachment is a file in `folder`."""
    file = folder / "plan.pdf"
    if not file.exists():
        file.write_bytes(ATTACHMENT)
    return [letter(program, index, str(file)) for index in range(1, number + 1)]


def letter(program: str, index: int, file: str) -> Letter:
    key = f"{program}-{index:05}"
    full, plain = index % 4 == 1, index % 4 == 2
    return {
        "from_name": "Möller & Söhne",
        "from": "news@example.org",
        "to_name": "Zoë Müller",
        "to": f"{key}@{TO}",
        "cc": f"{key}@{CC}" if full else None,
        "bcc": f"{key}@{BCC}" if full else None,
        "reply_to": "answers@example.org" if full else None,
        "subject": f"Grüße Nummer {index}",
        "text": TEXT.format(number=index),
        "html": None if plain else HTML.format(number=index),
        "attachment": file if full else None,
        "campaign": {1: "big", 2: None, 3: "express", 0: "small"}[index % 4],
        "order": f"A-{index:05}",
    }


def key_of(letter: Letter) -> str:
    return str(letter["to"]).split("@")[0]


def campaign_of(letter: Letter) -> str:
    """The campaign whose queue the mail is put on."""
    return str(letter["campaign"] or UNNAMED)
