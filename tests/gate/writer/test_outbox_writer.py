"""What subscribers get of a transaction: payloads without arguments or secrets, one delivery for each target."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError

from tests.support.tables import loop_over
from toolcards import hooks
from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.card import (
    Card,
    CardApproval,
    CardDecision,
    CardError,
    CardTool,
    Milestones,
    ToolCallState,
)  # fmt: skip
from toolcards.gate.writer import outbox_writer
from toolcards.gate.writer.outbox_writer import PayloadOutbox, build_payload, build_run_payload, get_severity
from toolcards.models import Delivery, Run, Source, Webhook
from toolcards.models.notifications import PLUGIN
from toolcards.notifications import subscriptions

S = ToolCallState
SECRET = "ghp_" + "a1B2" * 9


class Memory:
    """A run of which payloads need the row and the position."""

    def __init__(self) -> None:
        self.row, self.seq = Run(pk=3, name="a run", source=Source(pk=1, name="an agent")), 5


MEMORY: Any = Memory()
CARD = Card("c", ordinal=7, state=S.OUTPUT_AVAILABLE, tool=CardTool("bash", "execute", "server"), agent_path=("main",),
            input={"command": f"echo {SECRET}"}, has_input=True, output={"stdout": SECRET}, has_output=True,
            times=Milestones(started=1.0, available=2.0, finished=4.5))  # fmt: skip


def build(event: str, card: Card = CARD, before: Card | None = None) -> dict[str, Any]:
    return build_payload(event, MEMORY, card, before, 5.0, 5)


# ---------------------------------------------------------------- payloads


def test_a_payload_names_its_call_and_has_neither_arguments_nor_results_nor_secrets() -> None:
    payload = build(h.EXECUTE_AFTER)
    assert payload.items() >= {
        "event": "tool.execute.after", "v": 1, "position": 5, "run_id": "a run", "run": 3, "source": "an agent",
        "call": "3-7", "call_id": "c", "attempt": 1, "agent_path": ["main"], "state": "output-available",
        "tool": {"name": "bash", "source": "server", "kind": "execute"}, "phase": "execute", "duration_ms": 2500,
        "decision_id": None, "args_sha256": None, "repair": None, "ts": "1970-01-01T00:00:05.000Z",
    }.items()  # fmt: skip
    assert payload["url"] == MEMORY.row.url and payload["id"] and payload["seq"] > 0
    text = json.dumps(payload)
    assert "echo" in payload["summary"] and SECRET not in text and "stdout" not in text


def test_a_payload_names_the_decision_and_the_repair() -> None:
    card = CARD.replace(decision=CardDecision("allow", args_sha256="0f"), repair="wrapped", original_tool="sh")
    payload = build(h.EXECUTE_BEFORE, card)
    assert (payload["decision_id"], payload["args_sha256"], payload["phase"]) == ("dec_3-7", "0f", "before")
    assert payload["repair"] == {"method": "wrapped", "tool": "sh"}
    assert build(h.EXECUTE_BEFORE, card.replace(original_tool=""))["repair"]["tool"] == "bash"


@loop_over("times, duration", [
    (Milestones(started=1.0, available=2.0, decided=3.0, finished=4.5), 1500),  # from the decision on
    (Milestones(started=1.0, available=2.0), None), (Milestones(finished=4.5), None),
])  # fmt: skip
def test_a_duration_needs_both_of_its_ends(times: Milestones, duration: int | None) -> None:
    assert build(h.EXECUTE_AFTER, CARD.replace(times=times))["duration_ms"] == duration


@loop_over("event, card, expected", [
    (h.EXECUTE_SETTLED, CARD, {"outcome": "ok"}),
    (h.EXECUTE_AFTER, CARD, {}),
    (h.UNGOVERNED, CARD.replace(anomalies=(("ungoverned", 1.0), ("x", 2.0))), {"anomalies": ["ungoverned", "x"]}),
])  # fmt: skip
def test_each_event_has_its_own_details(event: str, card: Card, expected: dict[str, Any]) -> None:
    assert outbox_writer._build_details(event, card, None) == expected


def test_an_error_is_described_without_secrets_also_when_it_corrects_an_outcome() -> None:
    failed = CARD.replace(state=S.OUTPUT_ERROR, error=CardError(f"token {SECRET} is wrong", "timeout"))
    error = build(h.EXECUTE_ERROR, failed)["error"]
    assert (error["code"], SECRET in error["message"], "is wrong" in error["message"]) == ("timeout", False, True)
    corrected = build(h.EXECUTE_CORRECTED, failed, CARD)
    assert (corrected["outcome"], corrected["error"]) == ("error", error)


def test_an_approval_is_described_with_its_reason_in_short_and_without_secrets() -> None:
    ask = CardApproval("apr_1", terms={"severity": "high"}, expires_at=9.0, request_reason=f"{SECRET} {'x' * 600}")
    waiting_card = CARD.replace(state=S.APPROVAL_REQUESTED, approval=ask)
    payload = build(h.APPROVAL_REQUESTED, waiting_card)
    assert payload["approval"] == {"id": "apr_1", "state": "pending", "expires_at": "1970-01-01T00:00:09.000Z"}
    assert (payload["severity"], payload["url"], "escalated_to" in payload) == ("high", "/approvals/", False)
    assert SECRET not in payload["reason"] and payload["reason"].endswith("x" * 400)
    escalated = waiting_card.replace(approval=CardApproval("apr_1", escalated=(("bob", 1.0), ("eve", 2.0))))
    before = waiting_card.replace(approval=CardApproval("apr_1", escalated=(("bob", 1.0),)))
    payload = build(h.APPROVAL_ESCALATED, escalated, before)
    assert (payload["escalated_to"], payload["severity"]) == (["eve"], "medium")


def test_a_failed_run_is_described_with_its_outcome_and_without_secrets() -> None:
    payload = build_run_payload(MEMORY, f.RunEnded(outcome="truncated", reason=f"{SECRET} {'x' * 5_000}", at=5.0))
    assert (payload["event"], payload["call"], payload["outcome"]) == ("run.failed", "", "truncated")
    assert payload["error"]["code"] == "truncated" and SECRET not in payload["error"]["message"]
    assert len(payload["error"]["message"]) < h.MAX_MESSAGE_LENGTH + 100


@loop_over("event, severity, expected", [
    (h.UNGOVERNED, None, "critical"), (h.APPROVAL_REQUESTED, None, "medium"), (h.APPROVAL_REQUESTED, "low", "low"),
    (h.APPROVAL_REQUESTED, "critical", "critical"), (h.APPROVAL_ESCALATED, "low", "high"),
    (h.APPROVAL_ESCALATED, "critical", "critical"), (h.RUN_FAILED, None, "high"), (h.EXECUTE_ERROR, None, "medium"),
    (h.EXECUTE_CORRECTED, None, "medium"), (h.EXECUTE_AFTER, None, "low"), (h.APPROVAL_RESOLVED, "critical", "low"),
])  # fmt: skip
def test_an_event_is_as_severe_as_what_it_asks_of_people(event: str, severity: str | None, expected: str) -> None:
    assert get_severity({"event": event} | ({"severity": severity} if severity else {})) == expected


# ---------------------------------------------------------------- what is added


def test_only_the_end_of_a_run_that_failed_as_a_whole_is_added() -> None:
    outbox = PayloadOutbox()
    for outcome in ("ok", "aborted", "not-executed", "interrupt", "error", "truncated"):
        outbox.add_run_end(MEMORY, f.RunEnded(outcome=outcome))  # type: ignore[arg-type]
    outbox.add_run_end(MEMORY, f.RunEnded(outcome="error", lane="helper"))
    assert [payload["outcome"] for _, payload in outbox.payloads] == ["error", "truncated"]


def test_a_held_back_end_is_added_at_its_own_position_and_time() -> None:
    outbox = PayloadOutbox()
    outbox.add_settled(MEMORY, h.PendingEnd(7, CARD, 4))
    outbox.add(MEMORY, CARD, CARD, f.OutputReady("c", 1, at=6.0), [h.EXECUTE_SETTLED])
    assert [(payload["event"], payload["position"], payload["ts"][-5:]) for _, payload in outbox.payloads] == [
        (h.EXECUTE_AFTER, 4, ".500Z"), (h.EXECUTE_SETTLED, 4, ".500Z"), (h.EXECUTE_SETTLED, 5, ".000Z"),
    ]  # fmt: skip


def test_a_call_that_cannot_be_described_is_left_out_and_changes_nothing_else() -> None:
    outbox = PayloadOutbox()
    broken = CARD.replace(times=Milestones(available=1.0, finished=math.nan))  # no number of milliseconds
    outbox.add(MEMORY, None, broken, f.OutputReady("c", 1), [h.EXECUTE_AFTER])
    outbox.add(MEMORY, None, CARD, f.OutputReady("c", 1, at=5.0), [h.EXECUTE_AFTER])
    assert [payload["duration_ms"] for _, payload in outbox.payloads] == [2500]


# ---------------------------------------------------------------- deliveries


@pytest.fixture
def outbox(db: None) -> Iterator[PayloadOutbox]:
    """An outbox with one error of a call."""
    subscriptions.clear_cache()
    failed = CARD.replace(state=S.OUTPUT_ERROR, error=CardError("no"))
    filled = PayloadOutbox()
    filled.add(MEMORY, None, failed, f.OutputFailed("c", "no", at=5.0), [h.EXECUTE_BEFORE, h.EXECUTE_ERROR])
    yield filled
    hooks.clear()
    subscriptions.clear_cache()


def list_deliveries() -> list[tuple[str, str]]:
    return sorted(Delivery.objects.values_list("target", "event"))


def test_each_webhook_gets_what_it_wants_once(outbox: PayloadOutbox) -> None:
    rows = [
        ("all", {}),
        ("errors", {"severity": "medium"}),
        ("off", {"enabled": False}),
        ("high", {"severity": "high"}),
    ]
    pks = {name: Webhook.objects.create(name=name, url="https://example.com/", **more).pk for name, more in rows}
    again = list(outbox.payloads)
    outbox.write(6.0)
    expected = sorted([(str(pks["all"]), h.EXECUTE_BEFORE), (str(pks["all"]), h.EXECUTE_ERROR),
                       (str(pks["errors"]), h.EXECUTE_ERROR)])  # fmt: skip
    assert list_deliveries() == expected and outbox.payloads == []
    row = Delivery.objects.filter(event=h.EXECUTE_ERROR).first()
    assert row is not None and (row.created_at, row.next_at, row.severity, row.state) == (6.0, 6.0, "medium", "pending")
    assert row.decoded_payload == again[1][1] and row.event_id == again[1][1]["id"]
    outbox.payloads = again
    outbox.write(7.0)  # as when a commit is repeated after its reply was lost
    assert list_deliveries() == expected


class Observer:
    """A plugin that sees every event."""

    def before(self, call: dict[str, Any]) -> None:
        """Have no opinion."""

    def error(self, call: dict[str, Any]) -> None:
        """Look at the error."""


def test_a_plugin_gets_its_events_but_not_the_one_it_was_consulted_about(outbox: PayloadOutbox) -> None:
    hooks.register(Observer(), "watch")
    outbox.write(6.0)
    assert list_deliveries() == [(f"{PLUGIN}watch", h.EXECUTE_ERROR)]


def test_a_broken_subscription_keeps_no_transaction_from_its_commit(outbox: PayloadOutbox) -> None:
    Webhook.objects.create(name="w", url="https://example.com/", events="not JSON")
    outbox.write(6.0)
    assert list_deliveries() == [] and outbox.payloads == []


def test_a_database_that_is_away_is_not_taken_for_a_broken_subscription(
    outbox: PayloadOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(subscriptions, "list_webhooks", fail)
    with pytest.raises(OperationalError):
        outbox.write(6.0)
