"""The template, the construct and docs/configuration.md allow what the functions' parser does, and nothing beside.

`infra/settings.json` is the parser's list: a test of the core keeps it so.
"""

from __future__ import annotations

import json
import re
import subprocess
import unittest
from typing import Any

import sam_template
import whole

ROOT = sam_template.INFRA.parent
SETTINGS: dict[str, dict[str, Any]] = {
    setting["name"]: setting
    for setting in json.loads((ROOT / "infra" / "settings.json").read_text(encoding="utf-8"))
}
# Of the local run and of tests alone: neither the template nor the construct gives them.
NOT_DEPLOYED = {"TIDEGATE_OVERLAP_WINDOWS", "TIDEGATE_SEND_TIMEOUT_MS"}
# Where a deployment wants something else than a start without the variable.
OWN_DEFAULTS = {"TIDEGATE_FEEDBACK": "hold"}
QUOTA = r"0\.(00[1-9]|0[1-9][0-9]?|[1-9][0-9]{0,2})|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|10000"


def variable(name: str) -> str:
    """Of a parameter or a prop: MaxInFlight and maxInFlight are TIDEGATE_MAX_IN_FLIGHT."""
    return "TIDEGATE" + re.sub(r"[A-Z]", lambda found: f"_{found[0]}", name[0].upper() + name[1:]).upper()


def small(name: str) -> str:
    """The prop of a parameter."""
    return name[0].lower() + name[1:]


def in_words(kind: str, ends: list[Any]) -> str:
    """As the page's table has it."""
    return " to ".join(f"{end:.10g}" for end in ends) if kind != "choice" else " ".join(ends)


class Settings(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        named = {variable(name): name for name in sam_template.source()["Parameters"]}
        self.parameters = {
            name: sam_template.source()["Parameters"][named[name]] for name in SETTINGS if name in named
        }

    def test_the_template_allows_the_range_of_each_setting(self) -> None:
        self.assertEqual(set(SETTINGS) - set(self.parameters), NOT_DEPLOYED)
        for name, parameter in self.parameters.items():
            ((kind, ends),) = SETTINGS[name]["range"].items()
            default = OWN_DEFAULTS.get(name, SETTINGS[name]["default"])
            with self.subTest(name):
                self.assertEqual(str(parameter["Default"]), default or "")
                if kind == "choice":
                    self.assertEqual(sorted(parameter["AllowedValues"]), sorted(ends))
                elif kind == "whole":
                    pattern = whole.pattern(*ends)
                    wanted = pattern if default else f"({pattern})?"
                    self.assertEqual(parameter.get("AllowedPattern"), wanted)
                    self.assertIn(f"{ends[0]} to {ends[1]}", parameter["ConstraintDescription"])
                elif default:
                    allowed = (parameter.get("MinValue"), parameter.get("MaxValue"))
                    self.assertEqual(allowed, tuple(ends))
                else:
                    self.assertEqual(parameter["AllowedPattern"], f"({QUOTA})?")

    def test_a_quota_is_taken_from_a_thousandth_to_ten_thousand(self) -> None:
        self.assertEqual(SETTINGS["TIDEGATE_QUOTA_PER_SECOND"]["range"], {"number": [0.001, 10000.0]})
        for allowed in ("0.001", "0.5", "14", "14.5", "9999.999", "10000"):
            self.assertRegex(allowed, f"^({QUOTA})$")
        for refused in ("0", "0.0", "0.0001", "10000.1", "10001", "014", "-1", "1e3"):
            self.assertNotRegex(refused, f"^({QUOTA})$")

    def test_a_pattern_takes_the_numbers_of_its_range_and_no_others(self) -> None:
        for least, most in ((0, 1000), (1, 900), (12, 600), (15, 3600), (1, 5000), (7, 7), (99, 101)):
            found = re.compile(whole.pattern(least, most))
            taken = [n for n in range(most + 1200) if found.fullmatch(str(n))]
            self.assertEqual(taken, list(range(least, most + 1)))
            self.assertFalse(any(found.fullmatch(text) for text in ("2.5", "007", "", "1e1", "-1")))

    def test_any_two_weights_give_a_cycle(self) -> None:
        parameters = sam_template.source()["Parameters"]
        for name in ("FirstCampaignWeight", "SecondCampaignWeight"):
            # Half of the longest cycle each, so that their sum fits whatever their divisor is.
            self.assertEqual(parameters[name]["AllowedPattern"], whole.pattern(1, 5000))

    def test_campaigns_have_names_of_their_own(self) -> None:
        def refused(**given: str) -> list[str]:
            made = sam_template.stack(**given)
            rules = [r for n, r in sam_template.rendered()["Rules"].items() if "Campaign" in n]
            asserted = [a for rule in rules for a in rule["Assertions"]]
            return [a["AssertDescription"] for a in asserted if not made.evaluate(a["Assert"])]

        self.assertEqual(refused(), [])
        self.assertEqual(refused(FirstCampaignName="news", SecondCampaignName=""), [])
        for given in ({"FirstCampaignName": "a", "SecondCampaignName": "a"},
                      {"FirstCampaignName": "express"}, {"SecondCampaignName": "express"}):  # fmt: skip
            with self.subTest(given):
                self.assertEqual(len(refused(**given)), 1)

    def test_the_construct_allows_the_range_of_each_setting(self) -> None:
        script = (
            "import('./build/lib/validate.js').then(async (v) => console.log(JSON.stringify("
            "{ ...v, DEFAULTS: (await import('./build/lib/settings.js')).DEFAULTS })))"
        )
        ran = subprocess.run(
            ["node", "--input-type=module", "--eval", script], cwd=ROOT / "infra" / "cdk",
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        construct = json.loads(ran.stdout)
        ranges = {variable(prop): allowed for prop, allowed in construct["RANGES"].items()}
        choices = {variable(prop): allowed for prop, allowed in construct["CHOICES"].items()}
        defaults = {variable(prop): str(value) for prop, value in construct["DEFAULTS"].items()}
        for name in set(SETTINGS) - NOT_DEPLOYED - {"TIDEGATE_SHARED_BUCKET_LOST"}:
            ((kind, ends),) = SETTINGS[name]["range"].items()
            with self.subTest(name):
                self.assertEqual(defaults.get(name), OWN_DEFAULTS.get(name, SETTINGS[name]["default"]))
                if kind == "choice":
                    self.assertEqual(sorted(choices[name]), sorted(ends))
                else:
                    self.assertEqual(ranges[name], [*ends, kind == "whole"])

    def test_the_construct_refuses_the_former_names_of_the_parameters(self) -> None:
        script = "import('./build/lib/validate.js').then((v) => console.log(JSON.stringify(v.RENAMED)))"
        ran = subprocess.run(
            ["node", "--input-type=module", "--eval", script], cwd=ROOT / "infra" / "cdk",
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        renamed = json.loads((ROOT / "infra" / "renamed.json").read_text(encoding="utf-8"))
        parameters = sam_template.source()["Parameters"]
        wanted = {small(old): small(new) for old, new in renamed.items() if new in parameters}
        self.assertEqual(json.loads(ran.stdout), wanted)

    def test_the_pages_table_says_range_and_default_of_each_setting(self) -> None:
        page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
        rows = dict(re.findall(r"^\| `(TIDEGATE_\w+)` \| (.*) \|$", page, re.MULTILINE))
        for name, setting in SETTINGS.items():
            ((kind, ends),) = setting["range"].items()
            _, default, allowed = rows[name].split(" | ", 2)
            with self.subTest(name):
                if setting["default"]:
                    self.assertEqual(default.strip("`"), setting["default"])
                for word in ends if kind == "choice" else [in_words(kind, ends)]:
                    self.assertIn(word, allowed)


if __name__ == "__main__":
    unittest.main()
