"""Conditions on arguments as rows of a form: and, or, not, several at once, without JSON."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import read_fields, save
from toolcards.gate import policy_draft
from toolcards.models import PolicyVersion

pytestmark = pytest.mark.django_db

FLAT = {
    "args": [
        {"path": "/command", "op": "cmd", "value": ["git push", "git tag"]},
        {"path": "/cwd", "op": "eq", "value": "/srv"},
    ]
}
EXCEPTIONS = [
    {"args": [{"path": "/command", "op": "cmd", "value": "git push --dry-run"}]},
    {"args": [{"path": "/count", "op": "lt", "value": 3}]},
]


def test_several_conditions_and_exceptions_are_rows_without_json(admin: Client, first: PolicyVersion) -> None:
    rows = {
        "path": "command", "op": "cmd", "value": "git push\r\ngit tag",
        "path_2": "/count", "op_2": "lt", "value_2": "3", "clause_2": "unless",
        "path_4": "cwd", "op_4": "eq", "value_4": "/srv", "clause_4": "match",
        "path_5": "command", "op_5": "cmd", "value_5": "git push --dry-run", "clause_5": "unless",
    }  # fmt: skip
    assert save(admin, effect="ask", tool="", rule_id="pushes", **rows).status_code == 302
    rule = policy_draft.load_draft()["rules"][-1]
    assert rule["match"] == FLAT and rule["unless"] == EXCEPTIONS[::-1]
    fields = read_fields(admin, "pushes")
    assert [fields[name] for name in ("value", "value_2", "value_3", "value_4")] == [
        "git push\ngit tag", '"/srv"', "3", "git push --dry-run",
    ]  # fmt: skip
    assert not fields.get("advanced")
    assert admin.post("/policy/rules/pushes/", fields).status_code == 302
    assert policy_draft.load_draft()["rules"][-1] == rule


@pytest.mark.parametrize(
    "rule",
    [
        {"match": FLAT | {"when": {"from": "08:00"}}, "unless": EXCEPTIONS},
        {"match": {"args": [*FLAT["args"], {"path": "/to/*", "op": "eq", "value": "a", "quant": "all"}]}},
        {"match": FLAT, "unless": [*EXCEPTIONS, {"tool": ["Bash"]}]},
        {"match": FLAT, "unless": [{"args": FLAT["args"]}]},
        {"match": {"args": [{"path": "/a", "op": "in", "value": ["b\nc"]}]}},
    ],
)
def test_what_rows_cannot_express_stays_as_it_was(admin: Client, first: PolicyVersion, rule: dict[str, Any]) -> None:
    rule = {"id": "mine", "effect": "ask"} | rule
    policy_draft.replace_draft({"v": 1, "rules": [rule]}, author="a test")
    answer = admin.post("/policy/rules/mine/", read_fields(admin, "mine"))
    assert answer.status_code == 302, answer.context["form"].errors
    assert policy_draft.load_draft()["rules"] == [rule]


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"path_2": "/a", "value_2": "x"}, "op_2", "Choose an operator"),
        ({"op_3": "gt", "path_3": "/amount", "value_3": "many", "clause_3": "unless"}, "value_3", "number"),
        ({"op_2": "eq", "path_2": "a b", "value_2": "1", "clause_2": "unless"}, "path_2", ""),
    ],
)
def test_an_error_of_a_further_condition_is_shown_at_its_row(
    admin: Client, first: PolicyVersion, fields: dict[str, Any], field: str, says: str
) -> None:
    answer = save(admin, path="/command", op="cmd", value="git push", **fields)
    errors = answer.context["form"].errors
    assert answer.status_code == 422 and list(errors) == [field] and says in " ".join(errors[field])


@pytest.mark.parametrize("name", ["value_21", "op_0", "path_02"])
def test_a_row_that_the_form_does_not_have_is_refused_and_not_left_out(
    admin: Client, first: PolicyVersion, name: str
) -> None:
    answer = save(admin, rule_id="mine", **{name: "x"})
    assert answer.status_code == 422 and "at most 20 rows" in answer.content.decode()
    assert all(rule["id"] != "mine" for rule in policy_draft.load_draft()["rules"])
