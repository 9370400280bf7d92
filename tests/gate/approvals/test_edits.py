"""An edit changes only what may be edited, to an input that the tool and the policy accept, or nothing at all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls import elicitation
from toolcards.core.calls import facts as f
from toolcards.core.policy.decision import AskTerms
from toolcards.gate.approvals.edits import accept_edit
from toolcards.gate.refusals import InvalidRequest
from toolcards.gate.writer.cache import run_memory
from toolcards.models import Approval, Run, ToolCall

pytestmark = pytest.mark.django_db
INPUT = {"command": "git push", "flags": ["-v"], "n": 1, "deep": {"a": 1, "ab": 2}, "a/b": 1}
POLICY = {
    "default": "ask",
    "rules": [
        {
            "id": "force",
            "effect": "deny",
            "match": {"args": [{"path": "/command", "op": "glob", "value": "*--force*"}]},
        },
    ],
}
FORM = {
    "message": "Which branch?",
    "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]},
}


@pytest.fixture
def edit(policy: Callable[..., Any], a_call: Callable[..., ToolCall]) -> Callable[..., Any]:
    """Give `edit(value, *editable, input=…, tool=…)`: the stored edit, or the refusal's code, message and details."""
    policy(POLICY)

    def run(value: Any, *editable: str, input: Any = None, tool: str = "bash", row: Any = None) -> Any:  # noqa: A002
        if not ToolCall.objects.exists():
            a_call("approval-requested", input=INPUT if input is None else input, tool=tool)
        call = ToolCall.objects.get()
        memory, approval = run_memory.load_memory(Run.objects.get()), row or Approval.objects.get()
        terms = AskTerms(editable=editable)
        try:
            accept_edit(value, memory, approval, call.as_card(), terms, time.time())
        except InvalidRequest as refusal:
            assert approval.edited == ""
            return refusal.code, refusal.message, refusal.details
        return json.loads(approval.edited)

    return run


@loop_over("change, editable", [
    ({"command": "git push -n"}, ["/command"]),
    ({"command": "ls", "n": 2}, ["/n", "/command"]),
    ({"flags": []}, ["/flags"]),
    ({"flags": ["-q", "-q"]}, ["/flags"]),
    ({"deep": {"a": 2, "ab": 2}}, ["/deep/a"]),
    ({"deep": {"a": {"new": [1]}, "ab": 2}}, ["/deep"]),
    ({"a/b": 2}, ["/a~1b"]),
    ({"new": 1}, ["/new"]),
    ({"command": "ls", "n": 9, "new": None}, [""]),  # the whole input
])  # fmt: skip
def test_what_may_be_edited_is_taken_over(change: Any, editable: list[str], edit: Any) -> None:
    assert edit(INPUT | change, *editable) == INPUT | change


@loop_over("change, editable, pointers", [
    ({"command": "ls"}, [], ["/command"]),
    ({"command": "ls"}, ["/flags"], ["/command"]),
    ({"command": "ls", "n": 2}, ["/command"], ["/n"]),
    ({"deep": {"a": 1, "ab": 3}}, ["/deep/a"], ["/deep/ab"]),  # not everything that begins with it
    ({"commands": "ls"}, ["/command"], ["/commands"]),
    ({"new": 1}, ["/command"], ["/new"]),
])  # fmt: skip
def test_what_may_not_be_edited_is_named(change: Any, editable: list[str], pointers: list[str], edit: Any) -> None:
    code, message, details = edit(INPUT | change, *editable)
    assert (code, message) == ("invalid_edit", "These parts cannot be edited.")
    assert details == {"detail": {"pointers": pointers}}


def test_a_part_that_may_not_be_edited_cannot_be_removed(edit: Any) -> None:
    assert edit({name: part for name, part in INPUT.items() if name != "n"}, "/command")[2] == {
        "detail": {"pointers": ["/n"]}
    }


@loop_over("value, message", [
    (INPUT, "Nothing was edited."),
    (dict(reversed(INPUT.items())), "Nothing was edited."),
    ([INPUT], "The edited input must be of the same JSON type."),
    ("text", "The edited input must be of the same JSON type."),
    (None, "The edited input must be of the same JSON type."),
    (INPUT | {"n": 2**53 + 1}, "The edited input cannot be used: "),
    (INPUT | {"command": "\ud800"}, "The edited input cannot be used: "),
    (INPUT | {"command": "git push --force"}, "The policy denies the edited call."),
    (INPUT | {"command": "‹secret github-token 40 · 3f9a›"}, "A masked value cannot be moved to another place."),
    (INPUT | {"‹secret github-token 40 · 3f9a›": 1}, "A masked value cannot be moved to another place."),
])  # fmt: skip
def test_an_edit_that_cannot_run_is_refused(value: Any, message: str, edit: Any) -> None:
    code, text, _ = edit(value, "")
    assert (code, text.startswith(message)) == ("invalid_edit", True), text


def test_a_mask_that_the_agent_itself_sent_may_stay(edit: Any) -> None:
    masked_input = {"command": "echo ‹secret github-token 40 · 3f9a›"}
    assert edit(masked_input | {"n": 1}, "/n", input=masked_input) == masked_input | {"n": 1}


def test_an_edited_input_has_to_match_the_schema_that_the_run_announced(edit: Any, a_run: Callable[..., Run]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    a_run("run-1", f.RunStarted(tools=[{"name": "count", "input_schema": schema}]))
    assert edit({"n": 2}, "/n", input={"n": 1}, tool="count") == {"n": 2}
    code, message, _ = edit({"n": "two"}, "/n", tool="count")
    assert code == "invalid_edit" and message.startswith("The edited input does not match the tool’s schema: ")


# ---------------------------------------------------------------- forms and questions


@loop_over("answers, expected", [
    ({"branch": "main"}, None),
    ({}, "invalid_answer"),
    ({"branch": 1}, "invalid_answer"),
    ({"branch": "main", "more": 1}, "invalid_answer"),
    ("main", "invalid_answer"),
    (None, "invalid_answer"),
])  # fmt: skip
def test_the_answers_of_a_form_have_to_fit_its_fields(answers: Any, expected: str | None, edit: Any) -> None:
    result = edit(FORM | {"answers": answers}, input=FORM, tool=elicitation.TOOL)
    assert (result if expected is None else result[0]) == (expected or FORM | {"answers": answers})


def test_of_a_form_only_the_answers_can_be_edited_whatever_the_terms_say(edit: Any) -> None:
    changed = FORM | {"message": "Delete it?", "answers": {"branch": "main"}}
    assert edit(changed, "", input=FORM, tool=elicitation.TOOL)[2] == {"detail": {"pointers": ["/message"]}}


def test_the_answer_to_a_question_of_the_agent_can_be_edited_without_a_term(edit: Any) -> None:
    questions = {"questions": [{"question": "Which?", "header": "Which", "options": [{"label": "a"}, {"label": "b"}]}]}
    edited = questions | {"answers": {"Which?": "a"}}
    assert edit(edited, input=questions, tool="AskUserQuestion") == edited
    assert edit(edited | {"questions": []}, tool="AskUserQuestion")[0] == "invalid_edit"


def test_an_edit_back_to_the_first_input_counts_while_another_edit_waits_for_votes(edit: Any) -> None:
    edit(INPUT | {"n": 2}, "/n")
    row = Approval.objects.get()
    row.args_sha256 = digest(INPUT | {"n": 2})  # as the first of two votes with an edit leaves it
    assert edit(INPUT, "/n", row=row) == INPUT
