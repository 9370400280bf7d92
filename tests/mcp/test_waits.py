"""What a call answers that still waits: a state for clients that repeat it themselves, words for others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.mcp.waits import MAX_WAITS, STATE, VERSION, answer_waiting, take_waits

MODERN = {"_meta": {VERSION: "2026-07-28"}}


def request(**params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "mail", "arguments": {}} | params}


@pytest.mark.parametrize("version", ["2026-07-28", "2027-01-01"])
def test_a_client_with_states_repeats_the_call_itself_until_the_last_answer(version: str) -> None:
    current, answers = request(_meta={VERSION: version}), []
    for _ in range(MAX_WAITS):
        stripped, waits = take_waits(current)
        assert "requestState" not in stripped["params"] and waits == len(answers)
        answers.append(answer_waiting(stripped, waits, "apr_1")["result"])
        assert answers[-1]["resultType"] == "input_required" and "inputRequests" not in answers[-1]
        current = request(_meta={VERSION: version}, requestState=answers[-1]["requestState"])
    stripped, waits = take_waits(current)
    last = answer_waiting(stripped, waits, "apr_1")
    assert last["id"] == 7 and last["result"]["isError"] and "apr_1" in last["result"]["content"][0]["text"]


@loop_over("params", [
    {}, {"_meta": {}}, {"_meta": {VERSION: "2025-11-25"}}, {"_meta": {VERSION: 20260728}}, {"_meta": "x"},
    MODERN | {"requestState": "of the server"}, MODERN | {"inputResponses": {}},
])  # fmt: skip
def test_every_other_client_gets_words_for_its_model(params: dict[str, Any]) -> None:
    stripped, waits = take_waits(request(**params))
    assert stripped == request(**params) and waits == 0
    assert "call the same tool again" in answer_waiting(stripped, waits, "a")["result"]["content"][0]["text"]


@loop_over("state", [f"{STATE}x", f"{STATE}-1", f"{STATE}999", STATE, f"{STATE}1²"])
def test_a_made_up_count_is_the_last_one(state: str) -> None:
    stripped, waits = take_waits(request(requestState=state))
    assert (stripped, waits) == (request(), MAX_WAITS)


@loop_over("state", [f"x{STATE}1", "of the server", 5, None])
def test_a_state_of_the_server_is_left_to_it(state: Any) -> None:
    assert take_waits(request(requestState=state)) == (request(requestState=state), 0)
