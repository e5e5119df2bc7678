"""What the comparison with other ways concludes from calls: `python3 -m unittest` in this folder."""

from __future__ import annotations

import itertools
import time
import unittest
from collections import Counter

from beside import Figures, first_end, judged, line, queues, ways, worst_second
from workers import Call, Task, Way, permits

QUOTA = 10


def calls(campaign: str, number: int, apart: float, since: float = 0.0, *, accepted: bool = True) -> list[Call]:
    return [Call(since + index * apart, campaign, accepted) for index in range(number)]


def task(way: Way) -> Task:
    return Task(way, QUOTA, 0, 0, time.time(), 0.0, [])


class Judging(unittest.TestCase):
    def test_a_second_is_half_open_and_begins_anywhere(self) -> None:
        self.assertEqual(worst_second([]), 0)
        self.assertEqual(worst_second([0.0, 1.0, 2.0]), 1)
        self.assertEqual(worst_second([1.95, 0.0, 1.9, 2.0, 0.95]), 3)

    def test_a_campaign_ends_with_the_last_mail_that_was_accepted(self) -> None:
        refused = calls("small", 1, 1, accepted=False)
        sent = [*refused, *calls("small", 2, 1, since=3), *calls("big", 9, 1)]
        self.assertEqual(first_end(sent, Counter(big=20, small=2), 9), 4)
        self.assertEqual(first_end(sent, Counter(big=20, small=3), 9), 9)

    def test_figures_are_of_the_time_in_which_both_campaigns_have_mail(self) -> None:
        # The small one ends after 20 s of 40, with a third of the mails; each second call of the big one is refused.
        sent = [*calls("small", 41, 0.5), *calls("big", 160, 0.25), *calls("big", 160, 0.25, since=0.125, accepted=False)]
        figures = judged(sent, Counter(big=999, small=41), QUOTA, 0, 40)
        self.assertAlmostEqual(figures.used, 0.6, delta=0.01)
        self.assertAlmostEqual(figures.used_after or 0, 0.4, delta=0.01)
        self.assertAlmostEqual(figures.refused, 0.4, delta=0.01)
        self.assertAlmostEqual(figures.small, 1 / 3, delta=0.01)
        self.assertEqual(figures.worst_second, 1.0)

    def test_the_share_is_that_of_the_first_half(self) -> None:
        sent = [*calls("big", 100, 0.25), *calls("small", 60, 0.25, since=25)]
        self.assertEqual(judged(sent, Counter(big=101, small=999), QUOTA, 0, 40).small, 0)

    def test_nothing_is_told_of_a_time_after_that_is_short(self) -> None:
        self.assertIsNone(judged(calls("big", 400, 0.1), Counter(big=999, small=9), QUOTA, 0, 40).used_after)

    def test_a_line_leaves_out_the_figure_that_is_missing(self) -> None:
        self.assertEqual(line("way", Figures(0.98, None, 0, 1, 0.1)), "| way | 98.0% | | 0.0% | 100% | 10.0% |")
        self.assertEqual(line("way", Figures(0.98, 0.5, 0, 1, 0.1)), "| way | 98.0% | 50.0% | 0.0% | 100% | 10.0% |")


class Sending(unittest.TestCase):
    def test_the_big_campaign_has_ten_times_the_mail_and_was_first(self) -> None:
        own, shared = queues(QUOTA, 60, own=True), queues(QUOTA, 60, own=False)
        for mails in (own, shared):
            both = Counter(itertools.chain(*mails))
            self.assertEqual(both.total(), 620)
            self.assertAlmostEqual(both["big"] / both["small"], 10, delta=0.2)
        self.assertEqual([set(mails) for mails in own], [{"big"}, {"small"}])
        for mails in shared:
            self.assertEqual(mails, sorted(mails))
            self.assertEqual(len(mails), 310)

    def test_consumers_are_as_many_as_the_quota_needs_at_the_latency_and_two_at_least(self) -> None:
        for quota, threads in ((14, 1), (200, 8), (1_000, 40)):
            self.assertEqual({way.threads for way in ways(quota) if "Lambda" in way.name}, {threads})

    def test_starts_that_are_paced_are_apart_for_all_threads_of_a_worker(self) -> None:
        slots, at = itertools.count(), []
        for permit in [permits(task(Way("", "paced", 0.02)), slots) for _ in range(3)]:
            next(permit)
            at.append(time.time())
        self.assertGreaterEqual(at[2] - at[0], 0.03)

    def test_a_thread_that_sleeps_waits_after_each_mail_and_one_that_pauses_after_so_many(self) -> None:
        for gate, value, seconds in (("sleep", 0.05, 0.1), ("pause", 2, 1.0), ("pause", 3, 0.0), ("", 0, 0.0)):
            began, slept = time.monotonic(), permits(task(Way("", gate, value)), itertools.count())
            for _ in itertools.islice(slept, 3):
                pass
            # A busy machine takes longer; none sleeps where it need not.
            self.assertGreaterEqual(time.monotonic() - began, 0.99 * seconds)
            self.assertLess(time.monotonic() - began, seconds + 0.9)


if __name__ == "__main__":
    unittest.main()
