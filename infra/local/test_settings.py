"""The template and the construct give each function the settings of the parser's list, and say what it says.

`infra/settings.json` is that list: a test of the core writes it.
"""

from __future__ import annotations

import json
import re
import unittest
from typing import Any

import sam_template

ROOT = sam_template.INFRA.parent
SETTINGS: dict[str, dict[str, Any]] = {
    setting["name"]: setting
    for setting in json.loads((ROOT / "infra" / "settings.json").read_text(encoding="utf-8"))
}
# Of tests and trials: neither the template nor the construct gives them.
NOT_DEPLOYED = {
    f"TIDEGATE_{name}" for name in (
        "SEND_TIMEOUT_MS", "TICK_LEAD_MS", "OVERLAP_WINDOWS", "IDLE_WINDOWS", "FEEDBACK_MINIMUM")
}  # fmt: skip
# The stack's own names and URLs, which no parameter and no prop gives.
OF_THE_STACK = {
    f"TIDEGATE_{name}" for name in (
        "LEDGER", "POLLER_FUNCTION", "MERGE_QUEUE_URL", "EXPRESS_QUEUE_URL", "DEAD_LETTER_QUEUE_URL",
        "FEEDBACK_QUEUE_URL", "LIMIT_QUEUES", "CAMPAIGN_QUEUES", "CONFIGURATION_SET",
        "ALARM_TOPIC", "STORE")
}  # fmt: skip
# Parameters and props of other values: names and weights, or tags; on or off.
OTHER_VALUES = {"TIDEGATE_CAMPAIGNS", "TIDEGATE_DEFERRAL"}
GIVEN = {name: s for name, s in SETTINGS.items() if name not in NOT_DEPLOYED | OF_THE_STACK | OTHER_VALUES}
# Where a deployment wants something else than a start without the variable.
OWN_DEFAULTS = {"TIDEGATE_FEEDBACK": "hold"}
# Empty: the scheduler has the default.
LEFT_TO_THE_FUNCTION = {"TIDEGATE_BACK_PRESSURE_BUSY", "TIDEGATE_BACK_PRESSURE_OVERLOADED"}
QUOTA = r"0\.(00[1-9]|0[1-9][0-9]?|[1-9][0-9]{0,2})|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|10000"


def variable(name: str) -> str:
    """Of a parameter or a prop: MaxInFlight and maxInFlight are TIDEGATE_MAX_IN_FLIGHT."""
    return "TIDEGATE" + re.sub(r"[A-Z]", lambda found: f"_{found[0]}", name[0].upper() + name[1:]).upper()


def small(name: str) -> str:
    """The prop of a parameter."""
    return name[0].lower() + name[1:]


def default(name: str) -> str | None:
    """Of the parameter and the prop."""
    return None if name in LEFT_TO_THE_FUNCTION else OWN_DEFAULTS.get(name, SETTINGS[name]["default"])


def meaning(name: str) -> str:
    """Without the page's links: those in brackets are left out, of the others the text stays."""
    bare = re.sub(r" \(\[[^\]]*\]\([^)]*\)\)", "", str(SETTINGS[name]["meaning"]))
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", bare)


def examples() -> list[tuple[str, str, bool]]:
    """Values of the settings, and whether the parser takes them."""
    return [
        (name, value, kind == "takes")
        for name, setting in GIVEN.items() for kind in ("takes", "refuses") for value in setting[kind]
    ]  # fmt: skip


def takes(parameter: dict[str, Any], value: str) -> bool:
    """Whether CloudFormation takes the value."""
    if "AllowedValues" in parameter:
        return value in map(str, parameter["AllowedValues"])
    if parameter["Type"] == "Number":
        return float(parameter["MinValue"]) <= float(value) <= float(parameter["MaxValue"])
    values = value.split(",") if parameter["Type"] == "CommaDelimitedList" else [value]
    return all(re.fullmatch(parameter["AllowedPattern"], value) for value in values)


def whole_pattern(least: int, most: int) -> str:
    """A pattern, since CloudFormation's type Number takes fractions, too: of the numbers from `least` to `most` as they are written, without leading zeros."""
    parts: list[str] = []
    while least <= most:
        digits = len(str(least))
        # As many of the last digits as may be anything, from `least` on and up to `most`.
        free = 0
        while least % 10 ** (free + 1) == 0 and least + 10 ** (free + 1) - 1 <= most and free + 1 < digits:
            free += 1
        step = 10**free
        first, last = least // step % 10, min(9, least // step % 10 + (most - least + 1) // step - 1)
        head, any_digit = str(least // step // 10 or ""), "[0-9]"
        middle = str(first) if first == last else f"[{first}-{last}]"
        tail = "" if free == 0 else any_digit if free == 1 else f"{any_digit}{{{free}}}"
        parts.append(f"{head}{middle}{tail}")
        least += (last - first + 1) * step
    return "|".join(parts)


class Settings(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        named = {variable(name): name for name in sam_template.source()["Parameters"]}
        self.parameters = {
            name: sam_template.source()["Parameters"][named[name]] for name in SETTINGS if name in named
        }

    def test_each_function_gets_the_variables_that_it_reads(self) -> None:
        source = sam_template.source()
        values: dict[str, list[Any]] = {}
        for function in ("poller", "scheduler"):
            variables = source["Resources"][f"{function.capitalize()}Function"]["Properties"]["Environment"]["Variables"]
            for name, value in variables.items():
                values.setdefault(name, []).append(value)
            given = {name for name in variables if name.startswith("TIDEGATE_")}
            read = {name for name, setting in SETTINGS.items() if setting["read_by"] in (function, "both")}
            with self.subTest(function):
                self.assertEqual(read - given, NOT_DEPLOYED & read)
                self.assertEqual(given - read, set())
        for name, both in values.items():
            self.assertEqual(both, [both[0]] * len(both), f"{name} is the same for both functions")

    def test_the_template_allows_the_range_of_each_setting(self) -> None:
        self.assertEqual(set(self.parameters), set(GIVEN) | OTHER_VALUES)
        for name in GIVEN:
            parameter = self.parameters[name]
            ((kind, ends),) = SETTINGS[name]["range"].items()
            with self.subTest(name):
                self.assertEqual(str(parameter["Default"]), default(name) or "")
                if kind == "choice":
                    self.assertEqual(sorted(parameter["AllowedValues"]), sorted(ends))
                elif kind == "whole":
                    pattern = whole_pattern(*ends)
                    wanted = pattern if default(name) else f"({pattern})?"
                    self.assertEqual(parameter.get("AllowedPattern"), wanted)
                    self.assertIn(f"{ends[0]} to {ends[1]}", parameter["ConstraintDescription"])
                elif kind == "number" and default(name):
                    allowed = (parameter.get("MinValue"), parameter.get("MaxValue"))
                    self.assertEqual(allowed, tuple(ends))
                elif kind == "number":
                    self.assertEqual(parameter["AllowedPattern"], f"({QUOTA})?")

    def test_the_template_takes_what_the_parser_takes(self) -> None:
        for name, value, wanted in examples():
            with self.subTest(name, value=value):
                self.assertEqual(takes(self.parameters[name], value), wanted)

    def test_the_template_says_what_each_setting_means(self) -> None:
        for name in GIVEN:
            description = self.parameters[name]["Description"]
            with self.subTest(name):
                self.assertTrue(description.startswith(meaning(name).replace("`", "")), description)
                if name in LEFT_TO_THE_FUNCTION:
                    self.assertIn(f"Empty means {SETTINGS[name]['default']};", description)

    def test_a_quota_is_taken_from_a_thousandth_to_ten_thousand(self) -> None:
        self.assertEqual(SETTINGS["TIDEGATE_QUOTA_PER_SECOND"]["range"], {"number": [0.001, 10000.0]})
        for allowed in ("0.001", "0.5", "14", "14.5", "9999.999", "10000"):
            self.assertRegex(allowed, f"^({QUOTA})$")
        for refused in ("0", "0.0", "0.0001", "10000.1", "10001", "014", "-1", "1e3"):
            self.assertNotRegex(refused, f"^({QUOTA})$")

    def test_a_pattern_takes_the_numbers_of_its_range_and_no_others(self) -> None:
        for least, most in ((0, 1000), (1, 800), (12, 600), (15, 3600), (1, 5000), (7, 7), (99, 101)):
            found = re.compile(whole_pattern(least, most))
            taken = [n for n in range(most + 1200) if found.fullmatch(str(n))]
            self.assertEqual(taken, list(range(least, most + 1)))
            self.assertFalse(any(found.fullmatch(text) for text in ("2.5", "007", "", "1e1", "-1")))

    def test_any_two_weights_give_a_cycle(self) -> None:
        parameters = sam_template.source()["Parameters"]
        for name in ("FirstCampaignWeight", "SecondCampaignWeight"):
            # Half of the longest cycle each, so that their sum fits whatever their divisor is.
            self.assertEqual(parameters[name]["AllowedPattern"], whole_pattern(1, 5000))

    def test_campaigns_have_names_of_their_own(self) -> None:
        def refused(**given: str) -> list[str]:
            made = sam_template.stack(**given)
            rules = [r for n, r in sam_template.source()["Rules"].items() if "Campaign" in n]
            asserted = [a for rule in rules for a in rule["Assertions"]]
            return [a["AssertDescription"] for a in asserted if not made.evaluate(a["Assert"])]

        self.assertEqual(refused(), [])
        self.assertEqual(refused(FirstCampaignName="news", SecondCampaignName=""), [])
        for given in ({"FirstCampaignName": "a", "SecondCampaignName": "a"},
                      {"FirstCampaignName": "express"}, {"SecondCampaignName": "express"}):  # fmt: skip
            with self.subTest(given):
                self.assertEqual(len(refused(**given)), 1)

    def test_the_construct_reads_the_template_as_it_is_written(self) -> None:
        read = json.loads((ROOT / "infra" / "cdk" / "build" / "lib" / "template.json").read_text(encoding="utf-8"))
        self.assertEqual(read, sam_template.source())

    def test_the_construct_has_a_prop_of_each_parameter(self) -> None:
        text = (ROOT / "infra" / "cdk" / "lib" / "props.ts").read_text(encoding="utf-8")
        props = set(re.findall(r"^  readonly (\w+)\??:", text, re.M))
        others = re.compile(r"(First|Second)Campaign|Campaigns$|SharedBucket|SubnetIds|SecurityGroupIds")
        wanted = {small(name) for name in sam_template.source()["Parameters"] if not others.match(name)}
        self.assertEqual(wanted - props, set())

    def test_the_construct_says_what_each_setting_means(self) -> None:
        lib = ROOT / "infra" / "cdk" / "lib"
        comments: dict[str, str] = {}
        text = (lib / "props.ts").read_text(encoding="utf-8")
        for part in re.split(r"(?=^export interface )", text, flags=re.M):
            before = "sharedBucket" if part.startswith("export interface SharedBucket ") else ""
            for comment, prop in re.findall(r"  /\*\*\n((?:   \* .*\n)+)   \*/\n  readonly (\w+)", part):
                name = variable(before + prop[0].upper() + prop[1:])
                comments[name] = " ".join(comment.replace("\n   * ", " ").removeprefix("   * ").split())
        for name in GIVEN:
            ((kind, ends),) = SETTINGS[name]["range"].items()
            comment, _, value = comments[name].partition(" @default ")
            with self.subTest(name):
                self.assertTrue(comment.startswith(meaning(name)), comment)
                if kind in ("whole", "number"):
                    self.assertIn(f"From {ends[0]:,.10g} to {ends[1]:,.10g}.", comment)
                wanted = OWN_DEFAULTS.get(name, SETTINGS[name]["default"])
                if wanted is None:
                    self.assertTrue(value.startswith("- "), value)
                else:
                    self.assertEqual(re.split(r"[,\s]+which ", value)[0].strip("[]'"), wanted)

    def test_the_pages_say_the_defaults_of_the_list(self) -> None:
        found = 0
        for page in (ROOT / "docs").rglob("*.md"):
            text = page.read_text(encoding="utf-8")
            for name, value in re.findall(r"`(\w+)`,\s+default\s+`([^`]+)`", text):
                name = name if name.startswith("TIDEGATE_") else variable(name)
                if name in SETTINGS:
                    found += 1
                    with self.subTest(page.name, name=name):
                        self.assertEqual(value, SETTINGS[name]["default"])
        self.assertGreater(found, 2)


if __name__ == "__main__":
    unittest.main()
