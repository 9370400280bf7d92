"""Rates: which calls of a tool count, and what it costs to count them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from toolcards import gate
from toolcards.gate import policy_store

pytestmark = pytest.mark.django_db


def rule(effect: str, **match: Any) -> dict[str, Any]:
    return {"effect": effect, "match": match}


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
