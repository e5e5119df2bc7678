"""What the calculation says: `python3 -m unittest` in this folder."""

from __future__ import annotations

import copy
import io
import json
import math
import re
import unittest
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import cost
from prices import PRICES

ROOT = cost.HERE.parents[1]
MEASURED = json.loads((cost.HERE / "measured.json").read_text())
IDLE, MILLION = cost.SCENARIOS["idle"], cost.SCENARIOS["1 M mails, 14/s"]


def total(stack: cost.Stack) -> float:
    return sum(cost.monthly(stack, MEASURED).values())


def said(*arguments: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert cost.main(list(arguments)) == 0
    return out.getvalue()


class Calculating(unittest.TestCase):
    def test_an_idle_month_by_hand(self) -> None:
        minute, costs = MEASURED["idle_minute"]["60"], cost.monthly(IDLE, MEASURED)
        minutes = 730 * 60
        # The poller has 256 MB; the scheduler 128, with which it takes longer than was measured.
        scheduler = max(minute["scheduler"]["billed_ms"], MEASURED["assumed"]["scheduler_asleep_ms"])
        gb_seconds = (minute["poller"]["billed_ms"] * 0.25 + scheduler * 0.125) / 1e3
        requests = minutes * (1 + minute["poller"]["invocations"])
        by_hand = minutes * gb_seconds * 0.0000133334 + requests * 0.20e-6
        self.assertAlmostEqual(costs["Lambda"], by_hand, places=2)
        calls = minutes * minute["sqs_calls"]
        self.assertGreaterEqual(costs["SQS"], calls * 0.40e-6 - 0.01)
        self.assertLessEqual(costs["SQS"], calls * 0.50e-6 + 0.01)
        # Each write is of an item below 1 KB; each claim reads one beside, and each read two.
        ledger = minute["ledger_writes"] * 0.625e-6
        ledger += (minute["poller"]["invocations"] + 2 * minute["ledger_reads"]) * 0.125e-6
        self.assertAlmostEqual(costs["DynamoDB"], minutes * ledger, delta=0.01)
        self.assertEqual(costs["CloudWatch metrics"], 0.0)
        self.assertEqual(set(costs), set(cost.SERVICES))

    def test_the_ledger_costs_what_the_campaigns_of_a_window_take(self) -> None:
        """By hand, for 200 recipients a second: what is kept of a campaign has 135 bytes, the totals 480."""
        assumed = MEASURED["assumed"]
        self.assertEqual((assumed["ledger_campaign_bytes"], assumed["ledger_totals_bytes"]), (135, 480))
        for campaigns, parts, report, read in [
            (2, 1, 1, 1),
            # 37.5 campaigns a part are 5,063 bytes: five units, six beside the totals; two units to read.
            (300, 8, 6 + 7 * 5, 8 * 2),
            # 62.5 campaigns a part are 8,438 bytes.
            (1_000, 16, 9 + 15 * 9, 16 * 3),
        ]:
            stack = cost.Stack(mails=1_000, rate=200.0, campaigns=campaigns)
            found = cost.ledger_window(stack, assumed, min(campaigns, 200))
            self.assertAlmostEqual(found["report"], report, delta=0.01, msg=str(parts))
            self.assertEqual(found["read"], read)
        # DynamoDB writes 1,000 units a second to a partition; a part is in one.
        self.assertLess(found["report"], 1_000)

    def test_more_campaigns_cost_more_and_past_ones_nothing(self) -> None:
        by_campaigns = [total(replace(MILLION, campaigns=count)) for count in (2, 64, 300, 1_000)]
        self.assertEqual(by_campaigns, sorted(by_campaigns))

    def test_a_mail_costs_its_calls_its_marks_and_its_log_line(self) -> None:
        more = replace(MILLION, mails=2_000_000)
        one, two = cost.monthly(MILLION, MEASURED), cost.monthly(more, MEASURED)
        self.assertGreater(two["SQS"], one["SQS"])
        guarded = cost.monthly(replace(MILLION, deduplication=True), MEASURED)
        # The figure in docs/operations/deduplication.md: $1.25 a million mails and $0.04 for keeping the marks.
        self.assertAlmostEqual(guarded["DynamoDB"] - one["DynamoDB"], 1.29, delta=0.01)
        self.assertLess(cost.monthly(replace(MILLION, mode="direct"), MEASURED)["SQS"], one["SQS"])

    def test_a_text_costs_what_a_small_mail_costs_without_the_alarms_of_ses(self) -> None:
        mails = cost.monthly(MILLION, MEASURED)
        texts = cost.monthly(replace(MILLION, texts=True), MEASURED)
        alarms = "CloudWatch alarms and dashboard"
        self.assertAlmostEqual(mails.pop(alarms) - texts.pop(alarms), 2 * 0.10)
        self.assertEqual(texts, mails)
        # They are those of the template that need the channel e-mail.
        template = (ROOT / "infra/sam/template.yaml").read_text(encoding="utf-8")
        of_ses = template.count("Type: AWS::CloudWatch::Alarm\n    Condition: IsEmail\n")
        self.assertEqual(of_ses, cost.SES_ALARMS)

    def test_each_64_kb_of_a_call_are_a_request(self) -> None:
        """By hand: ten mails of 30 KB are 300 KB, five requests where four KB each are one."""
        million = replace(MILLION, mode="direct", compressed=False)
        more = cost.monthly(replace(million, mail_kb=30), MEASURED)["SQS"]
        # Sent by the producer and received by a poller: 0.4 requests a mail more, each.
        expected = 2 * 0.4 * 1e6 * 0.40e-6
        self.assertAlmostEqual(more - cost.monthly(million, MEASURED)["SQS"], expected)
        merge = cost.monthly(replace(MILLION, mail_kb=30, compressed=False), MEASURED)["SQS"]
        expected += 2 * 0.4 * 1e6 * 0.50e-6
        self.assertAlmostEqual(merge - cost.monthly(MILLION, MEASURED)["SQS"], expected)

    def test_compressed_newsletters_cost_what_the_readme_of_costs_promises(self) -> None:
        """Ten of 30 KB become ten of 6 KB, which fit into one request: at most 0.40 % of SES's bill, 0.25 % in direct mode."""
        many = replace(cost.SCENARIOS["100 M mails, 200/s"], mail_kb=30)
        ses = many.mails * cost.price("ses_mail")
        self.assertLessEqual(total(many), 0.004 * ses)
        self.assertLessEqual(total(replace(many, mode="direct")), 0.0025 * ses)
        self.assertGreater(total(replace(many, compressed=False)), 0.01 * ses)
        # By hand: 200 KB become 40 KB, ten of which are seven requests.
        self.assertAlmostEqual(cost.more_chunks(cost.crossing_kb(replace(many, mail_kb=200), MEASURED["assumed"])), 0.6)
        self.assertEqual(cost.crossing_kb(replace(many, mail_kb=4), MEASURED["assumed"]), 4)

    def test_large_mails_have_the_memory_that_doctor_recommends(self) -> None:
        self.assertEqual([cost.Stack(rate=rate, mail_kb=kb).memory_mb
                          for rate, kb in [(14.0, 4), (200.0, 4), (200.0, 50)]], [256, 361, 708])
        self.assertEqual(cost.Stack(rate=200.0, mail_kb=50, poller_mb=256).memory_mb, 256)

    def test_the_memory_is_by_the_constants_of_core_and_the_page_names_them(self) -> None:
        core = (ROOT / "crates" / "core" / "src" / "shares" / "memory.rs").read_text(encoding="utf-8")
        constants = dict(re.findall(r"^const (\w+): f64 = ([\d.]+);", core, re.M))
        mail, kilobyte, share = (constants[name] for name in ("MAIL_MS", "MAIL_MS_PER_KB", "PROCESSOR_SHARE"))
        needed = 1_769 * 200 * (float(mail) + float(kilobyte) * 50) / 1e3 / float(share)
        self.assertEqual(cost.Stack(rate=200.0, mail_kb=50).memory_mb, math.ceil(needed))
        page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
        self.assertIn(f"({mail} ms + {kilobyte} ms per KB) / {share}", page)

    def test_fewer_ticks_cost_less_and_looks_more_often_cost_more(self) -> None:
        by_wake = [total(replace(IDLE, idle_wake=wake)) for wake in (1, 10, 30, 60)]
        self.assertEqual(by_wake, sorted(by_wake, reverse=True))
        ticked = replace(IDLE, idle_wake=1)
        by_pause = [total(replace(ticked, idle_windows=pause)) for pause in (1, 5, 30, 60)]
        self.assertEqual(by_pause, sorted(by_pause, reverse=True))
        self.assertGreater(total(replace(IDLE, scheduler_mb=256)), total(IDLE))
        self.assertGreater(total(replace(IDLE, alarms="all")), total(IDLE))
        self.assertLessEqual(total(IDLE), 1.0)
        self.assertGreater(total(replace(IDLE, architecture="x86_64")), total(IDLE))

    def test_more_mails_than_a_month_holds_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "100,000,000 mails at 14 a second"):
            total(replace(IDLE, mails=100_000_000))

    def test_metrics_are_counted_in_the_code_that_publishes_them(self) -> None:
        source = cost.metrics_source()
        counted = cost.metrics_of(source)
        self.assertEqual(counted["campaign"], 4)
        self.assertGreaterEqual(counted["poller"], 12)
        self.assertGreaterEqual(counted["scheduler"], 6)
        line = '.metric("HeldWindows", Unit::Count, is(End::Held))'
        counter = '    Dead, "dead", Mails, TotalAndByCampaign, Some("DeadLettered"),'
        for line, another in ((line, line + '.metric("Another", Unit::Count, 1.0)'),
                              (counter, '    Another, "another", Mails, Total, Some("Another"),\n' + counter)):
            self.assertEqual(source.count(line), 1, line)
            more = cost.metrics_of(source.replace(line, another))
            self.assertEqual(more["poller"], counted["poller"] + 1)

    def test_the_metrics_of_a_feature_are_counted_where_it_is_on(self) -> None:
        source = cost.metrics_source()
        before = cost.metrics_of(source)
        for line, another, of in (
            ('    BucketLost, ', '    BucketMore, "more", Mails, Total, Some("More"),\n', "bucket"),
            ('    LimitFed, ', '    LimitMore, "more", Mails, None, Some("More"),\n', "domain"),
            ('    Deferred, ', '    DeferredMore, "more", Mails, None, Some("More"),\n', "deferral"),
            ('.metric("BackPressureLevel", ', '.metric("Another", Unit::Count, 1.0)', "scheduler"),
        ):
            self.assertEqual(source.count(line), 1, line)
            after = cost.metrics_of(source.replace(line, another + line))
            changed = {key: after[key] - before[key] for key in after if after[key] != before[key]}
            self.assertEqual(changed, {of: 1})

    def test_what_is_not_switched_on_costs_nothing(self) -> None:
        self.assertEqual(set(cost.monthly(IDLE, MEASURED)), set(cost.SERVICES))
        every = replace(MILLION, domain_groups=3, deferred_share=0.01, bucket_zones=2)
        costs = cost.monthly(every, MEASURED)
        self.assertEqual(set(costs), set(cost.SERVICES) | set(cost.OPTIONAL))

    def test_the_queues_of_domains_by_hand(self) -> None:
        watched, minutes = replace(IDLE, alarms="all"), 730 * 60
        plain = cost.monthly(watched, MEASURED)
        limited = cost.monthly(replace(watched, domain_groups=3), MEASURED)
        # Each of the three is asked once a minute; six alarms.
        more = 3 * minutes
        self.assertAlmostEqual(limited["SQS"] - plain["SQS"], more * 0.40e-6)
        alarms = "CloudWatch alarms and dashboard"
        self.assertAlmostEqual(limited[alarms] - plain[alarms], 0.6)

    def test_what_is_put_aside_by_hand(self) -> None:
        idle = cost.monthly(replace(IDLE, deferred_share=0.0), MEASURED)["S3"]
        self.assertAlmostEqual(idle, 730 * 60 * 0.005 / 1_000)
        some = cost.monthly(replace(MILLION, deferred_share=0.01), MEASURED)
        # 10,000 mails, 14 an object: two writes and a read of each.
        objects = 10_000 / 14
        self.assertAlmostEqual(some["S3"] - idle, objects * (2 * 0.005 + 0.0004) / 1_000, delta=0.01)

    def test_a_shared_bucket_by_hand(self) -> None:
        costs = cost.monthly(replace(IDLE, bucket_zones=2), MEASURED)
        endpoints, server = 2 * 2 * 730 * 0.01, 0.1 * 730 * 0.084
        self.assertAlmostEqual(costs["Shared bucket and the way to it"], endpoints + server)


class Telling(unittest.TestCase):
    def test_the_page_has_these_tables(self) -> None:
        page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
        told = said("--markdown").strip()
        for table in told.split("\n\n"):
            self.assertIn(table, page, "paste `python3 infra/cost/cost.py --markdown` into it")

    def test_the_readme_says_what_a_stack_without_mail_costs(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        total = json.loads(said("--json"))["total"]["idle"]
        self.assertIn(f"A stack without mail costs [${total:.2f} a month](docs/cost.md)", readme)

    def test_forecasts_read_what_is_calculated_now(self) -> None:
        stored = (ROOT / "infra/cost/calculated.json").read_text(encoding="utf-8")
        self.assertEqual(said("--calculated"), stored,
                         "write `python3 infra/cost/cost.py --calculated` to infra/cost/calculated.json")

    def test_json_adds_up_to_the_totals(self) -> None:
        result = json.loads(said("--json"))
        for name, costs in result["by_service"].items():
            self.assertAlmostEqual(sum(costs.values()), result["total"][name])
        self.assertEqual(result["ses"], {"idle": 0.0, "1 M mails, 14/s": 100.0,
                                         "100 M mails, 200/s": 10_000.0})

    def test_the_text_names_every_service_and_knob(self) -> None:
        told = said()
        for name in [*cost.SERVICES, *(knob.replace("`", "") for knob in cost.KNOBS)]:
            self.assertIn(name, told)

    def test_every_price_has_its_source(self) -> None:
        told = said("--prices")
        for name, (dollars, unit, source) in PRICES.items():
            self.assertGreater(dollars, 0, name)
            self.assertTrue(unit and source.startswith("https://aws.amazon.com/"), name)
            self.assertIn(name, told)

    def test_measurements_that_cannot_be_read_are_named(self) -> None:
        error = io.StringIO()
        with redirect_stderr(error):
            self.assertEqual(cost.main(["--measured", "/nowhere.json"]), 2)
        self.assertIn("/nowhere.json", error.getvalue())

    def test_what_is_measured_is_what_is_used(self) -> None:
        changed = copy.deepcopy(MEASURED)
        for name in ("sqs_calls", "ledger_writes"):
            changed["idle_minute"]["1"][name] *= 2
        ticked = replace(IDLE, idle_wake=1)
        before, after = cost.monthly(ticked, MEASURED), cost.monthly(ticked, changed)
        calls = 730 * 60 * MEASURED["idle_minute"]["1"]["sqs_calls"]
        self.assertGreater(after["SQS"] - before["SQS"], 0.99 * calls * 0.40e-6)
        self.assertGreater(after["DynamoDB"], 1.8 * before["DynamoDB"])


if __name__ == "__main__":
    unittest.main()
