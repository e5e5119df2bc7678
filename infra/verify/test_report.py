"""Figures from a run's logs, the report of them, and the accounts that are refused before anything is deployed."""

from __future__ import annotations

import contextlib
import io
import json
import unittest
from datetime import datetime, timezone
from typing import Any
from unittest import mock

import verify
from report import Figures, Step, dollars, masked, table

QUOTA = {"SendingEnabled": True, "ProductionAccessEnabled": True, "SendQuota": {"MaxSendRate": 14.0}}


def sent(at: float, latency_ms: int = 50) -> str:
    """The line of a mail that was begun at `at`."""
    ended = datetime.fromtimestamp(at + latency_ms / 1e3, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return json.dumps({"timestamp": ended, "level": "DEBUG", "message": "sent", "latency_ms": latency_ms})


def report(billed: int, rest: str = "") -> str:
    return f"REPORT RequestId: a-b\tDuration: 1.2 ms\tBilled Duration: {billed} ms\tMemory Size: 256 MB\tMax Memory Used: 20 MB{rest}"


class Logs(unittest.TestCase):
    def test_billed_time_cold_starts_latencies_and_notices_are_those_of_the_lines(self) -> None:
        told = [json.dumps({"message": "reported by SES", "what": what}) for what in ("bounced", "bounced", "complained of")]
        seen = Figures([report(3000), report(1000, "\tInit Duration: 17.25 ms\t"), sent(10.0, 40), sent(11.0, 90), *told, "START"])
        self.assertEqual((seen.invocations, seen.init, seen.gb_seconds), (2, [17.25], 1.0))
        self.assertEqual((seen.latencies, seen.feedback), ([40, 90], {"bounced": 2, "complained of": 1}))

    def test_the_worst_second_may_begin_at_any_instant_and_is_half_open(self) -> None:
        self.assertEqual(Figures([sent(at, 0) for at in (0.0, 0.5, 0.9, 1.4, 1.5)]).worst_second(), 3)
        self.assertEqual(Figures([sent(at, 0) for at in (0.0, 1.0, 2.0)]).worst_second(), 1)
        self.assertEqual(Figures([]).worst_second(), 0)

    def test_the_bill_has_every_part_and_their_sum(self) -> None:
        bill = Figures([report(4000)]).bill({"sent": 1000, "sqs_calls": 1_000_000, "windows": 100}, 600)
        self.assertAlmostEqual(bill["SES"], 0.1)
        self.assertAlmostEqual(bill["SQS"], 0.5)
        self.assertAlmostEqual(bill["Lambda"], dollars(lambda_request=1, lambda_gb_s_arm64=1))
        self.assertAlmostEqual(bill["all"], sum(cost for name, cost in bill.items() if name != "all"))


class Steps(unittest.TestCase):
    def holds(self, starts: list[float], allowed: float) -> bool | None:
        """Whether a step of twenty seconds with these mails is as promised."""
        return Figures([sent(at) for at in starts]).of(Step("a", 100.0, 120.0, allowed))[2]

    def test_a_pause_in_which_a_mail_is_sent_is_a_broken_promise(self) -> None:
        self.assertTrue(self.holds([99.9, 120.1], 0))
        self.assertFalse(self.holds([110.0], 0))

    def test_so_is_a_cap_that_is_exceeded(self) -> None:
        self.assertTrue(self.holds([100.0 + place / 5 for place in range(100)], 5))
        self.assertFalse(self.holds([100.0 + place / 6 for place in range(120)], 5))

    def test_so_is_mail_that_stands_still_for_longer_than_a_window_or_two(self) -> None:
        self.assertTrue(self.holds([100.0 + 4 * place for place in range(5)], 10))
        self.assertFalse(self.holds([100.0, 107.0, 114.0], 10))
        self.assertTrue(self.holds([100.0, 110.0], 0.3))

    def test_the_table_says_what_is_not_as_promised_in_bold(self) -> None:
        self.assertIn("| a | b | **no** |", table([("a", "b", False)]))
        self.assertIn("| a | b |  |", table([("a", "b", None)]))


class Report(unittest.TestCase):
    def test_neither_the_account_nor_an_address_is_in_it(self) -> None:
        text = masked("arn:aws:sqs:eu-west-1:123456789012:a, ada.l+1@example.com, sender news@mail.example.org, 1234567890123 ns")
        self.assertEqual(text, "arn:aws:sqs:eu-west-1:ACCOUNT:a, ***@example.com, sender ***@mail.example.org, 1234567890123 ns")

    def test_every_answer_of_the_simulator_is_asked_for_and_no_address_twice(self) -> None:
        to = [verify.recipient(number) for number in range(1000)]
        self.assertEqual(len(set(to)), 1000)
        kinds = [address.partition("+")[0] for address in to]
        self.assertEqual({kind: kinds.count(kind) for kind in verify.OTHERS}, dict.fromkeys(verify.OTHERS, 5))
        self.assertEqual(kinds.count("success"), 980)


class Account(unittest.TestCase):
    def session(self, account: dict[str, Any], verified: str, stacks: list[dict[str, str]]) -> Any:
        """An account in which one identity is verified."""
        class NotFound(Exception):
            pass

        def identity(EmailIdentity: str) -> dict[str, bool]:  # noqa: N803
            if EmailIdentity != verified:
                raise NotFound
            return {"VerifiedForSendingStatus": True}

        client = mock.Mock(get_email_identity=identity)
        client.exceptions.NotFoundException = NotFound
        client.get_account.return_value = account
        client.get_paginator.return_value.paginate.return_value = [{"Stacks": stacks}]
        return mock.Mock(region_name="eu-west-1", client=lambda _: client)

    def test_the_address_its_domain_or_one_above_must_be_verified(self) -> None:
        for verified in ("a.news@mail.example.org", "mail.example.org", "example.org"):
            told = verify.check(self.session(QUOTA, verified, []), "a.news@mail.example.org")
            self.assertEqual(told, QUOTA)
        with self.assertRaisesRegex(verify.Refused, "neither the address nor its domain is verified"):
            verify.check(self.session(QUOTA, "example.com", []), "a.news@mail.example.org")

    def test_what_is_no_address_a_paused_account_and_another_stack_are_refused(self) -> None:
        stack = {"StackName": "tidegate", "Description": "Tidegate sends e-mail", "StackStatus": "CREATE_COMPLETE"}
        for account, stacks, sender, said in (
            (QUOTA, [], "", "FROM ''"),
            (QUOTA, [], "example.org", "FROM 'example.org'"),
            (QUOTA | {"SendingEnabled": False}, [], "news@example.org", "sending is paused"),
            (QUOTA, [stack], "news@example.org", "tidegate is in this region"),
        ):
            with self.subTest(said), self.assertRaisesRegex(verify.Refused, said):
                verify.check(self.session(account, "example.org", stacks), sender)
        verify.check(self.session(QUOTA, "example.org", [stack | {"StackStatus": "DELETE_COMPLETE"}]), "news@example.org")

    def test_a_run_that_may_cost_a_dollar_is_refused(self) -> None:
        options = mock.Mock(region="eu-west-1", seconds=900.0, sender="news@example.org")
        with mock.patch.object(verify, "check", return_value=QUOTA), self.assertRaisesRegex(verify.Refused, r"9,001 mails may cost \$1.05"):
            verify.run(options)

    def test_a_second_interruption_says_what_is_to_be_done_by_hand(self) -> None:
        hour, said = verify.Hour(mock.Mock(region_name="eu-west-1"), None, "tidegate-verify-1", 10.0), io.StringIO()
        interrupted = mock.patch.object(hour, "left", side_effect=KeyboardInterrupt)
        with interrupted, mock.patch("time.sleep"), contextlib.redirect_stdout(said), self.assertRaises(KeyboardInterrupt):
            hour.remove()
        self.assertIn("make delete STACK=tidegate-verify-1 REGION=eu-west-1 CONFIRM=no PROTECT=no", said.getvalue())
        self.assertIn("s3 rb", said.getvalue())


if __name__ == "__main__":
    unittest.main()
