"""Recorded failures of real libraries: the right code, the right authority, and no invented fields."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.trace_player import TRACES, Player, bodies, texts_of
from toolcards.adapters import ADAPTERS
from toolcards.adapters.base import BadFrame
from toolcards.client.common import error_codes
from toolcards.core.calls.card import Card

TOOL = ("tool_failed", "tool", None)
INVALID = ("invalid_input", "tool", False)
UNKNOWN = ("no_such_tool", "runtime", False)
EXPECTED = {
    ("ai-sdk-7", "b-tool-throws"): TOOL, ("ai-sdk-7", "c-tool-throws-empty-message"): TOOL,
    ("ai-sdk-7", "d-unknown-tool"): UNKNOWN, ("ai-sdk-7", "e-invalid-json-input"): INVALID,
    ("ai-sdk-7", "e2-schema-invalid-input"): INVALID, ("ai-sdk-6", "d-unknown-tool"): UNKNOWN,
    ("ai-sdk-6", "e-invalid-json-input"): INVALID, ("ai-sdk-6", "b-tool-throws"): TOOL,
    ("pydantic-ai-ag-ui", "b-tool-raises-plain-exception"): TOOL, ("pydantic-ai-ag-ui", "c-tool-raises-empty-message"): TOOL,
    ("pydantic-ai-ag-ui", "d-unknown-tool"): UNKNOWN, ("pydantic-ai-ag-ui", "e-invalid-json-input"): INVALID,
    ("ag-ui-langgraph", "d-unknown-tool"): TOOL, ("ag-ui-langgraph", "e2-schema-invalid-input"): TOOL,
    ("pydantic-ai-vercel", "d-unknown-tool"): INVALID,  # this producer marks it as nothing more than bad input
    ("tanstack-ai", "e-invalid-json-input"): INVALID,
    ("ai-sdk-7", "i4-model-stream-error-mid-args"): ("incomplete_input", "runtime", None),
    ("ai-sdk-7", "i5-length-truncated-args"): ("incomplete_input", "runtime", None),
}  # fmt: skip


def failed(protocol: str, turns: list[Any]) -> list[Card]:
    player = Player(protocol)
    for turn in turns:
        player.body(texts_of(turn))
    return [card for card in player.board.cards.values() if card.error and card.state == "output-error"]


RECORDED = {(name, scenario): (protocol, turns) for name, scenario, protocol, turns, _ in bodies()}


@loop_over("case", [case for case in EXPECTED if case in RECORDED], ids="/".join)
def test_a_recorded_failure_gets_its_own_code(case: tuple[str, str]) -> None:
    (card,) = failed(*RECORDED[case])
    assert (card.error.code, card.error.authority, card.error.retryable) == EXPECTED[case]


@loop_over("case", RECORDED, ids="/".join)
def test_every_recorded_failure_says_whose_it_is(case: tuple[str, str]) -> None:
    for card in failed(*RECORDED[case]):
        assert card.error.code
        assert card.error.authority in error_codes.AUTHORITIES


def test_a_repair_of_the_ai_sdk_shows_the_name_and_the_input_as_first_written() -> None:
    player = Player("ai-sdk")
    player.body(texts_of(TRACES / "ai-sdk-7" / "d2-unknown-tool-repaired.turn1.sse"))
    (card,) = player.board.cards.values()
    assert (card.tool.name, card.original_tool, card.repair) == ("get_weather", "GetWeather", "by the source")
    assert card.original_input == {"city": "Rome", "unit": "c"}


def test_a_dynamic_tools_bad_input_is_not_an_unknown_tool() -> None:
    player = Player("ai-sdk").frames(
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "t", "dynamic": True},
        {
            "type": "tool-input-error",
            "toolCallId": "c",
            "toolName": "t",
            "input": {},
            "dynamic": True,
            "errorText": "no",
        },
    )
    assert player.board.find("c").error.code == "invalid_input"


@pytest.mark.parametrize("text", ["", '{"city": "Ro', "*** Begin Patch"])
def test_an_error_before_the_end_of_the_input_blames_no_one(text: str) -> None:
    pieces = [{"type": "tool.input.started", "call_id": "c", "tool": "t"}]
    pieces += [{"type": "tool.input.delta", "call_id": "c", "delta": text}] if text else []
    player = Player("native").frames(*pieces, {"type": "tool.output.error", "call_id": "c", "error": {"message": "x"}})
    error = player.board.find("c").error
    assert (error.code, error.authority, error.retryable) == ("tool_failed", "unknown", None)
    stated = {"message": "x", "authority": "plugin"}
    player = Player("native").frames(*pieces, {"type": "tool.output.error", "call_id": "c", "error": stated})
    assert player.board.find("c").error.authority == "plugin"


def test_a_name_that_the_run_did_not_offer_is_an_unknown_tool() -> None:
    player = Player("native").frames(
        {"type": "run.started", "tools": [{"name": "known"}]},
        {"type": "tool.input.invalid", "call_id": "c", "tool": "other", "error": {"message": ""}},
        {"type": "tool.input.invalid", "call_id": "d", "tool": "known", "error": {"message": ""}},
        {"type": "tool.output.error", "call_id": "e", "error": {"message": "", "code": "rate_limited"}},
        {
            "type": "tool.output.error",
            "call_id": "f",
            "error": {"message": "", "retryable": True, "authority": "plugin"},
        },
    )
    by_name = {card.call_id: card.error for card in player.board.cards.values()}
    assert (by_name["c"].code, by_name["c"].authority, by_name["c"].phase) == ("no_such_tool", "runtime", "resolve")
    assert (by_name["d"].code, by_name["d"].authority, by_name["d"].phase) == ("invalid_input", "tool", "validate")
    assert by_name["e"].retryable is True
    assert (by_name["f"].code, by_name["f"].authority, by_name["f"].retryable) == ("tool_failed", "plugin", True)


def test_the_time_to_wait_comes_along_and_what_is_no_time_is_refused() -> None:
    def failed(after: object) -> dict[str, object]:
        return {"type": "tool.output.error", "call_id": "c", "error": {"code": "upstream", "after_ms": after}}

    assert Player("native").frames(failed(90_000)).board.find("c").error.after_ms == 60_000
    for odd in (-1, 1.5, "2", True, 2**53):
        with pytest.raises(BadFrame):
            ADAPTERS["native"].decode(json.dumps(failed(odd)))
