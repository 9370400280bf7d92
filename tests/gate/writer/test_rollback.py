"""Every field that a work can change is undone when the work is refused, or it is named here with the reason."""

from __future__ import annotations

from dataclasses import fields

import pytest

from toolcards.core.calls.tool_events import ToolEventSequencer
from toolcards.core.runs.run_state import RunState
from toolcards.gate.writer import rollback
from toolcards.gate.writer.cache.run_memory import RunMark, RunMemory
from toolcards.gate.writer.outbox_writer import PayloadOutbox
from toolcards.gate.writer.transaction import Transaction

UNDONE_BY_NAME = {"runs", "outbox", "affects_every_run"}  # in `RollbackLog.roll_back`, by their parts
KEPT_FIELDS = {
    "now": "set before the works",
    "steady": "set before the works",
    "working": "set before the works",
    "rollback_log": "is the log itself",
    "size": "only limits what one commit takes",
    "_began": "only limits what one commit takes",
    "day_counts": "collected by `flush`, after the works",
    "small_cards": "collected by `flush`, after the works",
    "_is_finished": "set after `flush`",
}
RESTORED_IN_RUNS = {"seq", "events", "touched", "has_approvals", "sequencer", "row", "board", "dirty", "offers"}
KEPT_IN_RUNS = {
    "numbers": "of frames, which no command sends",
    "skipped": "of frames, which no command sends",
    "counts": "updated by `flush`",
    "states": "updated by `flush`",
    "permissions": "updated by `flush`",
    "permission_changes": "updated by `flush`",
    "waiting": "updated by `flush`",
    "text_sizes": "updated by `flush`",
    "card_sizes": "updated by `flush`",
    "size": "updated by `flush`",
    "cached_size": "updated after `flush`",
    "used_at": "updated after `flush`",
    "asks": "approvals as written, after a work that was not refused",
    "ordinals": "primary keys of rows that exist",
}


@pytest.mark.django_db
def test_every_field_of_a_transaction_is_undone_or_has_a_reason_to_stay() -> None:
    undone_fields = {*rollback._LISTS, *rollback._COPIED} | UNDONE_BY_NAME
    assert not undone_fields & KEPT_FIELDS.keys()
    assert vars(Transaction(0)).keys() == undone_fields | KEPT_FIELDS.keys()


def test_every_field_of_a_cached_run_is_restored_or_has_a_reason_to_stay() -> None:
    assert not RESTORED_IN_RUNS & KEPT_IN_RUNS.keys()
    assert {field.name for field in fields(RunMemory)} == RESTORED_IN_RUNS | KEPT_IN_RUNS.keys()
    names = {field.name for field in fields(RunMark)}
    assert names == {"seq", "events", "touched", "has_approvals", "pending", "title", "reason", "context", "cards"}


def test_the_parts_that_are_undone_have_no_other_fields() -> None:
    assert vars(PayloadOutbox()).keys() == {"payloads"}
    assert vars(ToolEventSequencer()).keys() == {"pending"}
    assert vars(RunState()).keys() == {"context", "cards", "_ordinals_by_call", "_waiting"}
