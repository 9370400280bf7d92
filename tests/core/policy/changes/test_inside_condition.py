"""Rules with `inside_project`: what is undecided never lets a call through."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.changes.inside_condition import InsideCondition
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse

ROOT = "/home/ann/shop"


def find_effect(document: dict[str, Any], tool: str, value: Any, root: str = ROOT, **fields: Any) -> Effect:
    return decide(parse(document), PolicyRequest.for_tool(tool, input=value, root=root, **fields)).effect


ROWS = [
    ("allow", "ask", "a.py", "allow"), ("allow", "ask", "/etc/a", "ask"), ("allow", "ask", "a/../b", "ask"),
    ("allow", "ask", ".git/config", "ask"), ("ask", "allow", "a.py", "ask"), ("ask", "allow", "a/../b", "ask"),
    ("ask", "allow", "/etc/a", "allow"), ("deny", "allow", "a.py", "deny"), ("deny", "allow", ".git/config", "allow"),
]  # fmt: skip


@loop_over(("effect", "default", "file", "answer"), ROWS)
@pytest.mark.parametrize("path", ["", "/file_path"])
def test_a_path_counts_as_inside_where_a_rule_needs_it(
    path: str, effect: str, default: str, file: str, answer: str
) -> None:
    rule = {"effect": effect, "match": {"args": [{"path": path, "op": "inside_project"}]}}
    assert find_effect({"default": default, "rules": [rule]}, "Edit", {"file_path": file}) == answer


EDITS = {
    "default": "allow",
    "rules": [
        {"effect": "ask", "match": {"kind": ["edit"]}, "unless": [{"args": [{"path": "", "op": "inside_project"}]}]}
    ],
}


@loop_over(
    ("root", "file", "answer"),
    [
        (ROOT, "a", "allow"), (ROOT, "/etc/a", "ask"), (ROOT, "a/../b", "ask"), ("", "a", "ask"), ("/", "a", "ask"),
        ("/home/ann", "/home/ann/shop/a", "ask"), ("~", "a", "ask"), (f"{ROOT}/..", "a", "ask"),
    ],
)  # fmt: skip
def test_everything_but_edits_inside_can_be_asked_about(root: str, file: str, answer: str) -> None:
    assert find_effect(EDITS, "Edit", {"file_path": file}, root) == answer


def test_without_a_project_a_rule_that_allows_holds_for_nothing_and_others_for_all() -> None:
    for effect, default, answer in (("allow", "ask", "ask"), ("deny", "allow", "deny")):
        rule = {"effect": effect, "match": {"args": [{"path": "", "op": "inside_project"}]}}
        document = {"default": default, "rules": [rule]}
        assert find_effect(document, "Edit", {"file_path": "a"}, root="") == answer
        assert find_effect(document, "Edit", None, has_input=False) == answer


def test_all_or_any_of_the_values_count() -> None:
    for quant, answer in (("any", "deny"), ("all", "allow")):
        argument = {"path": "/paths/*", "op": "inside_project", "quant": quant}
        document = {"default": "allow", "rules": [{"effect": "deny", "match": {"args": [argument]}}]}
        assert find_effect(document, "save_file", {"paths": ["a", "/etc/a"]}) == answer
        assert find_effect(document, "save_file", {"paths": []}) == "allow"
        assert find_effect(document, "save_file", {"paths": [5]}) == "deny"


def test_a_condition_has_a_name_for_people() -> None:
    assert InsideCondition((), every=True).name.strip() == "inside_project"
    assert InsideCondition(("file_path",), every=True).name == "/file_path inside_project"
