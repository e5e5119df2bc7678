"""What programs send that are not run here, byte for byte as their source writes it."""

from __future__ import annotations

import base64
import json
import os
import unittest
import urllib.error
import urllib.request
from email.message import EmailMessage
from typing import Any
from urllib.parse import quote

import compare
from letters import ATTACHMENT, BCC, CC, TEXT, TO
from programs import MissingError, addresses, node, run
from stack import ARRIVE_SECONDS, STACK_SET, Record, mailbox, shared

# Headers that AWS's SDK for PHP sets (Laravel); the signature is not checked on loopback.
SIGNED = ("AWS4-HMAC-SHA256 Credential=local/20260101/eu-west-1/ses/aws4_request, SignedHeaders=aws-sdk-invocation-id;"
          "aws-sdk-retry;host;x-amz-date, Signature=" + 64 * "0")  # fmt: skip


def post(path: str, body: bytes, **headers: str) -> str:
    asked = urllib.request.Request(
        f"{shared().relay.http}{path}", body, {name.replace("_", "-"): value for name, value in headers.items()}
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return str(answer.read().decode())


def arrived(key: str) -> Record:
    records = mailbox().wait([key], ARRIVE_SECONDS)[key]
    if len(records) != 1:
        raise AssertionError(f"{key} was sent {len(records)} times")
    return records[0]


class Listmonk(unittest.TestCase):
    """The messenger of listmonk 5 (internal/messenger/postback/postback.go): one POST for each subscriber."""

    def mail(self, key: str, **more: Any) -> bytes:
        campaign = {"from_email": "News <news@example.org>", "uuid": "2e7e4b51-f31b-418a-a120-e41800cb689f", "name": "News",
                    "tags": ["monthly"], "headers": [{"X-Tidegate-Campaign": "big"}]}  # fmt: skip
        subscriber = {"uuid": "e44b4135-1e1d-40c5-8a30-0f9a886c2884", "email": f"{key}@{TO}", "name": "Zoë Müller",
                      "attribs": {"city": "Köln"}, "status": "enabled"}  # fmt: skip
        mail = {"subject": "Grüße", "from_email": "News <news@example.org>", "content_type": "richtext", "body": "<p>Grüße</p>",
                "recipients": [subscriber], "campaign": campaign, "attachments": None}  # fmt: skip
        return json.dumps(mail | more, ensure_ascii=False).encode()

    def post(self, body: bytes) -> str:
        return post("/listmonk", body, Content_Type="application/json", User_Agent="listmonk")

    def test_a_mail_of_a_campaign_arrives_once_however_often_it_is_posted(self) -> None:
        for _ in range(3):
            self.post(self.mail("listmonk-00001"))
        record = arrived("listmonk-00001")
        self.assertEqual(record["tags"]["tidegate_campaign"], "big")
        said = compare.of_request(record["request"])
        self.assertEqual((said.sender, said.members["subject"]), ("News <news@example.org>", "Grüße"))
        self.assertEqual(said.members["body"], {"Html": "<p>Grüße</p>"})
        self.assertEqual(said.members["headers"], [])

    def test_an_attachment_arrives_with_its_bytes_and_its_type(self) -> None:
        header = {
            "Content-Disposition": ['attachment; filename="plan.pdf"'],
            "Content-Transfer-Encoding": ["base64"],
            "Content-Type": ['application/pdf; name="plan.pdf"'],
        }
        file = {"name": "plan.pdf", "header": header, "content": base64.b64encode(ATTACHMENT).decode()}
        self.post(self.mail("listmonk-00002", attachments=[file]))
        said = compare.of_request(arrived("listmonk-00002")["request"])
        self.assertEqual(said.members["attachments"], [("plan.pdf", "application/pdf", "ATTACHMENT", None, ATTACHMENT)])

    def test_a_campaign_that_is_not_there_is_an_error_which_listmonk_logs(self) -> None:
        body = json.loads(self.mail("listmonk-00003"))
        body["campaign"]["headers"] = [{"X-Tidegate-Campaign": "nwes"}]
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.post(json.dumps(body).encode())
        self.assertEqual(refused.exception.code, 400)
        refused.exception.close()


class Laravel(unittest.TestCase):
    """Laravel's transports for SES (SesTransport, SesV2Transport): whole messages by AWS's SDK for PHP."""

    def message(self, key: str) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "News <news@example.org>", f"{key}@{TO}", "Grüße"
        message["Message-ID"], message["MIME-Version"] = f"<{key}@example.org>", "1.0"
        message["X-Tidegate-Campaign"] = "big"
        message.set_content(TEXT.format(number=1))
        return message

    def headers(self, key: str, content_type: str) -> dict[str, str]:
        return {"Content_Type": content_type, "Authorization": SIGNED, "X_Amz_Date": "20260101T000000Z",
                "aws_sdk_invocation_id": key, "aws_sdk_retry": "0/0", "User_Agent": "aws-sdk-php/3.369"}  # fmt: skip

    def check(self, key: str) -> None:
        record = arrived(key)
        said = compare.of_request(record["request"])
        self.assertEqual((record["tags"]["tidegate_campaign"], said.recipients), ("big", [f"{key}@{TO}"]))
        expected = self.message(key)
        del expected["X-Tidegate-Campaign"]
        self.assertEqual(said.message, expected.as_bytes())

    def test_the_transport_ses_sends_a_raw_mail_once(self) -> None:
        key = "laravel-00001"
        data = base64.b64encode(self.message(key).as_bytes()).decode()
        fields = {"Action": "SendRawEmail", "Version": "2010-12-01", "Source": '"News" <news@example.org>',
                  "Destinations.member.1": f"{key}@{TO}", "RawMessage.Data": data}  # fmt: skip
        body = "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items()).encode()
        for _ in range(2):
            said = post("/", body, **self.headers(key, "application/x-www-form-urlencoded"))
        self.assertRegex(said, r"<MessageId>[0-9a-f]{32}</MessageId>")
        self.check(key)

    def test_the_transport_ses_v2_sends_a_raw_mail_once(self) -> None:
        key = "laravel-00002"
        data = base64.b64encode(self.message(key).as_bytes()).decode()
        body = json.dumps({"Destination": {"ToAddresses": [f"{key}@{TO}"]}, "Content": {"Raw": {"Data": data}}}).encode()
        for _ in range(2):
            said = post("/v2/email/outbound-emails", body, **self.headers(key, "application/json"))
        self.assertRegex(json.loads(said)["MessageId"], r"^[0-9a-f]{32}$")
        self.check(key)


class Header(unittest.TestCase):
    """What a whole message says to SES in its header, as Rails' and other mailers write it."""

    def test_settings_become_members_and_bcc_is_told_to_nobody(self) -> None:
        key = "header-00001"
        message = EmailMessage()
        message["From"], message["To"], message["Cc"] = "news@example.org", f"{key}@{TO}", f"{key}@{CC}"
        message["Bcc"], message["Subject"] = f"{key}@{BCC}", "Hello"
        message["X-SES-CONFIGURATION-SET"], message["X-SES-MESSAGE-TAGS"] = "receipts", "shop=north, kind=order"
        message.set_content("Text.")
        lists = {f"{name}Addresses": [message[name]] for name in ("To", "Cc", "Bcc")}
        data = base64.b64encode(message.as_bytes()).decode()
        body = {"FromEmailAddress": "news@example.org", "Destination": lists, "Content": {"Raw": {"Data": data}}}
        post("/v2/email/outbound-emails", json.dumps(body).encode(), Content_Type="application/json", Authorization=SIGNED)
        relayed = compare.of_request(arrived(key)["request"])
        known, others = compare.differences(compare.of_request(body), relayed, STACK_SET)
        expected = {compare.OWN_TAGS, compare.SETTINGS, compare.BLIND, compare.ONE_LIST}
        self.assertEqual((known, others), (expected, []))
        self.assertEqual(relayed.configuration_set, "receipts")
        self.assertEqual(relayed.tags, {"shop": "north", "kind": "order"})


class Nodemailer(unittest.TestCase):
    def test_its_verify_finds_the_relay_by_ses_and_by_smtp(self) -> None:
        relay = shared().relay
        try:
            command = node("nodemailer_verify.mjs")
        except MissingError as error:
            if os.environ.get("CI"):
                raise
            self.skipTest(str(error))
        for way in ("ses", "smtp"):
            with self.subTest(way):
                self.assertEqual(run([*command, way], addresses(relay.http, relay.smtp[0]), 60.0).strip(), "true")


class SymfonyApi(unittest.TestCase):
    """Symfony's `ses+api` (SesApiAsyncAwsTransport), by which Mautic's plugin sends: the members of a mail, not a message."""

    def test_a_mail_with_names_copies_and_a_charset_arrives(self) -> None:
        key = "symfony-api-00001"
        name = f"=?UTF-8?B?{base64.b64encode('Zoë Müller'.encode()).decode()}?="
        body = {"FromEmailAddress": '"News" <news@example.org>',
                "Destination": {"ToAddresses": [f"{name} <{key}@{TO}>"], "CcAddresses": [f"{key}@cc.example"]},
                "ReplyToAddresses": ["answers@example.org"],
                "Content": {"Simple": {"Subject": {"Data": "Grüße", "Charset": "utf-8"},
                                       "Body": {"Text": {"Data": TEXT, "Charset": "utf-8"}}}}}  # fmt: skip
        post("/v2/email/outbound-emails", json.dumps(body).encode(), Content_Type="application/json", Authorization=SIGNED)
        relayed = compare.of_request(arrived(key)["request"])
        known, others = compare.differences(compare.of_request(body), relayed, STACK_SET)
        self.assertEqual((known, others), ({compare.OWN_TAGS, compare.STACK_SET, compare.QUOTES}, []))


if __name__ == "__main__":
    unittest.main()
