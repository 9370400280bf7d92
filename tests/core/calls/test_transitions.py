# ruff: noqa: E501 - tables are read across
"""The transition table, typed a second time by hand: every row, every column, from reachable states through the board."""

from __future__ import annotations

from typing import Any

from tests.support.fact_samples import SAMPLES, WAYS, play
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.reducer import advance, find_row
from toolcards.core.calls.transitions import COLUMNS, NEXT, ROWS

# =: state stays, no anomaly · !: state stays, anomaly · buffer: no card yet · soft:<cause> · + or *: with an anomaly
# PRE: output-available, preliminary · wait: input-available, the client owes the result
PAGE = """
input           | none   | IS                    | IA               | AR           | AP               | PRE              | SOFT
input_start     | IS     | =                     | =                | =            | =                | =                | =
input_delta     | IS     | IS                    | =                | =            | =                | =                | =
input_ready     | IA     | IA                    | =                | =            | =                | =                | =
input_invalid   | OE     | OE                    | OE               | OE           | OE               | OE               | OE
approval_same   | AR     | AR                    | AR               | =            | !                | !                | AR
approval_new    | AR     | AR                    | AR               | AR*          | AR               | !                | AR
yes             | buffer | !                     | !                | AP           | =                | !                | !
no              | buffer | !                     | !                | OD           | !                | !                | !
partial         | PRE    | PRE                   | PRE              | PRE+         | PRE              | PRE              | PRE
output_ok       | OA     | OA                    | OA               | OA+          | OA               | OA               | OA
output_err      | OE     | OE                    | OE               | OE           | OE               | OE               | OE
output_denied   | OD     | OD                    | OD               | OD           | OD               | OD               | OD
end_ok          | -      | soft:incomplete-input | wait             | AR           | AP               | soft:no-result   | =
end_not_run     | -      | soft:incomplete-input | soft:not-executed| AR           | soft:not-executed| soft:no-result   | =
end_interrupt   | -      | soft:incomplete-input | IA               | AR           | AP               | PRE              | =
end_aborted     | -      | soft:aborted          | soft:aborted     | soft:aborted | soft:aborted     | soft:aborted     | =
end_error       | -      | soft:run-error        | soft:run-error   | soft:run-error | soft:run-error | soft:run-error   | =
end_truncated   | -      | soft:truncated        | soft:truncated   | AR           | soft:truncated   | soft:truncated   | =
expired         | -      | =                     | =                | OD           | =                | =                | =
superseded      | -      | =                     | =                | soft:superseded | =             | =                | =
step_reset      | -      | gone                  | gone             | gone         | gone             | gone             | gone
"""
HARD = """
input           | OA   | OE   | OD
input_start     | =    | =    | =
input_delta     | =    | =    | =
input_ready     | =    | =    | =
input_invalid   | !    | =    | !
approval_same   | !    | !    | !
approval_new    | !    | !    | !
yes             | !    | !    | !
no              | !    | !    | !
partial         | !    | !    | !
output_ok       | =    | !    | !
output_err      | !    | =    | !
output_denied   | !    | !    | =
end_ok          | =    | =    | =
end_not_run     | =    | =    | =
end_interrupt   | =    | =    | =
end_aborted     | =    | =    | =
end_error       | =    | =    | =
end_truncated   | =    | =    | =
expired         | =    | =    | =
superseded      | =    | =    | =
step_reset      | gone | gone | gone
"""
INPUTS: dict[str, Any] = {
    "input_start": f.InputStarted("c", "Bash"),
    "input_delta": f.InputDelta("c", 'and": "ls"}'),
    "input_ready": f.InputReady("c", "Bash", {"command": "ls -l"}, True),
    "input_invalid": f.InputInvalid("c", "Bash", message="not an object"),
    "approval_same": f.ApprovalRequested("c", source_id="q1"),
    "approval_new": f.ApprovalRequested("c", source_id="q2"),
    "yes": f.ApprovalAnswered("c", True),
    "no": f.ApprovalAnswered("c", False),
    "partial": f.OutputPartial("c", "half"),
    "output_ok": f.OutputReady("c", "done"),
    "output_err": f.OutputFailed("c", "broke"),
    "output_denied": f.OutputDenied("c", "no"),
    "end_ok": f.RunEnded(),
    "end_not_run": f.RunEnded(outcome="not-executed"),
    "end_interrupt": f.RunEnded(outcome="interrupt"),
    "end_aborted": f.RunEnded(outcome="aborted"),
    "end_error": f.RunEnded(outcome="error"),
    "end_truncated": f.RunEnded(outcome="truncated"),
    "expired": f.CallClosed("c", "expired"),
    "superseded": f.CallClosed("c", "superseded"),
    "step_reset": f.StepReset(),
}
STATE = {
    "IS": "input-streaming", "IA": "input-available", "AR": "approval-requested", "AP": "approval-responded",
    "PRE": "output-available", "OA": "output-available", "OE": "output-error", "OD": "output-denied",
    "SOFT": "output-error",
}  # fmt: skip


def _cells(page: str) -> list[tuple[str, str, str]]:
    head, *rows = [[cell.strip() for cell in line.split("|")] for line in page.strip().splitlines()]
    return [(name, column, cell) for name, *cells in rows for column, cell in zip(head[1:], cells, strict=True)]


@loop_over(("text", "column", "expected"), [*_cells(PAGE), *_cells(HARD)])
def test_the_board_does_what_the_page_says(text: str, column: str, expected: str) -> None:
    board = play(*WAYS[column])
    before = board.find("c")
    play(INPUTS[text], board=board)
    after = board.cards.get(1)
    if expected in {"-", "buffer"}:
        assert after is None
        assert bool(board.context.held) == (expected == "buffer")
        return
    assert after is not None
    old_anomalies = before.anomalies if before else ()
    if expected == "gone":
        assert after.removed
        assert board.find("c") is None
    elif expected in {"=", "!"}:
        assert before is not None
        assert (after.state, after.soft, after.preliminary) == (before.state, before.soft, before.preliminary)
        assert bool(after.anomalies[len(old_anomalies) :]) == (expected == "!")
    else:
        _is_at(after, expected.rstrip("+*"))
        codes = {"+": ["ran-without-approval"], "*": ["protocol-violation"]}.get(expected[-1], [])
        assert [code for code, _ in after.anomalies] == codes


def _is_at(card: Card, expected: str) -> None:
    cause = expected.removeprefix("soft:") if expected.startswith("soft:") else None
    assert (card.soft, card.cause) == (cause is not None, cause)
    assert card.state == ("output-error" if cause else "input-available" if expected == "wait" else STATE[expected])
    assert card.preliminary == (expected == "PRE")
    assert card.awaiting_client == (expected == "wait")


def test_every_situation_is_reached_and_named_as_the_table_names_it() -> None:
    for name, way in WAYS.items():
        card = play(*way).find("c")
        assert name == "none" if card is None else card.state == STATE[name], name
    assert set(WAYS) == set(COLUMNS)
    assert {str(state) for state in ToolCallState} == set(STATE.values())


def test_every_fact_class_has_a_sample() -> None:
    assert {type(fact) for fact in SAMPLES} == set(f.BY_TYPE.values())


def test_every_row_of_the_table_has_a_sample_and_every_call_fact_a_row() -> None:
    rows = {find_row(fact) for fact in SAMPLES if isinstance(fact, f.CALL_FACTS)}
    assert rows == set(ROWS)
    assert set(NEXT) == {(name, column) for name in ROWS for column in COLUMNS}


@loop_over("column", COLUMNS)
@loop_over("fact", SAMPLES, ids=lambda fact: fact.type)
def test_step_answers_every_pair(column: str, fact: f.AnyFact) -> None:
    card = play(*WAYS[column]).find("c") or Card("c")
    after, applied = advance(card, fact)
    assert after.rev >= card.rev
    assert not applied or after is not card
    assert after.call_id == "c"
