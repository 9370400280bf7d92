"""Facts about outcomes: what a line of the log means that has only what is required."""

from __future__ import annotations

from typing import Any, get_args

from tests.support.log_lines import read_line
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.facts.outcome_facts import OutcomeFact

SHORTEST = [
    ('{"type":"output-partial","call_id":"c"}', f.OutputPartial, {"call_id": "c", "output": None, "more": False}),
    ('{"type":"output-ready","call_id":"c"}', f.OutputReady,
     {"call_id": "c", "output": None, "message_id": "", "unchanged": False, "reopens": False}),
    ('{"type":"output-failed","call_id":"c"}', f.OutputFailed,
     {"call_id": "c", "message": "", "code": "", "retryable": None, "authority": "", "phase": "", "after_ms": None,
      "output": None, "reopens": False}),
    ('{"type":"output-denied","call_id":"c"}', f.OutputDenied,
     {"call_id": "c", "reason": "", "by": {"kind": "host", "name": ""}, "reopens": False}),
    ('{"type":"outcome-marked","call_id":"c","outcome":"failed"}', f.OutcomeReported,
     {"call_id": "c", "outcome": "failed", "message_id": "", "code": ""}),
    ('{"type":"snapshot-seen","call_id":"c"}', f.SnapshotReceived,
     {"call_id": "c", "text": None, "error": None, "denied": False, "output": None}),
    ('{"type":"closed","call_id":"c","how":"expired"}', f.CallClosed, {"call_id": "c", "how": "expired", "reason": ""}),
    ('{"type":"settled-by-hand","call_id":"c","outcome":"failed"}', f.ManualOutcomeRecorded,
     {"call_id": "c", "outcome": "failed", "note": "", "by": {"kind": "human", "name": ""}}),
    ('{"type":"retry-moved","call_id":"c","state":"granted"}', f.RetryChanged,
     {"call_id": "c", "state": "granted", "by": {"kind": "human", "name": ""}}),
    ('{"type":"removed","call_id":"c"}', f.CallRemoved, {"call_id": "c"}),
    ('{"type":"odd","call_id":"c","code":"ungoverned"}', f.AnomalyRecorded, {"call_id": "c", "code": "ungoverned"}),
]  # fmt: skip


@loop_over(("line", "kind", "fields"), SHORTEST)
def test_a_short_line_keeps_its_meaning(line: str, kind: type, fields: dict[str, Any]) -> None:
    assert read_line(line) == (kind, fields)


def test_every_fact_about_outcomes_is_in_the_table() -> None:
    assert {kind for _, kind, _ in SHORTEST} == set(get_args(OutcomeFact))


@loop_over("output", [None, False, 0, 0.0, "", [], {}])
def test_an_empty_result_keeps_its_value_and_its_type(output: Any) -> None:
    loaded = f.load(f.dump(f.OutputReady("c", output)))
    assert isinstance(loaded, f.OutputReady) and loaded.output == output and type(loaded.output) is type(output)


def test_a_failure_that_may_be_retried_differs_from_one_that_says_nothing() -> None:
    facts = [f.OutputFailed("c", retryable=retryable) for retryable in (None, False, True)]
    assert len({f.dump(fact) for fact in facts}) == 3 and [f.load(f.dump(fact)) for fact in facts] == facts


def test_a_snapshot_of_an_empty_error_is_no_success() -> None:
    assert f.load(f.dump(f.SnapshotReceived("c", error=""))) == f.SnapshotReceived("c", None, "")
    assert f.SnapshotReceived("c", error="") != f.SnapshotReceived("c")


def test_a_call_can_end_in_every_way_in_which_its_run_can() -> None:
    assert set(get_args(f.Outcome)) < set(get_args(f.CloseReason))
