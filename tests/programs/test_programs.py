"""Unmodified programs send through the relay, and SES gets what they send it straight.

Each program sends the same mails twice: through relay, SQS and poller to an SES that keeps its quota, and straight to an
SES of its own, or a plain SMTP server. A few of them run at a time. How fast it goes is measured in together.py.
"""

from __future__ import annotations

import json
import os
import re
import time
import unittest
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import compare
from letters import Letter, campaign_of, key_of, letters
from programs import HERE, MAKERS, MissingError, Program, addresses, program, run, version_of
from sink import Sink
from stack import ARRIVE_SECONDS, KEY, STACK_SET, Mailbox, Record, mailbox, shared

# Programs that run at the same time: more of them than cores, because they also wait.
AT_ONCE = 3
# Mail that comes twice comes within the visibility timeout of the queues; what the last window sends, within seconds.
LATE_SECONDS = 3.0
# A program without a relay waits so long for each answer, so that the mailbox keeps up.
STRAIGHT_LATENCY = "15ms"
DOCS = HERE.parents[1] / "docs/programs"


@dataclass
class HandedOver:
    """The mails of a program, which the relay has taken."""

    program: Program
    letters: list[Letter]
    file: Path
    seconds: float

    def keys(self) -> list[str]:
        return [key_of(letter) for letter in self.letters]

    def straight(self) -> dict[str, compare.Mail]:
        """The same mails without a relay."""
        command = [*self.program.command, str(self.file), *self.program.options]
        if self.program.way == "smtp":
            sink = Sink()
            run(command, addresses("http://127.0.0.1:9", f"127.0.0.1:{sink.port}"))
            sink.end()
            by_key = {KEY.findall(" ".join(handed.recipients))[0]: compare.of_handed(handed) for handed in sink.mails}
            if len(sink.mails) != len(by_key):
                raise RuntimeError(f"{self.program.name} handed over {len(sink.mails)} mails for {len(by_key)} recipients")
            return by_key
        url = shared().ses_sandbox(f"{self.program.name}-sandbox", "--quota", "10000", "--latency", STRAIGHT_LATENCY)
        arrived = Mailbox(url)
        run(command, addresses(url, "127.0.0.1:9"))
        found = arrived.wait(self.keys(), ARRIVE_SECONDS)
        arrived.end()
        return {key: compare.of_request(records[0]["request"]) for key, records in found.items()}


@dataclass
class Run:
    """A program's mails, as they arrived by both ways."""

    handed: HandedOver
    version: str
    relayed: dict[str, list[Record]]
    straight: dict[str, compare.Mail]


def hand_over(name: str) -> HandedOver:
    """Runs a program with the relay's addresses."""
    asked, stack = program(name), shared()
    mails = letters(name, asked.mails, stack.folder)
    file = stack.folder / f"{name}.json"
    file.write_text(json.dumps(mails, ensure_ascii=False), encoding="utf-8")
    began = time.monotonic()
    run([*asked.command, str(file), *asked.options], addresses(stack.relay.http, stack.relay.smtp[0]))
    return HandedOver(asked, mails, file, time.monotonic() - began)


def both_ways(handing: Future[HandedOver]) -> Run:
    handed = handing.result()
    direct = handed.straight()
    return Run(handed, version_of(handed.program), mailbox().wait(handed.keys(), ARRIVE_SECONDS), direct)


class Programs(unittest.TestCase):
    runs: ClassVar[dict[str, Future[Run]]] = {}
    before: ClassVar[dict[str, int]] = {}

    @classmethod
    def setUpClass(cls) -> None:
        mailbox()
        # Other tests have mails refused on the same relay.
        cls.before = shared().relay.counts()
        # Those of one process for all mails first: they fill the queues, while the others start anew for each.
        order = sorted(MAKERS, key=lambda name: name in ("aws-cli", "swaks", "msmtp"))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            handing = {name: pool.submit(hand_over, name) for name in order}
            # What they send straight, and to be compared, comes after all of it.
            cls.runs = {name: pool.submit(both_ways, future) for name, future in handing.items()}
        time.sleep(LATE_SECONDS)
        cls.tell()

    @classmethod
    def tell(cls) -> None:
        """A line for each program, with its version."""
        for name, future in cls.runs.items():
            if future.exception() is None:
                done = future.result()
                handed = f"{len(done.handed.letters):4} mails handed over in {done.handed.seconds:5.1f} s"
                print(f"{name:16} {done.version:16} {handed}", flush=True)
            else:
                print(f"{name:16} {future.exception()}", flush=True)

    def done(self, name: str) -> Run:
        try:
            return self.runs[name].result()
        except MissingError as error:
            if os.environ.get("CI"):
                raise
            raise unittest.SkipTest(f"{name}: {error}") from None

    def check(self, name: str) -> None:
        """Every mail arrived once, from the right queue, as it is when the program sends it straight."""
        done, faults = self.done(name), Counter[str]()
        differences: set[str] = set()
        for letter in done.handed.letters:
            known, others = self.compared(done, letter)
            differences |= known
            faults.update(others)
        self.assertEqual(faults, {}, f"in so many of {len(done.handed.letters)} mails")
        print(f"{name:16} differs by: {', '.join(sorted(differences))}", flush=True)

    def compared(self, done: Run, letter: Letter) -> tuple[set[str], list[str]]:
        """The known differences of a mail, and its faults."""
        key = key_of(letter)
        records = done.relayed[key]
        relayed, campaign = compare.of_request(records[0]["request"]), records[0]["tags"]["tidegate_campaign"]
        known, others = compare.differences(done.straight[key], relayed, STACK_SET)
        others += compare.faults(relayed, letter, done.handed.program.unsaid)
        if len(records) != 1:
            others.append(f"it was sent {len(records)} times")
        if campaign != campaign_of(letter):
            others.append(f"it was in the campaign {campaign}")
        # What is of one mail alone would be another text for each.
        return known, [other.replace(key, "KEY") for other in others]

    def test_boto3_by_ses_version_1_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("boto3-ses")

    def test_boto3_by_ses_version_2_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("boto3-sesv2")

    def test_the_aws_cli_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("aws-cli")

    def test_the_aws_sdk_for_javascript_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("sdk-v3")

    def test_nodemailer_by_ses_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("nodemailer-ses")

    def test_nodemailer_by_smtp_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("nodemailer-smtp")

    def test_django_by_smtp_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("django-smtp")

    def test_django_ses_by_ses_version_1_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("django-ses")

    def test_django_ses_by_ses_version_2_sends_through_the_relay_as_it_sends_to_ses(self) -> None:
        self.check("django-sesv2")

    def test_smtplib_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("smtplib")

    def test_msmtp_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("msmtp")

    def test_swaks_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("swaks")

    def test_phpmailer_as_wordpress_has_it_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("phpmailer")

    def test_symfony_mailer_as_laravel_and_mautic_have_it_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("symfony")

    def test_rubys_mail_as_rails_has_it_sends_through_the_relay_what_it_hands_to_a_server(self) -> None:
        self.check("ruby-mail")

    def test_the_relay_refused_nothing_and_ses_nothing_for_the_rate(self) -> None:
        told = shared().relay.counts().items()
        since = {outcome: number - self.before.get(outcome, 0) for outcome, number in told}
        self.assertGreater(since.pop("accepted"), 0)
        self.assertFalse(any(since.values()), since)
        self.assertEqual(shared().refused(), {})


class Pages(unittest.TestCase):
    def test_every_known_difference_is_in_the_docs_and_no_other(self) -> None:
        page = (DOCS / "index.md").read_text(encoding="utf-8")
        table = page.split("## What differs in a mail")[1].split("\n## ")[0]
        self.assertEqual(set(re.findall(r"^\| \*\*(.+?)\*\* \|", table, re.M)), compare.KNOWN)

    def test_the_docs_name_the_versions_that_are_tested(self) -> None:
        pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (HERE / "requirements.in").read_text(), re.M))
        pinned |= json.loads((HERE / "package.json").read_text())["dependencies"]
        for page, names in {"django": ("django", "django-ses"), "nodemailer": ("nodemailer",)}.items():
            said = (DOCS / f"{page}.md").read_text(encoding="utf-8").rstrip().split("\n")[-1]
            for name in names:
                self.assertIn(pinned[name], said, f"{page}.md, {name}")


if __name__ == "__main__":
    unittest.main()
