"""Facts about runs: what a line of the log means that has only its type."""

from __future__ import annotations

from typing import Any

from tests.support.log_lines import read_line
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f

SHORTEST = [
    ('{"type":"run-started"}', f.RunStarted, {"scope": "", "agent": "", "title": "", "tools": [], "program": "",
     "root": ""}),
    ('{"type":"message-started"}', f.MessageStarted, {"message_id": ""}),
    ('{"type":"lane-started"}', f.LaneStarted, {"lane": "", "name": "", "parent_lane": "", "parent_call": ""}),
    ('{"type":"step-started"}', f.StepStarted, {"step": None, "name": ""}),
    ('{"type":"step-finished"}', f.StepFinished, {"step": None, "name": ""}),
    ('{"type":"step-reset"}', f.StepReset, {}),
    ('{"type":"text-delta"}', f.TextDelta, {"text": "", "channel": "text", "lane": ""}),
    ('{"type":"error-seen"}', f.ErrorReported, {"message": ""}),
    ('{"type":"run-ended"}', f.RunEnded,
     {"outcome": "ok", "reason": "", "scope": "", "lane": "", "close_open_input": False, "if_open": "", "again": False,
      "away": False, "or_current": False, "interrupted_output": ""}),
]  # fmt: skip


@loop_over(("line", "kind", "fields"), SHORTEST)
def test_a_short_line_keeps_its_meaning_and_is_about_no_call(line: str, kind: type, fields: dict[str, Any]) -> None:
    assert read_line(line) == (kind, {"call_id": "", **fields})


def test_every_fact_of_a_run_is_in_the_table() -> None:
    assert {kind for _, kind, _ in SHORTEST} == set(f.RUN_FACTS)


def test_step_0_is_a_number_and_differs_from_no_number() -> None:
    assert f.dump(f.StepStarted(step=0)) == '{"type":"step-started","step":0}'
    assert f.load('{"type":"step-started","step":0}') == f.StepStarted(step=0) != f.StepStarted()


def test_two_runs_share_no_list_of_tools() -> None:
    first, second = f.RunStarted(), f.RunStarted()
    first.tools.append({"name": "t"})
    assert second.tools == []
