"""Simulation and "why" evaluate a call again with what was known when it was decided."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.policy import dry_run
from dashboard.policy.explanation import explain
from dashboard.policy.simulation.past_calls import Span, iterate_past_calls, request_for_call
from toolcards import gate
from toolcards.core.policy.decision import decide
from toolcards.gate import policy_store
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


def rule(effect: str, **match: Any) -> dict[str, Any]:
    return {"effect": effect, "match": match}


MOMENTS: dict[str, dict[str, Any]] = {
    "an unknown tool": {"default": "allow", "unknown_tool": "ask"},
    "an unknown tool that is denied": {"default": "allow", "unknown_tool": "deny"},
    "an environment": {"default": "allow", "rules": [rule("deny", env=["prod"])]},
    "the owner": {"default": "allow", "rules": [rule("deny", user=["a-approver"])]},
    "a rate": {"default": "allow", "rules": [rule("deny", rate={"over": 0, "per": "1h"})]},
    "a rate that is not reached": {"default": "deny", "rules": [
        rule("allow"), rule("deny", rate={"over": 1, "per": "1h", "scope": "source"})]},
    "an input beyond all limits": {"default": "allow", "rules": [
        rule("deny", args=[{"path": "/many/*", "op": "glob", "value": [f"*a*b*{n}" for n in range(50)]}])]},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("document", MOMENTS.values(), ids=MOMENTS)
def test_what_happened_is_what_a_simulation_and_why_say(
    document: dict[str, Any], policy: Any, source: Any, a_person: Any
) -> None:
    policy(document)
    a_person("approver", "somebody-else")
    source.env, source.owner = "prod", a_person("approver")
    source.save()
    args = {"many": ["x" * 8] * 9_000 if "many" in str(document) else []}
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="frob", args=args))
    source.env, source.owner = "dev", None
    source.save()
    for number in range(3):  # what comes later changes nothing of what was
        gate.decide(source, gate.DecisionRequest(run="r", call_id=f"later-{number}", tool="frob", args={}))
    call = ToolCall.objects.select_related("run__source__owner").get(call_id="c")
    question = request_for_call(call, call.as_card())
    questions = [one.question for one in iterate_past_calls(Span()) if one.pk == call.pk and one.question]
    assert questions or args["many"]  # what is that large is counted, not judged
    for entry in (question, *questions):
        again = decide(policy_store.get_active_policy(), entry)
        assert (again.effect, again.code) == (decision["decision"], decision["reason"]["code"])
    explanation = explain(call)
    assert explanation.trial is not None and not explanation.differs and explanation.recorded == decision["decision"]


def test_a_tried_call_is_of_a_known_tool_where_the_newest_one_was(policy: Any, source: Any, a_person: Any) -> None:
    a_person("approver")
    policy({"default": "allow", "unknown_tool": "ask"})
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="frob", args={}))["decision"] == "ask"
    assert dry_run.try_call(policy_store.get_active_policy(), dry_run.build_request("frob", {})).effect == "ask"
    assert dry_run.try_call(policy_store.get_active_policy(), dry_run.build_request("Read", {})).effect == "allow"


@pytest.mark.parametrize("count", [990, 9_900])
def test_break_glass_lifts_no_question_that_was_not_fully_judged(
    count: int, policy: Any, source: Any, a_person: Any
) -> None:
    slow = {"path": "/files/*", "op": "glob", "value": [f"*a*b*{n}" for n in range(60)]}
    policy({"default": "ask", "rules": [rule("allow", args=[slow])]})
    gate.break_glass(a_person("admin").username, "an incident", 5)
    decision = gate.decide(
        source, gate.DecisionRequest(run="r", call_id="c", tool="files", args={"files": ["/x"] * count})
    )
    if count == 990:
        assert (decision["decision"], decision["by"]["kind"]) == ("allow", "break_glass")
    else:
        assert (decision["decision"], decision["reason"]["code"], decision["permit"]) == ("ask", "over_budget", None)


def test_padding_takes_no_deny_out_of_force_not_even_behind_broken_glass(
    policy: Any, source: Any, a_person: Any
) -> None:
    rules = [rule("deny", tool=["files"], args=[{"path": "/files/*/path", "op": "path_under", "value": f"/s{n}"}])
             for n in range(12)]  # fmt: skip
    policy({"default": "deny", "rules": [*rules, {"id": "zz", **rule("deny", tool=["files"])}]})
    gate.break_glass(a_person("admin").username, "an incident", 5)
    for number, size in enumerate((1, 990, 4_900)):
        request = gate.DecisionRequest(
            run="r", call_id=f"c{number}", tool="files", args={"files": [{"path": "/x"}] * size}
        )
        decision = gate.decide(source, request)
        assert (decision["decision"], decision["reason"]["code"], decision["by"]["ids"]) == (
            "deny",
            "rule_denied",
            ["zz"],
        )


SPELLINGS = ["frob", "Frob", "FROB ", "fr\u043eb", "mcp__any__frob", "f\u200brob"]


@pytest.mark.parametrize("scope", ["run", "source", "all"])
def test_a_rate_counts_all_spellings_of_a_tool_as_one(scope: str, policy: Any, source: Any) -> None:
    policy({"default": "allow", "unknown_tool": "allow", "rules": [
        rule("deny", tool=["frob"], rate={"over": len(SPELLINGS), "per": "1h", "scope": scope})]})  # fmt: skip

    def decide(number: int, tool: str) -> str:
        request = gate.DecisionRequest(run="r", call_id=f"c{number}", tool=tool, args={})
        return str(gate.decide(source, request)["decision"])

    assert [decide(*each) for each in enumerate(SPELLINGS)] == ["allow"] * len(SPELLINGS)
    assert [decide(10 + number, tool) for number, tool in enumerate(SPELLINGS)] == ["deny"] * len(SPELLINGS)
    assert decide(90, "other") == "allow"


def test_a_rate_reads_no_more_calls_than_its_limit(policy: Any, source: Any) -> None:
    """The plan names the index, and the count stops: 10,000 calls cost as few steps as 1,000."""
    policy({"default": "allow", "unknown_tool": "allow", "rules": [
        rule("deny", rate={"over": 700, "per": "1h", "scope": "all"})]})  # fmt: skip
    assert policy_store.get_active_policy().highest_rate == 700
    with CaptureQueriesContext(connection) as queries:
        gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="frob", args={}))
    (count,) = [query["sql"] for query in queries if "tool_key" in query["sql"] and "COUNT" in query["sql"]]
    assert "LIMIT 701" in count
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + count)
            assert "call_tool_key" in str(cursor.fetchall())
