"""docs/policy.md says what the code does: every marked table there is run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.shell.catalogs import EFFECTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
DEFAULTS = {"allow": "ask", "ask": "allow", "deny": "allow"}  # so that the answer shows whether the rule holds


def rows(name):
    """The rows of the table marked so, as lists of cells."""
    match = re.search(rf"<!-- run: {name} -->\n((?:\|.*\n)+)", PAGE)
    assert match, f"docs/policy.md has no table marked {name}"
    lines = match[1].splitlines()[2:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return [[cell.replace("\\|", "|") for cell in row] for row in cells]


def answer(rule, tool, arguments):
    effect, op, value = re.findall(r"`([^`]+)`", rule)
    match = {"tool": tool, "args": [{"path": "/command", "op": op, "value": value}]}
    policy = parse({"default": DEFAULTS[effect], "rules": [{"id": "r", "effect": effect, "match": match}]})
    return decide(policy, PolicyRequest.for_tool(tool, input=arguments)).effect.value


COMMANDS = [row for name in ("commands", "effects", "neutral") for row in rows(name)]


@loop_over(("rule", "command", "expected"), COMMANDS)
def test_commands_are_judged_as_the_page_says(rule, command, expected):
    assert answer(rule, "Bash", {"command": command.strip("`")}) == expected


@pytest.mark.parametrize(("rule", "tool", "arguments", "expected"), rows("arguments"))
def test_other_arguments_count_as_the_page_says(rule, tool, arguments, expected):
    assert answer(rule, tool.strip("`"), json.loads(arguments.strip("`"))) == expected


def test_the_rules_on_the_page_are_rules():
    for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL):
        document = json.loads(text)
        assert parse(document if "rules" in document else {"v": 1, "rules": [document]}).rules


def test_every_effect_is_explained():
    table = PAGE[PAGE.index("| Effect | Meaning |") :]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)[: len(EFFECTS) + 1] == [*EFFECTS, "none"]


def test_every_table_is_run():
    assert set(re.findall(r"<!-- run: (\w+) -->", PAGE)) == {"commands", "arguments", "effects", "neutral"}


def test_the_reference_is_up_to_date():
    result = subprocess.run(
        [sys.executable, "scripts/policy_reference.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
