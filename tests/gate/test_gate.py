"""Entry points of the gate: one writer, one decision per approval, and a log that explains every change."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.db import DatabaseError, connection

from tests.support.gated_calls import ALLOW, PUSH
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate import policy_store
from toolcards.models import Approval, Event, LogIsFinal, PolicyVersion, Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "state",
    [
        "input-streaming", "input-available", "approval-requested", "approval-responded", "output-available",
        "output-error", "output-denied",
    ],
)  # fmt: skip
def test_every_state_is_reached_through_the_gate(state: str, a_call: Any) -> None:
    assert a_call(state).as_card().state == state


def test_the_log_is_never_changed(a_call: Any) -> None:
    a_call("output-available")
    with pytest.raises(LogIsFinal):
        Event.objects.all().update(seq=1)
    with pytest.raises(LogIsFinal):
        Event.objects.all().delete()


def test_a_text_cut_inside_an_emoji_is_stored_as_it_was(a_run: Any) -> None:
    a_run("r", f.InputStarted("c", "bash"), f.InputDelta("c", '"\ud83d'))
    assert str(ToolCall.objects.get().as_card().text) == '"\ud83d'


# ---------------------------------------------------------------- what the wire promises besides
def test_a_policy_that_cannot_be_read_allows_nothing(source: Source, policy: Any) -> None:
    policy("watch")
    for broken in ("{", '{"v": 1, "rules": [{"effect": "perhaps"}]}'):
        PolicyVersion.objects.filter(active=True).update(document=broken)
        policy_store._compiled.clear()
        decision = gate.decide(source, gate.DecisionRequest(run=f"r{len(broken)}", call_id="c", tool="bash", args={}))
        assert (decision["decision"], decision["by"]["kind"], decision["permit"]) == ("deny", "gate_error", None)
    policy_store._compiled.clear()


def test_what_cannot_be_written_into_the_trail_is_not_decided(source: Source, policy: Any) -> None:
    policy("watch")
    before = ToolCall.objects.count(), Approval.objects.count()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE toolcards_auditrow RENAME TO toolcards_elsewhere")
    try:
        with pytest.raises(DatabaseError):
            gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
        assert (ToolCall.objects.count(), Approval.objects.count()) == before
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE toolcards_elsewhere RENAME TO toolcards_auditrow")
    assert gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))["decision"] == "allow"


async def test_what_a_rule_allowed_over_a_socket_has_begun_with_a_right_to(agent: Any, call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    async with agent(run="r", mode="gate") as socket:
        await socket.say(PUSH)
        assert (await socket.hear("decision"))["decision"] == "allow"
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert not (await ToolCall.objects.aget()).as_card().anomalies
