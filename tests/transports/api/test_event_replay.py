"""A log as events of its calls: each with the card as it was then, and no secret in two pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.event_replays import CLONE, SECRET, besides, replay_events
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.models import Event
from toolcards.transports.api.event_replay import EventReplay, StreamEvent, coalesce

pytestmark = pytest.mark.django_db(transaction=True)


def names(events: list[StreamEvent]) -> list[str]:
    return [one.name for one in events]


def test_a_simple_call_is_streamed_from_start_to_end(a_run: Any) -> None:
    a_run(
        "r", f.StepStarted(), f.InputStarted("c", "bash"), f.InputDelta("c", "{}"), f.InputReady("c"),
        f.TextDelta(text="t"), f.OutputPartial("c", 1), f.OutputReady("c", 2), f.StepFinished(), f.RunEnded(),
    )  # fmt: skip
    assert names(replay_events()) == [
        "run_started", "step", "tool_call_started", "tool_call_progress", "tool_call_progress", "text",
        "tool_call_progress", "tool_call_completed", "step", "run_finished",
    ]  # fmt: skip


def test_every_event_of_a_call_carries_the_card_as_it_was_then(a_run: Any) -> None:
    a_run("r", f.InputStarted("c", "bash"), f.InputDelta("c", "{}"), f.InputReady("c"), f.OutputFailed("c", "broke"))
    calls = [one.data for one in replay_events() if "call" in one.data]
    states = ["input-streaming", "input-streaming", "input-available", "output-error"]
    assert [data["state"] for data in calls] == [data["call"]["state"] for data in calls] == states
    assert {(data["kind"], data["call"]["tool"]["kind"]) for data in calls} == {("execute", "execute")}
    assert [data["call"]["input_text"] for data in calls] == ["", "{}", "{}", "{}"]


def test_a_denial_resolves_the_approval_and_then_completes_the_call(a_call: Any) -> None:
    a_call("output-denied", run="r")
    assert names(replay_events())[-3:] == ["approval_requested", "approval_resolved", "tool_call_completed"]
    assert replay_events()[-1].seq == replay_events()[-2].seq
    assert {one.data["state"] for one in replay_events()[-2:]} == {"output-denied"}


def test_a_policy_denial_has_no_approval_and_is_no_error(source: Any, policy: Any) -> None:
    policy({"default": "deny"})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert names(replay_events()) == ["run_started", "tool_call_started", "tool_call_progress", "tool_call_completed"]
    assert replay_events()[-1].data["state"] == "output-denied"


def test_a_call_that_a_reset_deleted_is_reported_as_removed(a_run: Any) -> None:
    a_run("r", f.StepStarted(), f.InputStarted("c", "bash"), f.StepReset())
    assert names(replay_events())[-1] == "tool_call_removed"


def test_a_result_after_a_concluded_end_completes_again(a_run: Any, source: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {}, True), f.RunEnded(outcome="truncated"))
    a_run("r", f.OutputReady("c", 1))
    ends = [one.data["state"] for one in replay_events() if one.name == "tool_call_completed"]
    assert ends == ["output-error", "output-available"]


def test_consecutive_pieces_are_merged(a_run: Any) -> None:
    pieces = [fact for n in range(20) for fact in (f.InputDelta("a", "x"), f.InputDelta("b", "y"))]
    run = a_run("r", f.InputStarted("a", "bash"), f.InputStarted("b", "bash"), *pieces, f.InputReady("a"))
    events = besides(list(coalesce(EventReplay(run), Event.objects.after(run, 0))))
    assert names(events) == ["run_started", *["tool_call_started"] * 2, *["tool_call_progress"] * 3]
    assert [one.seq for one in events] == sorted(one.seq for one in events)
    assert events[-3].data["call"]["input_text"] == "x" * 20


def test_long_bodies_stay_at_home(a_run: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {"command": "x" * 5000}, True), f.OutputReady("c", "short"))
    call = replay_events()[-1].data["call"]
    assert (call["input"], call["truncated"], call["output"]) == (None, ["input"], "short")


@pytest.mark.parametrize("cut", range(1, len(CLONE), 3))
def test_a_secret_that_is_cut_between_two_pieces_of_text_is_in_neither(a_run: Any, cut: int) -> None:
    a_run("r", f.TextDelta(text=CLONE[:cut]), f.TextDelta(text=CLONE[cut:]), f.RunEnded())
    texts = [one.data["text"] for one in replay_events() if one.name == "text"]
    whole = "".join(texts)
    assert not any(SECRET[at : at + 4] in whole for at in range(len(SECRET) - 3)), texts
    assert whole.startswith("git clone https://ann:") and "@h/x and ‹secret openai-key 27 · " in whole
    assert whole.endswith(" done")


@pytest.mark.parametrize(
    "end", [f.RunEnded(), f.StepStarted(), f.MessageStarted(message_id="m"), f.RunStarted(agent="b")]
)
def test_held_back_text_is_sent_when_the_text_ends(a_run: Any, end: Any) -> None:
    a_run("r", f.TextDelta(text="see https://example"), f.TextDelta(text=" then aA1", channel="reasoning"), end)
    events = [one for one in replay_events() if one.name == "text"]
    assert [one.data["text"] for one in events] == ["see https://", " then ", "example", "aA1"]
    assert [one.data["channel"] for one in events] == ["text", "reasoning", "text", "reasoning"]
    assert events[-1].seq == Event.objects.latest("seq").seq


def test_a_card_that_is_being_written_shows_no_beginning_of_a_secret(a_run: Any) -> None:
    input_json = json.dumps({"command": CLONE})
    pieces = [f.InputDelta("c", input_json[at : at + 4]) for at in range(0, len(input_json), 4)]
    a_run("r", f.InputStarted("c", "bash"), *pieces)
    for one in replay_events():
        input_text = one.data.get("call", {}).get("input_text") or ""
        assert not any(SECRET[at : at + 4] in input_text for at in range(len(SECRET) - 3)), input_text
