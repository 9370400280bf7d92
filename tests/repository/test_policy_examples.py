"""docs/policy.md shows examples; each is asked of the code. (Chapters on shell commands have a test of their own.)"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.client.common import tool_kinds
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.evaluation_context import CHARACTERS, MAX_STEPS
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.core.policy.matching import matchers
from toolcards.core.policy.matching.matchers import MATCHERS
from toolcards.core.policy.truth import Truth

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
TRUTHS = {"holds": Truth.TRUE, "does not hold": Truth.FALSE, "unknown": Truth.UNKNOWN}


def tables(mark: str) -> Iterator[tuple[str, list[str]]]:
    """Give the rows of every table that is marked so, each with the mark's word."""
    for entry in re.finditer(rf"<!-- {mark}(?:: ([\w-]+))? -->\n((?:\|.*\n)+)", PAGE):
        for line in entry[2].splitlines()[2:]:
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            yield entry[1] or "", [cell.strip().strip("`").replace("\\|", "|") for cell in cells]


def read_escapes(name: str) -> str:
    """The name with its escapes read."""
    return str(json.loads(f'"{name}"'))


def policies() -> dict[str, Any]:
    return {
        name: json.loads(text) for name, text in re.findall(r"<!-- policy: (\w+) -->\n```json\n(.*?)```", PAGE, re.S)
    }


@pytest.mark.parametrize(("name", "cells"), list(tables("answers")))
def test_an_example_is_answered_as_the_page_says(name: str, cells: list[str]) -> None:
    tool, value, answer, _ = read_escapes(cells[0]), json.loads(cells[1]), cells[2], cells[3]
    question = PolicyRequest.for_tool(tool, input=value, is_known=tool_kinds.is_known_tool(tool))
    assert decide(parse(policies()[name]), question).effect == answer


@pytest.mark.parametrize(("name", "cells"), list(tables("starter")))
def test_a_starter_policy_answers_as_the_page_says(name: str, cells: list[str]) -> None:
    question = PolicyRequest.for_tool(cells[0], input=json.loads(cells[1]), is_known=tool_kinds.is_known_tool(cells[0]))
    assert decide(parse(PRESETS[name].document), question).effect == cells[2]


@loop_over("cells", [cells for _, cells in tables("matches")])
def test_an_operator_answers_as_the_page_says(cells: list[str]) -> None:
    operator, expected, value = MATCHERS[cells[0]], json.loads(cells[1]), json.loads(cells[2])
    truth = matchers.match_value(operator, value, operator.shape.prepare(expected))
    assert truth is TRUTHS[cells[3].partition(":")[0]]


@pytest.mark.parametrize("cells", [cells for _, cells in tables("kinds")])
def test_a_tool_is_of_the_kinds_that_the_page_says(cells: list[str]) -> None:
    assert ", ".join(tool_kinds.find_kinds(cells[0], cells[1], claimed_kind=cells[2])) == cells[3]


def test_the_page_documents_every_operator_preset_and_limit() -> None:
    assert len(list(tables("answers"))) > 10 and len(list(tables("matches"))) > 40 and len(list(tables("kinds"))) > 10
    assert all(f"`{name}`" in PAGE for name in MATCHERS) and all(
        f"**{pack.title}**" in PAGE for pack in PRESETS.values()
    )
    assert f"{MAX_STEPS:,} steps" in PAGE and f"{CHARACTERS} characters" in PAGE and policies()
