"""What the nightly comparison calls worse: `python3 -m unittest` in this folder."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from dataclasses import asdict
from pathlib import Path

import compare
from figures import Row


def rows(utilisation: float = 0.98, calls: float = 0.52, off: float = 0.3) -> list[Row]:
    return [
        Row("200", "utilisation", utilisation, "of q", ">= 0.975", True),
        Row("200", "SQS calls per mail", calls, "", "<= 0.56", True),
        Row("200", "shares off", off, "points", "<= 1", True),
        Row("200", "processor time", 0.33, "ms", "<= 1", True),
        Row("200", "told only", 7, ""),
        Row("200", "not measured", None, "", "<= 1", False),
    ]


class Compare(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.figures, self.history = Path(folder.name) / "bench.json", Path(folder.name) / "kept" / "history.jsonl"

    def night(self, **figures: float) -> tuple[int, str]:
        self.figures.write_text(json.dumps([asdict(row) for row in rows(**figures)]))
        said = io.StringIO()
        arguments = ["--figures", str(self.figures), "--history", str(self.history), "--commit", "0123456789abcdef"]
        with contextlib.redirect_stdout(said):
            return compare.main(arguments), said.getvalue()

    def test_ratios_with_a_target_are_compared_and_times_are_not(self) -> None:
        _, said = self.night()
        self.assertIn("| 200: utilisation | 0.98 of q | – |", said)
        for name in ("processor time", "told only", "not measured"):
            self.assertNotIn(name, said)

    def test_three_runs_are_needed_before_any_figure_is_worse(self) -> None:
        for _ in range(3):
            self.assertEqual(self.night()[0], 0)
            self.assertEqual(len(self.history.read_text().splitlines()), _ + 1)
        self.assertEqual(self.night(calls=0.9)[0], 1)

    def test_a_figure_is_worse_in_its_own_direction_and_beyond_its_allowance_alone(self) -> None:
        for figures, expected in (
            ({"calls": 0.57}, 0), ({"calls": 0.58}, 1), ({"calls": 0.1}, 0),
            ({"utilisation": 0.971}, 0), ({"utilisation": 0.969}, 1), ({"utilisation": 1.0}, 0),
            ({"off": 0.79}, 0), ({"off": 0.81}, 1),
        ):  # fmt: skip
            with self.subTest(figures):
                self.history.unlink(missing_ok=True)
                for _ in range(5):
                    self.night()
                ended, said = self.night(**figures)
                self.assertEqual(ended, expected, said)
                self.assertEqual(said.count("**worse**"), expected)

    def test_one_bad_night_is_kept_and_does_not_move_the_median(self) -> None:
        for calls in (0.52, 0.52, 0.52, 2.0, 0.52):
            self.night(calls=calls)
        self.assertEqual(self.night(calls=0.7)[0], 1)
        self.assertEqual(len(self.history.read_text().splitlines()), 6)

    def test_runs_of_an_earlier_form_are_left_out_which_is_said_once(self) -> None:
        earlier = {"commit": "a", "ratios": {"200: utilisation": {"value": 0.5, "unit": "of q", "lower_is_better": False}}}
        self.history.parent.mkdir()
        self.history.write_text(f"{json.dumps(earlier)}\n" * 2)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual([self.night()[0] for _ in range(4)], [0] * 4)
        self.assertEqual(said.getvalue(), "compare: 2 runs of an earlier form are left out\n")
        self.assertEqual(len(self.history.read_text().splitlines()), 4)

    def test_a_file_without_ratios_is_an_error(self) -> None:
        self.figures.write_text("[]")
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
            compare.main(["--figures", str(self.figures), "--history", str(self.history), "--commit", "a"])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("has no ratio", said.getvalue())


if __name__ == "__main__":
    unittest.main()
