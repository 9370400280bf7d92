"""Which call attaches to which open question: the same call of the same agent in the same place, under equal terms."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.decisions.decision_request import DecideCall
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Approval, Source

pytestmark = pytest.mark.django_db
CALL: dict[str, Any] = {
    "tool": "push", "args": {"branch": "main"}, "tool_source": "git", "agent_path": ("bot",), "place": "here",
    "root": "/home/me/shop", "schema_sha256": "a" * 64,
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "tool": {"tool": "pull"}, "arguments": {"args": {"branch": "dev"}}, "server": {"tool_source": "hg"},
    "agent": {"agent_path": ("other",)}, "sub-agent": {"agent_path": ("bot", "helper")}, "place": {"place": "there"},
    "project": {"root": "/home/me/blog"}, "note": {"note": "Released by ann"}, "schema": {"schema_sha256": "b" * 64},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _rules(policy: Any, an_approver: Any) -> None:
    policy({"default": "ask"})


def ask(source: Source, call: str, run: str = "r", **more: Any) -> dict[str, Any]:
    return gate.decide(source, gate.DecisionRequest(run=run, call_id=call, **{**CALL, **more}))


def twin_of(decision: dict[str, Any]) -> str:
    return decision["approval"]["twin"] or ""


@pytest.mark.parametrize("run", ["r", "another session"])
def test_the_same_call_attaches_to_the_open_question(source: Source, run: str) -> None:
    first = ask(source, "c1")
    assert not twin_of(first)
    assert twin_of(ask(source, "c2", run, args={"\u0062ranch": "main"})) == first["approval"]["id"]
    assert twin_of(ask(source, "c3", run)) == first["approval"]["id"]
    assert Approval.objects.waiting().count() == 1


@pytest.mark.parametrize("other", OTHERS)
def test_another_call_is_a_question_of_its_own(source: Source, other: str) -> None:
    ask(source, "c1")
    assert not twin_of(ask(source, "c2", "r2", **OTHERS[other]))


def test_the_same_call_of_another_agent_is_a_question_of_its_own(source: Source) -> None:
    ask(source, "c1")
    assert not twin_of(ask(AgentKey.objects.ensure("tck_of_another", name="another agent").source, "c2"))


def test_two_that_ask_in_one_commit_are_one_question(source: Source) -> None:
    requests = [gate.DecisionRequest(run=f"r{number}", call_id="c", **CALL) for number in range(3)]
    commands = [DecideCall(source, request) for request in requests]
    group_commit.commit(commands)
    first, *others = [command.answer["approval"] for command in commands]
    assert [other["twin"] for other in others] == [first["id"]] * 2 and Approval.objects.waiting().get().id == first[
        "id"
    ]


@pytest.mark.parametrize("terms", [{"quorum": 2}, {"reason": "always"}, {"approvers": ["ann"]}])
def test_no_answer_counts_for_other_terms(source: Source, policy: Any, a_person: Any, terms: Any) -> None:
    a_person("approver", "ben")
    rule = {"id": "push", "effect": "ask", "match": {"tool": ["push"]}}
    policy({"default": "ask", "rules": [rule]})
    ask(source, "c1")
    policy({"default": "ask", "rules": [rule | {"ask": terms}]})
    assert not twin_of(ask(source, "c2"))


def test_a_question_that_is_answered_with_values_is_not_shared(source: Source) -> None:
    form = {"tool": "elicitation/create", "args": {"message": "Name?", "requestedSchema": {"type": "object"}}}
    assert [twin_of(ask(source, call, **form)) for call in ("c1", "c2")] == ["", ""]


def test_the_question_of_an_agents_own_prompt_is_not_shared(source: Source, a_run: Any) -> None:
    ready = f.InputReady("c1", "push", CALL["args"], True)
    a_run("r", ready, f.ApprovalRequested("c1", id="apr_own", votable=True))
    assert not twin_of(ask(source, "c2", "r"))


@pytest.mark.parametrize("run", ["r", "r2"])
def test_a_call_that_names_no_place_is_a_question_of_its_own(source: Source, run: str) -> None:
    ask(source, "c1", place="")
    assert not twin_of(ask(source, "c2", run, place=""))
    assert Approval.objects.waiting().count() == 2
