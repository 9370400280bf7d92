"""Counts of days: the same as counting all calls again, whatever happened to them, and after a failed commit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.gate_commands import RecordFacts, make_ballot
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.calls.permissions import WORDS, find_permission
from toolcards.gate.writer import group_commit, transaction
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.day_counts import add_day_counts
from toolcards.models import Source, SourceDay, ToolCall

pytestmark = pytest.mark.django_db
POLICY = {"default": "ask", "rules": [
    {"id": "yes", "effect": "allow", "match": {"tool": ["read"]}},
    {"id": "no", "effect": "deny", "match": {"tool": ["wipe"]}},
]}  # fmt: skip
HOST = f.Actor("host", "Claude Code")


def count_again() -> dict[str, int]:
    words = (find_permission(call.as_card()) for call in ToolCall.objects.all())
    return Counter(permission.word for permission in words if permission is not None)


def read_counts(source: Source) -> dict[str, int]:
    row = SourceDay.objects.get(source=source.pk)
    return Counter({word: getattr(row, word) for word in WORDS if getattr(row, word)})


def test_what_becomes_of_each_call_is_counted_once(source: Source, policy: Any, an_approver: Any) -> None:
    policy(POLICY)
    for number, tool in enumerate(["read", "read", "read", "wipe", "push", "push"]):
        call = f"c{number}"
        gate.decide(source, gate.DecisionRequest(run="r", call_id=call, tool=tool, args={}, place=call))
    assert read_counts(source) == count_again() == {"allowed": 3, "denied": 1, "asked": 2}
    gate.vote(an_approver, make_ballot(ToolCall.objects.get(call_id="c4"), "approve"))
    run_cache.clear()  # as after a restart
    group_commit.execute(RecordFacts(source, "r", [f.OutputDenied("c0", "risky", HOST), f.CallRemoved("c1")]))
    assert read_counts(source) == count_again() == {"allowed": 1, "refused": 1, "denied": 1, "asked": 2}


def test_a_commit_that_fails_counts_nothing(source: Source, policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy(POLICY)
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="read", args={}))
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(transaction, "append_acts", lambda acts: 1 / 0)
        gate.decide(source, gate.DecisionRequest(run="r", call_id="d", tool="read", args={}))
    gate.decide(source, gate.DecisionRequest(run="r", call_id="d", tool="read", args={}))
    assert read_counts(source) == count_again() == {"allowed": 2}


def test_counts_add_up_by_source_and_day() -> None:
    for _ in range(2):
        add_day_counts({(1, 7, "allowed"): 2, (1, 7, "asked"): 1, (1, 8, "allowed"): 1, (2, 7, "denied"): 0})
    rows = SourceDay.objects.order_by("source", "day").values_list("source", "day", "allowed", "asked")
    assert list(rows) == [(1, 7, 4, 2), (1, 8, 2, 0)]
