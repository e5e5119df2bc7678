"""What the Terraform module promises: each parameter a variable that takes what the template takes, and examples that fit it."""

from __future__ import annotations

import json
import re
import sys
import unittest
import zipfile
from typing import Any

import hcl2
import package
import terraform
from package import MODULE, ROOT, read_functions, read_template
from test_package import InAFolder

sys.path.append(str(ROOT / "infra" / "tests"))

from installed import empty_zips  # noqa: E402

MADE = package.made_of_templates("1.2.3")
STACK = terraform.without_secrets(read_template(ROOT / "infra" / "sam" / "template.yaml"))
CAMPAIGN = read_template(ROOT / "infra" / "sam" / "campaign.yaml")
SETTINGS = json.loads((ROOT / "infra" / "settings.json").read_text(encoding="utf-8"))
FOLDERS = [*sorted(path.name for path in (MODULE / "examples").iterdir())]


def bare(node: Any) -> Any:
    """Without the quotes that the reader leaves around texts and labels, and without what it notes of comments."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if isinstance(node, dict):
        return {bare(name): bare(value) for name, value in node.items() if not name.startswith("__")}
    return json.loads(node) if isinstance(node, str) and re.fullmatch(r'"(?:[^"\\]|\\.)*"', node) else node


def blocks(*texts: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The blocks of a folder's files by kind and labels, such as ("variable", "mode")."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}

    def gather(kind: tuple[str, ...], node: dict[str, Any]) -> None:
        labels = {"variable": 1, "output": 1, "module": 1, "check": 1, "resource": 2, "data": 2}.get(kind[0], 0)
        if len(kind) - 1 < labels:
            for label, body in node.items():
                gather((*kind, label), body)
        else:
            found.setdefault(kind, {}).update(node)

    for text in texts:
        for kind, nodes in bare(hcl2.loads(text)).items():
            for node in nodes:
                gather((kind,), node)
    return found


def labels(of: dict[tuple[str, ...], dict[str, Any]], kind: str) -> set[str]:
    return {of_kind[1] for of_kind in of if of_kind[0] == kind}


def files(folder: str = "") -> list[str]:
    """The texts of the module in a folder, written and made."""
    of_folder = [path.read_text(encoding="utf-8") for path in (MODULE / folder).glob("*.tf")]
    prefix = f"{folder}/" if folder else ""
    return of_folder + [text for name, text in MADE.items() if re.fullmatch(re.escape(prefix) + r"\w+\.tf", name)]


def takes(variable: terraform.Variable, value: str) -> bool:
    """Whether the variable's rules take a text of the setting, in the type that the variable has."""
    if variable.type == "bool":
        return value in variable.allowed
    if variable.type == "number" and value != "":
        try:
            float(value)
        except ValueError:
            return False
    values = value.split(",") if variable.type == "list(string)" else [value]
    each = "for value in" in str(variable.rules())
    for condition, _ in variable.rules():
        if found := re.search(r'regex\(("(?:[^"\\]|\\.)*"),', condition):
            pattern = json.loads(found[1].replace("$${", "${").replace("%%{", "%{"))
            matched = all(re.fullmatch(pattern, of) for of in (values if each else [value]))
            if matched == condition.startswith("!"):
                return False
        elif found := re.fullmatch(r"contains\((\[.*\]), .*\)", condition):
            if value not in map(str, json.loads(found[1])):
                return False
        elif found := re.fullmatch(r".* >= (\S+) && .* <= (\S+)", condition):
            if not float(found[1]) <= float(value) <= float(found[2]):
                return False
        elif found := re.fullmatch(r"length\(.*\) <= (\d+)", condition):
            if len(value) > int(found[1]):
                return False
        else:
            raise AssertionError(condition)
    return True


class Variables(unittest.TestCase):
    def test_each_parameter_is_one_described_and_given_to_the_stack(self) -> None:
        for template, folder in ((STACK, ""), (CAMPAIGN, "modules/campaign")):
            of = blocks(*files(folder))
            own = {"name", "functions", "code_bucket", "code_prefix", "doctor", "tags"} if not folder else {"tags"}
            parameters = {terraform.snake(name) for name in template["Parameters"]}
            self.assertEqual(labels(of, "variable"), parameters | own)
            for kind, block in of.items():
                if kind[0] in ("variable", "output"):
                    self.assertTrue(block["description"], kind)
            given = of["locals",]["parameters"]
            self.assertEqual(set(given), set(template["Parameters"]))
            for name, expression in given.items():
                self.assertIn(f"var.{terraform.snake(name)}", expression)

    def test_a_default_gives_the_stack_the_templates(self) -> None:
        for name, parameter in (STACK["Parameters"] | CAMPAIGN["Parameters"]).items():
            variable = terraform.Variable(name, parameter)
            default = variable.default()
            text = {bool: lambda of: of and "true" or "false", list: ",".join}.get(type(default), str)(default)
            text = {"on": ("off", "on")}.get("on" if "on" in variable.allowed else "", ("false", "true"))[default] if type(default) is bool else text
            expected = parameter.get("Default")
            with self.subTest(name):
                if default is None:
                    self.assertIn(expected, ("", None))
                elif variable.type == "number":
                    self.assertEqual(float(text), float(expected))
                else:
                    self.assertEqual(text, str(expected))

    def test_a_variable_takes_and_refuses_what_the_functions_parser_does(self) -> None:
        tried = 0
        for setting in SETTINGS:
            name = "".join(word.title() for word in setting["name"].removeprefix("TIDEGATE_").split("_"))
            if name not in STACK["Parameters"] or name == "Campaigns":
                continue
            variable = terraform.Variable(name, STACK["Parameters"][name])
            for value in setting["takes"] if variable.type != "list(string)" else []:
                has_password = name == "SharedBucket" and "@" in value
                self.assertEqual(takes(variable, value), not has_password, f"{name}={value}")
                tried += 1
            for value in setting["refuses"]:
                # What CloudFormation cannot tell, the function refuses.
                if takes(variable, value) and "AllowedPattern" in STACK["Parameters"][name]:
                    self.assertTrue(re.fullmatch(STACK["Parameters"][name]["AllowedPattern"], value.split(",")[0]), f"{name}={value}")
                tried += 1
        self.assertGreater(tried, 60)

    def test_a_name_that_is_a_queue_of_the_stacks_is_no_campaign(self) -> None:
        variable = terraform.Variable("Campaign", CAMPAIGN["Parameters"]["Campaign"])
        self.assertTrue(takes(variable, "expressive"))
        for name in ("express", "first", "dead-letter", "a b", ""):
            self.assertFalse(takes(variable, name), name)

    def test_no_pattern_looks_ahead_since_terraform_cannot(self) -> None:
        for name, text in MADE.items():
            if name.endswith(".tf"):
                self.assertEqual(re.findall(r"\(\?[=!<]", text), [], name)

    def test_no_parameter_of_its_template_is_hidden(self) -> None:
        for name in ("template.yaml", "template-sms.yaml"):
            self.assertNotIn("NoEcho", MADE[name])


class Module(InAFolder):
    def test_an_example_gives_what_there_is_and_reads_what_it_outputs(self) -> None:
        self.assertEqual(FOLDERS, ["agency", "one-campaign", "text-messages"])
        for example in FOLDERS:
            of = blocks(*files(f"examples/{example}"))
            for kind in of:
                if kind[0] != "module":
                    continue
                source = {"../..": "", "../../modules/campaign": "modules/campaign"}[of[kind]["source"]]
                module = blocks(*files(source))
                given = set(of[kind]) - {"source", "for_each"}
                self.assertLessEqual(given, labels(module, "variable"), example)
                needed = {name for name in labels(module, "variable") if "default" not in module["variable", name]}
                self.assertLessEqual(needed, given, example)
                text = (MODULE / "examples" / example / "main.tf").read_text(encoding="utf-8")
                read = set(re.findall(rf"\bmodule\.{kind[1]}\.(\w+)", text))
                self.assertLessEqual(read, labels(module, "output"), example)

    def test_what_the_module_refers_to_is_there(self) -> None:
        for folder in ("", "modules/campaign"):
            text = "\n".join(files(folder))
            of = blocks(*files(folder))
            self.assertLessEqual(set(re.findall(r"\bvar\.(\w+)", text)), labels(of, "variable"))
            self.assertLessEqual(set(re.findall(r"\blocal\.(\w+)", text)), set(of["locals",]))
            self.assertLessEqual(set(re.findall(r"\b(aws_\w+\.\w+)", text)), {".".join(kind[1:]) for kind in of if len(kind) == 3})

    def test_the_package_is_a_folder_as_the_registries_want_it(self) -> None:
        empty_zips(self.folder)
        functions = read_functions(self.folder, complete=True)
        path = package.terraform_package("1.2.3", functions, None, self.folder)
        with zipfile.ZipFile(path) as archive:
            names = {name.removeprefix("terraform-aws-tidegate-1.2.3/") for name in archive.namelist()}
            readme = archive.read("terraform-aws-tidegate-1.2.3/README.md").decode()
        top = {"main.tf", "variables.tf", "parameters.tf", "outputs.tf", "versions.tf", "README.md", "LICENSE", "NOTICE", "template.yaml", "template-sms.yaml"}
        self.assertEqual({name for name in names if "/" not in name}, top)
        self.assertLessEqual({f"functions/{name}" for name in package.names("arm64")}, names)
        self.assertLessEqual({"modules/campaign/main.tf", "modules/campaign/template.yaml", "examples/agency/main.tf", "tests/plan.tftest.hcl"}, names)
        self.assertNotIn("VERSION", readme.replace("`VERSION/`", ""))
        again = package.terraform_package("1.2.3", functions, None, self.folder)
        self.assertEqual(again.read_bytes(), path.read_bytes())


if __name__ == "__main__":
    unittest.main()
