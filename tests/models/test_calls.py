"""A call in the database: its card is whole again, or made from the columns if it cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_commands import RecordFacts
from toolcards.core.calls import facts as f
from toolcards.encryption import UnreadableText
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.transaction import SMALL_TEXT
from toolcards.models import Source, ToolCall, calls
from toolcards.models.runs import CANNOT_BE_OPENED

pytestmark = pytest.mark.django_db
SECRET = "ghp_" + "a1B2" * 9


def test_calls_that_wait_are_in_the_order_of_their_requests(a_call: Any) -> None:
    for number in (2, 1, 3):
        a_call("approval-requested", call_id=f"call-{number}")
    a_call(call_id="call-4")
    assert [call.call_id for call in ToolCall.objects.waiting()] == ["call-2", "call-1", "call-3"]
    assert ToolCall.objects.not_removed().count() == 4


def test_the_text_that_only_the_log_has_is_added(a_call: Any, source: Source) -> None:
    a_call("input-streaming")
    text, lags = "", 0
    for piece in ('{"command": "', "ls " * SMALL_TEXT, *["ls "] * 12, '"}'):
        group_commit.execute(RecordFacts(source, "run-1", [f.InputDelta("call-1", piece)]))
        call, text = ToolCall.objects.get(), text + piece
        lags += call.text_seq < call.seq
        assert str(call.as_card().text) == text
    assert lags > 10
    assert str(call.as_card(late=["late"]).text) == call.text + "late"
    assert (call.as_card().rev, call.as_card().seq) == (call.rev, call.seq)


def test_the_card_that_the_writer_has_is_taken_as_it_is(a_call: Any) -> None:
    call_of_row = a_call()
    call = ToolCall.from_card(call_of_row.run, call_of_row.pk, call_of_row.as_card())
    assert call.as_card() is call.written_card and not call.is_unreadable
    assert call.public_id == call_of_row.public_id == f"{call_of_row.run_id}-1"
    columns = ("pk", "ordinal", "state", "rev", "seq", "removed")
    assert [getattr(call, name) for name in columns] == [getattr(call_of_row, name) for name in columns]


@pytest.mark.parametrize(
    ("column", "value"),
    [("card", UnreadableText("")), ("text", UnreadableText("")), ("card", "{"), ("card", "[]"), ("card", "null"),
     ("card", "")],
)  # fmt: skip
def test_a_card_that_cannot_be_read_is_made_from_the_columns(a_call: Any, column: str, value: str) -> None:
    call = a_call("approval-requested")
    call.agent = "a › b"
    setattr(call, column, value)
    card = call.as_card()
    assert call.is_unreadable and card.anomalies[0][0] == CANNOT_BE_OPENED
    assert (card.state, card.tool.name, card.rev, card.seq) == ("approval-requested", "bash", call.rev, call.seq)
    assert card.agent_path == ("a", "b") and card.times.requested == call.requested_at.timestamp()
    call.state = call.agent = ""
    assert call.as_card().state is None and call.as_card().agent_path == ()


def test_a_shown_card_hides_secrets_and_is_kept_for_its_revision(a_call: Any) -> None:
    call = a_call(input={"command": "ls", "key": SECRET})
    card = call.as_shown_card()
    assert SECRET not in str(card) and SECRET in str(call.as_card().input)
    assert call.as_shown_card() is card
    call.rev += 1
    assert call.as_shown_card() is not card


def test_only_so_many_shown_cards_are_kept_and_no_large_ones(a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_SHOWN_CARDS", 3)
    call = a_call()
    for rev in range(10, 20):
        call.rev = rev
        call.as_shown_card()
        assert 0 < len(calls._shown_cards) <= 3
    large = a_call(call_id="large", input={"command": "x" * calls.LARGE})
    before = dict(calls._shown_cards)
    assert large.as_shown_card() is not large.as_shown_card() and calls._shown_cards == before
