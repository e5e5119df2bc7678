"""What the benchmark concludes from reports: `python3 -m unittest` in this folder."""

from __future__ import annotations

import copy
import io
import sys
import tempfile
import unittest
import zipfile
from argparse import Namespace
from contextlib import redirect_stderr
from pathlib import Path

import bench
import express
import idle
import programs
from figures import Judge, Report, Row, head, line, rate_margin_rows, sending_rows, total
from packages import SMALLEST, zip_bootstrap
from programs import first_start

NEXT = "GET /2018-06-01/runtime/invocation/next HTTP/1.1"
PROGRAM = f"""#!{sys.executable}
import os, socket
host, port = os.environ["AWS_LAMBDA_RUNTIME_API"].split(":")
assert os.environ["TIDEGATE_CAMPAIGNS"]
socket.create_connection((host, int(port))).sendall(b"%s\\r\\n\\r\\n")
"""

GOOD: Report = {
    "promises": [{"promise": "nothing lost", "kept": True, "seen": "0 lost"}],
    "figures": {
        "worst_second": 14,
        "phases": {
            "backlogged": {"windows": 60, "utilisation": 0.98},
            "all_waiting": {
                "windows": 31,
                "worst_30_windows": 0.98,
                "shares": {
                    "big": {"worst_30_windows_points": 0.2},
                    "small": {"worst_30_windows_points": 0.2},
                },
            },
            "after_first_end": {"windows": 9, "utilisation": 0.98},
        },
    },
    "sandbox": {"refused": {}},
    "sqs": {"calls_per_mail": 0.52, "idle_windows": 6, "idle_calls": 24},
    "poller": {"cpu_ms_per_mail": 0.3, "peak_rss_bytes": 20_000_000},
}
JUDGE = Judge(worst_second=14, calls=0.56, sdk_calls="merge", sdk_calls_ms=0.25, rss=25e6)


def changed(*path: str, to: object) -> Report:
    report = copy.deepcopy(GOOD)
    place = report
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return report


def missed(report: Report) -> list[str]:
    return [row.figure for row in sending_rows(report, JUDGE) if row.reached is False]


class Judging(unittest.TestCase):
    def test_a_good_report_reaches_every_target(self) -> None:
        rows = sending_rows(GOOD, JUDGE)
        self.assertEqual([row.reached for row in rows], [True] * 9)

    def test_every_figure_can_miss_and_is_then_named(self) -> None:
        phases, off = ("figures", "phases"), {"worst_30_windows_points": 1.1}
        for path, value, figure in [
            ((*phases, "all_waiting", "worst_30_windows"), 0.974, "utilisation, worst 30 s"),
            ((*phases, "after_first_end", "utilisation"), 0.969, "utilisation after"),
            ((*phases, "all_waiting", "shares", "small"), off, "shares"),
            (("figures", "worst_second"), 15, "worst second"),
            (("sandbox", "refused"), {"TooManyRequestsException": 1}, "refused"),
            (("sqs", "calls_per_mail"), 0.57, "SQS calls"),
            (("poller", "cpu_ms_per_mail"), 0.51, "poller's processor"),
            (("poller", "peak_rss_bytes"), 25_000_001, "poller's peak"),
            (("promises",), [{"promise": "p", "kept": False, "seen": "s"}], "promises"),
        ]:
            with self.subTest(figure):
                found = missed(changed(*path, to=value))
                self.assertEqual(len(found), 1)
                self.assertTrue(found[0].startswith(figure), found)

    def test_what_was_not_measured_is_not_reached(self) -> None:
        self.assertEqual(len(missed(changed("poller", to=None))), 2)
        short = changed("figures", "phases", "all_waiting", "worst_30_windows", to=None)
        self.assertEqual(missed(short), ["utilisation, worst 30 s, both wait"])
        unshared = changed("figures", "phases", "all_waiting", "shares", to={})
        self.assertEqual(missed(unshared), ["shares off 90/10, worst 30 s"])

    def test_a_figure_without_a_target_is_only_told(self) -> None:
        rows = sending_rows(changed("poller", to=None), Judge())
        self.assertTrue(all(row.reached is not False for row in rows))
        self.assertEqual([row.reached for row in rate_margin_rows(GOOD, 0.02)], [None] * 3)

    def test_processor_time_is_judged_as_a_ratio_to_the_sdk_calls_alone(self) -> None:
        row = next(row for row in sending_rows(GOOD, JUDGE) if "SDK" in row.figure)
        self.assertAlmostEqual(row.value or 0, 1.2)
        self.assertEqual(row.note, "0.3 ms to 0.25 ms a mail")

    def test_without_the_sdk_calls_alone_only_the_ratio_is_missed_and_says_why(self) -> None:
        judge = Judge(sdk_calls="merge", sdk_calls_fault="sdk-calls ended with 101")
        missed = [row for row in sending_rows(GOOD, judge) if row.reached is False]
        self.assertEqual([row.note for row in missed], ["sdk-calls ended with 101"])

    def test_a_line_is_whole_before_the_next_is_known_and_stands_under_its_head(self) -> None:
        text = line(Row("200", "utilisation", 0.98, "of q", ">= 0.975", True, "31 windows"))
        for cell, named in [("utilisation", "figure"), ("0.98 of q", "value"), ("yes", "reached")]:
            self.assertEqual(text.index(cell), head().index(named))
        self.assertTrue(text.endswith("31 windows"))
        self.assertIn("NO", line(Row("a", "y", None, "", "<= 1", False)))
        self.assertIn("12,345 bytes", line(Row("a", "z", 12_345, "bytes")))

    def test_the_last_line_tells_how_many_targets_were_reached(self) -> None:
        rows = [Row("a", "x", 0.5, "", "<= 1", True), Row("a", "y", None, "", "<= 1", False),
                Row("a", "z", 12_345, "bytes")]
        self.assertTrue(total(rows).endswith("1 of 2 targets reached"))



class Idling(unittest.TestCase):
    MINUTE = {"sqs_calls": 36, "ledger_writes": 77, "poller": {"invocations": 65, "billed_ms": 9_000},
              "scheduler": {"invocations": 1, "billed_ms": 64_000}}

    def test_a_minute_is_judged_by_the_one_that_the_costs_go_by(self) -> None:
        rows = idle.rows({"1": self.MINUTE}, {"1": self.MINUTE})
        self.assertEqual([row.reached for row in rows], [True] * 5)
        self.assertEqual({row.reached for row in idle.rows({"1": self.MINUTE}, None)}, {None})
        for name in ("sqs_calls", "ledger_writes"):
            more = self.MINUTE | {name: 1.3 * self.MINUTE[name]}
            missed = [row for row in idle.rows({"1": more}, {"1": self.MINUTE})
                      if row.reached is False]
            self.assertEqual(len(missed), 1, name)
        slow = self.MINUTE | {"poller": {"invocations": 65, "billed_ms": 65_000}}
        missed = [row.figure for row in idle.rows({"1": slow}, {"1": self.MINUTE})
                  if row.reached is False]
        self.assertEqual(missed, ["idle minute, wake 1 s: poller, billed"])

    def test_a_run_counts_in_the_minute_in_which_it_began(self) -> None:
        # Runs of 65 s, one a minute: in each minute one begins, and one ends, five seconds into it.
        ends = [65.0, 125.0, 185.0]
        events = [{"timestamp": at * 1e3, "message": f"REPORT RequestId: a\tDuration: 64999.5 ms"
                   f"\tBilled Duration: {65_000 + number} ms"} for number, at in enumerate(ends)]
        self.assertEqual(idle.billed_of_begun(events, 59.9, 119.9), [65_001])
        self.assertEqual(idle.billed_of_begun(events, 0.0, 119.9), [65_000, 65_001])

    def test_billed_milliseconds_are_those_of_the_report_lines(self) -> None:
        line = "REPORT RequestId: a-b\tDuration: 12.3 ms\tBilled Duration: 13 ms\tMemory Size: 256"
        found = idle.REPORT.search(line)
        self.assertEqual(found and found[1], "13")


class Bucket(unittest.TestCase):
    FIGURES = {"incr_per_second": 90_000, "granted_per_second": 30_000, "granted_ratio": 0.33,
               "granted_2_domains_per_second": 20_000, "granted_2_domains_ratio": 0.22,
               "refused_per_second": 40_000, "refused_ratio": 0.44}

    def test_takes_are_judged_by_their_ratio_to_incr_and_by_the_highest_rate_there_is(self) -> None:
        rows = programs.bucket_rows({"64": self.FIGURES})
        self.assertEqual([row.reached for row in rows], [None, True, True, True, True])
        slow = self.FIGURES | {"granted_ratio": 0.09, "granted_per_second": 9_000}
        missed = [row.figure for row in programs.bucket_rows({"64": slow}) if row.reached is False]
        self.assertEqual(missed, ["takes (granted) to INCR, 64 at once",
                                  "takes granted a second, one connection"])


class Console(unittest.TestCase):
    FIGURES = {"changes_lost": 0, "latency_p50_ms": 13.2, "latency_p99_ms": 60.0,
               "rss_bytes": 50_000_000, "rss_bytes_per_stream": 44_000,
               "cpu_s_per_1000_events": 0.012, "events": 30_000, "changes_waiting_most": 20}

    def missed(self, ratios: dict[str, float], **stalled: float) -> list[str]:
        even = {"latency_p50_ms": 1.0, "latency_p99_ms": 1.0, "cpu_s_per_1000_events": 1.0}
        measured = {"streams": 1_000, "stalled": 100, "reading": self.FIGURES,
                    "stalled_tenth": self.FIGURES | stalled, "ratios": even | ratios}
        rows = programs.console_rows(measured)
        return [row.figure for row in rows if row.reached is False]

    def test_stalled_streams_may_cost_the_others_nothing_and_the_server_a_buffer_each(self) -> None:
        self.assertEqual(self.missed({}, rss_bytes=63_000_000), [])
        self.assertEqual(self.missed({}, rss_bytes=63_200_000),
                         ["memory of a stalled stream, beyond one that reads"])
        self.assertEqual(self.missed({}, changes_lost=1),
                         ["changes lost to those that read, 100 of 1,000 stall"])
        slow = {"latency_p50_ms": 1.3, "latency_p99_ms": 1.6, "cpu_s_per_1000_events": 1.3}
        self.assertEqual(self.missed(slow), [
            "publish to receipt, p50, a tenth stalls to none",
            "publish to receipt, p99, a tenth stalls to none",
            "processor time an event, a tenth stalls to none",
        ])


class Parts(unittest.TestCase):
    def test_parts_run_in_their_order_and_unknown_ones_are_refused(self) -> None:
        self.assertEqual(bench.parts("idle,14,start"), ["start", "14", "idle"])
        self.assertEqual(bench.parts("short"), ["start", "14-strict", "200", "200-direct"])
        self.assertEqual(bench.parts("full"), list(bench.PARTS))
        about = sum(bench.PARTS[part].seconds for part in bench.parts("short"))
        self.assertLessEqual(about, 300)
        for wrong in ("", "15", "14,x"):
            with self.assertRaisesRegex(Exception, "allowed are start,bucket,14-strict,"):
                bench.parts(wrong)

    def test_a_run_that_fails_is_a_row_that_says_why(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "devstack")
            program.write_text("#!/bin/sh\necho no such option >&2\nexit 2\n")
            program.chmod(0o700)
            place = Path(folder)
            args = Namespace(bin_dir=place, out=place, root=place, python=place)
            with redirect_stderr(io.StringIO()):
                (row,) = bench.measure("14", args)
        self.assertIs(row.reached, False)
        self.assertEqual(row.note, "no such option")


class Starting(unittest.TestCase):
    def start(self, request: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "poller")
            program.write_text(PROGRAM % request)
            program.chmod(0o700)
            return first_start(program)

    def test_a_start_lasts_until_the_program_asks_for_an_event(self) -> None:
        self.assertGreater(self.start(NEXT), 1.0)

    def test_a_program_that_asks_for_something_else_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "asked first for b'POST /init/error"):
            self.start("POST /init/error HTTP/1.1")

    def test_a_package_holds_the_program_as_bootstrap(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "poller")
            program.write_bytes(b"x" * 100_000)
            zipped = zip_bootstrap(program, SMALLEST)
        self.assertLess(len(zipped), 1_000)
        with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
            self.assertEqual(archive.read("bootstrap"), b"x" * 100_000)


class ExpressMail(unittest.TestCase):
    """What two runs say of express mail."""

    def seen(self, bulk: int, waits_ms: list[float]) -> express.Seen:
        second = 1_000_000_000
        seen = express.Seen()
        step = int((express.SETTLING + express.SECONDS) * second) // bulk
        seen.bulk = [number * step for number in range(bulk)]
        for number, wait in enumerate(waits_ms):
            at = int(10 * second) + number
            seen.put[f"express-{number}"] = at
            seen.express[f"express-{number}"] = at + int(wait * 1e6)
        return seen

    def judged(self, bulk: int, waits_ms: list[float]) -> dict[str, Row]:
        measured = {200: {0.0: self.seen(3_600, []), 0.1: self.seen(bulk, waits_ms)}}
        return {row.figure: row for row in express.rows(measured)}

    def test_in_time_and_without_loss_is_reached(self) -> None:
        rows = self.judged(3_240, [50.0] * 300)
        self.assertTrue(all(row.reached is not False for row in rows.values()))
        self.assertAlmostEqual(rows["200/s, express 10%: enqueue to send, p50"].value or 0, 50.0)

    def test_late_mail_and_lost_slots_are_missed(self) -> None:
        rows = self.judged(3_000, [50.0] * 200 + [160.0] * 20)
        self.assertIs(rows["200/s, express 10%: enqueue to send, p99"].reached, False)
        self.assertIs(rows["200/s, express 10%: bulk and express, of bulk alone"].reached, False)


if __name__ == "__main__":
    unittest.main()
