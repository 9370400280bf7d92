"""Facts about inputs: what a line of the log means that has only what is required, and what is never logged."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.support.log_lines import read_line
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.facts.input_facts import InputFact

SHORTEST = [
    ('{"type":"input-started","call_id":"c","tool":"t"}', f.InputStarted,
     {"call_id": "c", "tool": "t", "title": "", "source": "", "kind": "", "lane": "", "parent_call": "",
      "per_step": False, "provider_executed": False, "chunked": False, "dynamic": False, "reusable": False,
      "message_id": "", "resumes": False, "renews": False}),
    ('{"type":"input-delta","call_id":"c","text":"{"}', f.InputDelta, {"call_id": "c", "text": "{"}),
    ('{"type":"input-ready","call_id":"c"}', f.InputReady,
     {"call_id": "c", "tool": "", "input": None, "has_input": False, "attempt": 1, "title": "", "source": "",
      "kind": "", "lane": "", "parent_call": "", "per_step": False, "provider_executed": False, "again": False,
      "report": False, "note": "", "alias": "", "past": False, "described": False, "folder": "",
      "shown_blocks": None, "asks": False}),
    ('{"type":"input-invalid","call_id":"c"}', f.InputInvalid,
     {"call_id": "c", "tool": "", "input": None, "message": "", "code": "invalid_input", "per_step": False,
      "dynamic": False}),
    ('{"type":"input-repaired","call_id":"c"}', f.InputRepaired,
     {"call_id": "c", "tool": "", "input": None, "original": None, "method": "", "kind": "", "again": False}),
]  # fmt: skip


@loop_over(("line", "kind", "fields"), SHORTEST)
def test_a_short_line_keeps_its_meaning(line: str, kind: type, fields: dict[str, Any]) -> None:
    assert read_line(line) == (kind, fields)


def test_every_fact_about_inputs_is_in_the_table() -> None:
    assert {kind for _, kind, _ in SHORTEST} == set(get_args(InputFact))


def test_a_complete_input_of_nothing_differs_from_the_text_that_streamed() -> None:
    line = '{"type":"input-ready","call_id":"c","has_input":true}'
    assert read_line(line)[1]["has_input"] is True
    assert f.load(line) != f.InputReady("c") and f.load(line) == f.InputReady("c", has_input=True)


@loop_over("value", [None, False, 0, 0.0, "", [], {}, "\ud800", {"a": [1, None]}])
def test_an_input_keeps_its_value_and_its_type(value: Any) -> None:
    loaded = f.load(f.dump(f.InputReady("c", "t", value, True)))
    assert isinstance(loaded, f.InputReady) and loaded.input == value and type(loaded.input) is type(value)


def test_a_chunk_is_split_before_the_log_and_cannot_be_written_to_it() -> None:
    chunk: Any = f.InputChunk("c", "t", "{")
    assert f.InputChunk not in f.CALL_FACTS and f.InputChunk.type not in f.BY_TYPE
    with pytest.raises(KeyError):
        f.dump(chunk)
    with pytest.raises(ValueError, match="unknown fact type"):
        f.load('{"type":"input-chunk","call_id":"c"}')


def test_a_chunk_without_an_id_continues_the_one_before() -> None:
    assert (f.InputChunk().call_id, f.InputChunk().lane, f.InputChunk(text="x").tool) == ("", "", "")
