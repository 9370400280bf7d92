"""Acts in other tables: each must have a row in the trail."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.audit_trail import cut, sql
from tests.support.id_counters import reset_counters
from toolcards import gate
from toolcards.audit import anchor, verification
from toolcards.audit.rows import AuditRow
from toolcards.clocks import clock
from toolcards.models import AgentKey, Source, Vote

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_was_ever_there(db: None) -> None:
    reset_counters()


def test_an_emptied_trail_shows_by_what_took_place(key: AgentKey, policy: Any) -> None:
    policy({"default": "ask"})
    cut(0)
    anchor.get_path().unlink()
    finding = verification.verify()
    assert finding.kind == "behind" and "1 agent key, 1 policy version without a row" in finding.fault


def test_a_counter_remembers_rows_that_are_gone(key: AgentKey) -> None:
    cut(0)
    anchor.get_path().unlink()
    sql("DELETE FROM toolcards_agentkey", "DELETE FROM toolcards_source")
    assert "1 agent key" in verification.verify().fault


def test_a_vote_whose_row_is_gone_shows(a_call: Any) -> None:
    a_call("approval-responded")
    rows = AuditRow.objects.count()
    anchor.reset()
    assert Vote.objects.count() == 1 and AuditRow.objects.filter(act="vote").exists()
    cut(AuditRow.objects.get(act="vote").seq - 1)
    anchor.accept_end(verification._find_end(AuditRow.objects.count()))
    sql("UPDATE toolcards_vote SET at = at + 60")
    finding = verification.verify()
    assert finding.kind == "behind" and "the database has 1 vote without a row in the trail" in finding.fault
    assert rows > AuditRow.objects.count()


def test_a_decision_whose_row_is_gone_shows_by_the_log_of_events(
    source: Source, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy({"default": "deny"})
    moment = int(time.time()) + 0.0007  # both are in the same millisecond, past its half
    monkeypatch.setattr(anchor.time, "time", lambda: moment)
    monkeypatch.setattr(clock, "wall", lambda: moment)
    anchor.reset()
    anchor.accept_end(verification._find_end(AuditRow.objects.count()))
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "ls"}))
    assert verification.verify().fault == ""
    row = AuditRow.objects.get(act="decision")
    cut(row.seq - 1)
    assert "the database has 1 decision without a row in the trail" in verification.verify().fault
