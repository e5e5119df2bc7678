"""Programs send with TLS and the relay's own key pairs, and are refused without them."""

from __future__ import annotations

import json
import os
import smtplib
import ssl
import subprocess
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import boto3
from botocore.exceptions import ClientError
from letters import Letter, key_of, letters
from programs import MissingError, environment, found
from stack import ARRIVE_SECONDS, ROOT, Relay, mailbox, shared

sys.path.append(str(Path(__file__).resolve().parent / "send"))
from mime import message

CERTIFICATE, KEY = ROOT / "tests/localhost/cert.pem", ROOT / "tests/localhost/key.pem"
USER, SECRET = "RELAYNEWS", "a secret of this test"


class Credentials(unittest.TestCase):
    relay: ClassVar[Relay]

    @classmethod
    def setUpClass(cls) -> None:
        stack = shared()
        mailbox()
        keys = stack.folder / "keys.json"
        keys.write_text(json.dumps({USER: {"secret": SECRET, "campaigns": ["big", "small"], "senders": ["*@example.org"]}}))
        cls.relay = stack.another_relay(
            "relay-tls", "--credentials", keys, "--tls-cert", CERTIFICATE, "--tls-key", KEY, "--smtps", "127.0.0.1:0"
        )

    def port(self, place: int) -> int:
        return int(self.relay.smtp[place].rsplit(":", 1)[1])

    def letters(self, name: str, number: int = 3) -> list[Letter]:
        """Mails to campaigns that the key pair may send to."""
        written = letters(name, number, shared().folder)
        for letter in written:
            letter["campaign"] = "big" if letter["campaign"] == "express" else letter["campaign"]
        return written

    def arrive(self, sent: list[Letter]) -> None:
        arrived = mailbox().wait([key_of(letter) for letter in sent], ARRIVE_SECONDS)
        self.assertEqual([len(records) for records in arrived.values()], [1] * len(sent))

    @contextmanager
    def smtp(self) -> Iterator[smtplib.SMTP]:
        with smtplib.SMTP("localhost", self.port(0)) as server:
            server.starttls(context=ssl.create_default_context(cafile=str(CERTIFICATE)))
            yield server

    def test_smtplib_sends_after_starttls_and_login(self) -> None:
        sent = self.letters("smtplib-tls")
        with self.smtp() as server:
            server.login(USER, SECRET)
            for letter in sent:
                server.send_message(message(letter))
        self.arrive(sent)

    def test_smtplib_is_refused_with_a_wrong_password_and_without_login_and_without_tls(self) -> None:
        letter = self.letters("smtplib-refused", 1)[0]
        with self.smtp() as server, self.assertRaises(smtplib.SMTPAuthenticationError) as wrong:
            server.login(USER, "another secret")
        self.assertEqual(wrong.exception.smtp_code, 535)
        with self.smtp() as server, self.assertRaises(smtplib.SMTPException) as without:
            server.send_message(message(letter))
        self.assertIn("530", str(without.exception))
        with smtplib.SMTP("localhost", self.port(0)) as server, self.assertRaises(smtplib.SMTPException):
            server.login(USER, SECRET)

    def test_a_sender_that_the_key_pair_does_not_have_is_refused(self) -> None:
        letter = self.letters("smtplib-sender", 1)[0] | {"from": "news@example.net"}
        with self.smtp() as server:
            server.login(USER, SECRET)
            with self.assertRaises(smtplib.SMTPException) as refused:
                server.send_message(message(letter))
        self.assertIn("550", str(refused.exception))

    def test_msmtp_sends_with_tls_from_the_first_byte(self) -> None:
        sent = self.letters("msmtp-tls")
        password = shared().folder / "password"
        password.write_text(f"{SECRET}\n")
        command = [self.needed("msmtp"), "-C", "/dev/null", "--host=localhost", f"--port={self.port(1)}", "--auth=plain",
                   f"--user={USER}", f"--passwordeval=cat {password}", "--tls=on", "--tls-starttls=off",
                   f"--tls-trust-file={CERTIFICATE}", "--read-recipients"]  # fmt: skip
        for letter in sent:
            ended = subprocess.run([*command, f"--from={letter['from']}"], input=message(letter).as_bytes(),
                                   env=environment(), capture_output=True, check=False)  # fmt: skip
            self.assertEqual(ended.returncode, 0, ended.stderr.decode())
        self.arrive(sent)

    def test_swaks_sends_after_starttls_and_login(self) -> None:
        sent = self.letters("swaks-tls")
        for letter in sent:
            command = [self.needed("swaks"), "--server", "localhost", "--port", str(self.port(0)), "--tls", "--auth", "PLAIN",
                       "--auth-user", USER, "--auth-password", SECRET, "--from", letter["from"], "--to", letter["to"],
                       "--body", letter["text"]]  # fmt: skip
            ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False,
                                   stdin=subprocess.DEVNULL)  # fmt: skip
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.arrive(sent)

    def needed(self, name: str) -> str:
        try:
            return found(name, name)
        except MissingError as error:
            if os.environ.get("CI"):
                raise
            raise unittest.SkipTest(str(error)) from None

    def client(self, secret: str) -> Any:
        return boto3.client(
            "sesv2", region_name="us-east-1", verify=str(CERTIFICATE), aws_access_key_id=USER, aws_secret_access_key=secret,
            endpoint_url=self.relay.http.replace("127.0.0.1", "localhost"),
        )  # fmt: skip

    def request(self, letter: Letter) -> dict[str, Any]:
        body = {"Text": {"Data": letter["text"]}}
        return {"FromEmailAddress": letter["from"], "Destination": {"ToAddresses": [letter["to"]]},
                "Content": {"Simple": {"Subject": {"Data": letter["subject"]}, "Body": body}}}  # fmt: skip

    def test_boto3_sends_signed_over_https_and_is_refused_with_a_wrong_secret(self) -> None:
        sent = self.letters("boto3-tls")
        for letter in sent:
            self.client(SECRET).send_email(**self.request(letter))
        self.arrive(sent)
        with self.assertRaises(ClientError) as wrong:
            self.client("another secret of this test").send_email(**self.request(sent[0]))
        self.assertEqual(wrong.exception.response["Error"]["Code"], "InvalidSignatureException")


if __name__ == "__main__":
    unittest.main()
