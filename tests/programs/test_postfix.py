"""Postfix hands mail to a relay: whole, again while the relay has no SQS, and back where the relay refuses it."""

from __future__ import annotations

import os
import re
import smtplib
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

import compare
from letters import ATTACHMENT, TO
from postfix import Postfix, missing
from stack import ARRIVE_SECONDS, Record, Relay, mailbox, shared, within

MAILS = 100
# The relay's call to SQS times out, and Postfix waits for its next try.
OUTAGE_SECONDS = 120.0
# So long no second one comes behind a mail that arrived.
QUIET_SECONDS = 5.0
SENDER = "news@example.org"
RECEIVED = rb"(?im)\A(?:received:.*\n(?:[ \t].*\n)*)+"


def letter(key: str, *more: str) -> bytes:
    """Lines as long as SMTP has them, dots at their start, bytes beyond ASCII."""
    head = [f"From: {SENDER}", f"To: {key}@{TO}", f"Subject: {key}", f"Message-ID: <{key}@postfix.example>",
            "Date: Sat, 28 Nov 2026 03:00:00 +0000", "MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8",
            "Content-Transfer-Encoding: 8bit", *more]  # fmt: skip
    body = [".a dot", "..two dots", "Grüße aus Köln", "", "x" * 900, ATTACHMENT.hex()[:900], key, "trailing blanks   ", ""]
    return "\r\n".join([*head, "", *body]).encode()


class ThroughPostfix(unittest.TestCase):
    def setUp(self) -> None:
        if why := missing():
            if os.environ.get("CI"):
                self.fail(why)
            self.skipTest(why)
        folder = tempfile.TemporaryDirectory(prefix="tidegate-postfix-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def postfix(self, relay: Relay) -> Postfix:
        postfix = Postfix(self.folder, f"[127.0.0.1]:{relay.smtp[0].rsplit(':', 1)[1]}")
        self.addCleanup(postfix.end)
        postfix.start()
        return postfix

    def hand_over(self, postfix: Postfix, letters: Sequence[tuple[str, bytes]]) -> None:
        with smtplib.SMTP("127.0.0.1", postfix.port, timeout=30) as client:
            for key, content in letters:
                client.sendmail(SENDER, [f"{key}@{TO}"], content, ["BODY=8BITMIME"])

    def same(self, records: list[Record], content: bytes) -> None:
        self.assertEqual(len(records), 1)
        message = compare.of_request(records[0]["request"]).message
        self.assertIsNotNone(message)
        self.assertEqual(re.sub(RECEIVED, b"", message or b""), content)

    def test_a_hundred_mails_arrive_byte_for_byte_and_once(self) -> None:
        postfix = self.postfix(shared().relay)
        letters = {key: letter(key) for key in (f"postfix-{index:05}" for index in range(1, MAILS + 1))}
        self.hand_over(postfix, list(letters.items()))
        arrived = mailbox().wait(list(letters), ARRIVE_SECONDS)
        within(ARRIVE_SECONDS, "Postfix's queue is empty", lambda: postfix.queued() == 0 or None)
        for key, content in letters.items():
            self.same(arrived[key], content)

    def test_while_the_relay_has_no_sqs_postfix_keeps_the_mails_and_each_is_sent_once(self) -> None:
        postfix = self.postfix(shared().relay)
        letters = {key: letter(key) for key in (f"postfix-outage-{index:05}" for index in range(1, 11))}
        with shared().without_sqs():
            self.hand_over(postfix, list(letters.items()))
            within(OUTAGE_SECONDS, "the relay answers 451", lambda: re.search(r"status=deferred .* said: 451 ", postfix.said()))
            self.assertEqual(postfix.queued(), len(letters), postfix.said())
        arrived = mailbox().wait(list(letters), OUTAGE_SECONDS)
        within(OUTAGE_SECONDS, "Postfix's queue is empty", lambda: postfix.queued() == 0 or None)
        # What SQS took late, and Postfix handed over again, is sent behind it if it is sent twice.
        self.hand_over(postfix, [("postfix-after-00001", letter("postfix-after-00001"))])
        mailbox().wait(["postfix-after-00001"], ARRIVE_SECONDS)
        mailbox().stopped.wait(QUIET_SECONDS)
        for key, content in letters.items():
            self.same(arrived[key], content)

    def test_a_campaign_that_is_not_there_is_a_bounce_with_the_relays_text(self) -> None:
        postfix = self.postfix(shared().relay)
        key = "postfix-refused-00001"
        self.hand_over(postfix, [(key, letter(key, "X-Tidegate-Campaign: nwes"))])
        line = within(ARRIVE_SECONDS, "the mail bounces", lambda: re.search(rf"to=<{key}@.*status=bounced .*", postfix.said()))
        self.assertRegex(line[0], r"said: 5\d\d .*nwes.*small")
        self.assertNotIn(key, mailbox().mails)


if __name__ == "__main__":
    unittest.main()
