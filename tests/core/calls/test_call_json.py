"""The Call object of the contract's section 4, and the one-line summary."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fact_samples import ALICE, WAYS, card_after
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import build_call_json, drop_large_bodies, format_time

CONTRACT = """
id run call_id agent_path step tool state cause soft preliminary awaiting_client input input_text original_input
output error approval decision anomalies timings duration_ms rev seq
"""


def call(*facts: Any) -> dict[str, Any]:
    call_json = build_call_json(card_after(*facts), run="run 1", id="id-1")
    assert json.loads(json.dumps(call_json)) == call_json
    return call_json


@pytest.mark.parametrize("way", [way for way in WAYS if way != "none"])
def test_every_field_of_the_contract_is_there_in_its_order(way: str) -> None:
    result = call(*WAYS[way])
    names = CONTRACT.split()
    assert list(result)[: len(names)] == names
    assert set(result["tool"]) == {"name", "kind", "source", "title"}
    assert set(result["timings"]) == {"started", "available", "requested", "decided", "finished"}
    assert set(result["duration_ms"]) == {"writing", "waiting", "running"}
    assert (result["run"], result["id"]) == ("run 1", "id-1")


def test_input_is_null_until_it_is_known() -> None:
    result = call(f.InputStarted("c", "Bash"), f.InputDelta("c", '{"comm'))
    assert (result["input"], result["input_text"], result["state"]) == (None, '{"comm', "input-streaming")


def test_what_there_is_not_is_null() -> None:
    result = call(f.InputReady("c", "Bash", {}, True))
    assert [result[name] for name in ("error", "approval", "decision", "cause", "denied")] == [None] * 5
    assert result["timings"]["finished"] is None


def test_an_approved_call_tells_who_when_and_how_long() -> None:
    result = call(
        f.InputStarted("c", "Bash", at=1_700_000_000.0),
        f.InputReady("c", "Bash", {}, True, at=1_700_000_000.5),
        f.PolicyDecided("c", "ask", reason="risky", rule="r1", version=3, would=[{"effect": "deny"}]),
        f.ApprovalRequested("c", id="a1", opener="gate", at=1_700_000_001.0, expires_at=1_700_000_901.0),
        f.ApprovalAnswered("c", True, by=ALICE, reason="fine", at=1_700_000_003.0),
        f.OutputReady("c", 1, at=1_700_000_003.25),
    )
    assert result["approval"]["by"] == {"kind": "human", "name": "alice"}
    assert result["approval"]["decided_at"] == "2023-11-14T22:13:23.000Z"
    assert result["approval"]["expires_at"] == "2023-11-14T22:28:21.000Z"
    assert {k: result["decision"][k] for k in ("effect", "reason", "rule", "policy_version", "would")} == {
        "effect": "ask", "reason": "risky", "rule": "r1", "policy_version": 3, "would": [{"effect": "deny"}],
    }  # fmt: skip
    assert result["duration_ms"] == {"writing": 500, "waiting": 2000, "running": 250}


def test_a_call_that_never_ran_has_no_running_time() -> None:
    ready = f.InputReady("c", "Bash", {}, True, at=10.0)
    for end in (
        f.OutputDenied("c", at=12.0),
        f.RunEnded(outcome="not-executed", at=12.0),
        f.InputInvalid("c", at=12.0),
    ):
        assert call(ready, end)["duration_ms"]["running"] is None
    assert call(ready, f.OutputFailed("c", at=12.0))["duration_ms"]["running"] == 2000


def test_a_denied_call_has_its_reason_and_its_actor() -> None:
    result = call(f.OutputDenied("c", "not today", f.Actor("rule", "r1")))
    assert result["denied"] == {"reason": "not today", "by": {"kind": "rule", "name": "r1"}}
    assert result["error"] is None


def test_anomalies_carry_their_time() -> None:
    result = call(f.OutputReady("c", 1), f.AnomalyRecorded("c", "ungoverned", at=1.0))
    assert result["anomalies"] == [{"code": "ungoverned", "at": "1970-01-01T00:00:01.000Z"}]


def test_an_impossible_time_is_no_time() -> None:
    assert [format_time(at) for at in (0.0, 1e30, float("nan"), float("inf"))] == [None] * 4


def test_long_bodies_are_left_out_by_name() -> None:
    result = call(f.InputReady("c", "Bash", {"q": "x" * 5000}, True), f.OutputReady("c", "é" * 2050))
    short = drop_large_bodies(result)
    assert short["truncated"] == ["input", "output"]
    assert (short["input"], short["output"], short["input_text"]) == (None, None, "")
    assert result["input"] == {"q": "x" * 5000}
    assert "truncated" not in drop_large_bodies(call(f.OutputReady("c", "short")))


def test_a_body_of_exactly_the_limit_stays() -> None:
    assert "truncated" not in drop_large_bodies(call(f.OutputReady("c", "x" * 4094)))
    assert drop_large_bodies(call(f.OutputReady("c", "x" * 4095)))["truncated"] == ["output"]


def test_lone_surrogates_have_a_size() -> None:
    assert drop_large_bodies(call(f.OutputReady("c", "\ud800" * 2000)))["truncated"] == ["output"]
