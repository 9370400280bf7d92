"""The context of a run: what each fact of the run changes in it, and how large an agent can make it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import MAX_KIND_LENGTH, MAX_KINDS, RunContext, SkippedFrames, load


def play(*facts: Any) -> RunContext:
    context = RunContext()
    for fact in facts:
        assert context.apply(fact)
    return context


# ---------------------------------------------------------------- scopes and the end
def test_a_run_that_starts_is_active_in_its_scope() -> None:
    context = play(f.ErrorReported(message="old"), f.RunStarted(scope="r", agent="bot"))
    assert (context.scope, context.scopes, context.agent, context.error, context.ended) == ("r", ["r"], "bot", "", "")


def test_a_start_without_names_keeps_those_that_are_known() -> None:
    context = play(f.RunStarted(scope="r", agent="bot"), f.RunStarted())
    assert (context.scope, context.scopes, context.agent, context.replaying) == ("r", ["r"], "bot", False)


def test_the_same_scope_again_is_a_replay_until_another_one() -> None:
    started = [f.RunStarted(scope="r"), f.RunStarted(scope="r"), f.RunStarted(scope="s"), f.RunStarted(scope="r")]
    assert [play(*started[:count]).replaying for count in (1, 2, 3, 4)] == [False, True, False, False]


ENDS: list[tuple[f.RunEnded, str, list[str]]] = [  # the end, the outcome, the scopes that are open
    (f.RunEnded(outcome="aborted"), "aborted", ["r"]), (f.RunEnded(outcome="aborted", scope="s"), "aborted", ["r"]),
    (f.RunEnded(scope="r"), "", ["s"]), (f.RunEnded(scope="t"), "", ["r", "s"]),
    (f.RunEnded(lane="sub"), "", ["r", "s"]),
]  # fmt: skip


@loop_over(("end", "outcome", "scopes"), ENDS)
def test_only_the_end_of_the_current_scope_ends_the_run(end: f.RunEnded, outcome: str, scopes: list[str]) -> None:
    context = play(f.RunStarted(scope="r"), f.RunStarted(scope="s"), f.ApprovalAnswered("", True, "q"), end)
    assert (context.ended, context.scopes, len(context.held)) == (outcome, scopes, 0 if outcome else 1)


def test_a_run_that_ended_because_its_agent_left_is_away_until_it_continues() -> None:
    end = f.RunEnded(outcome="truncated", away=True)
    assert play(f.RunStarted(), end).away and not play(f.RunStarted(), end, f.StepStarted()).away
    assert play(f.RunStarted(), end, f.StepStarted()).ended == ""


def test_an_error_without_words_is_one() -> None:
    assert play(f.ErrorReported()).error == "error" and play(f.ErrorReported(message="boom")).error == "boom"
    assert play(f.ErrorReported(), f.MessageStarted()).error == ""


# ---------------------------------------------------------------- messages and steps
def steps(*facts: Any) -> tuple[int, int, bool]:
    context = play(*facts)
    return context.step, context.last_step, context.continuing


M1, M2, STEP = f.MessageStarted(message_id="m1"), f.MessageStarted(message_id="m2"), f.StepStarted()


def test_steps_without_numbers_are_counted_and_numbers_count() -> None:
    assert steps(STEP, STEP) == (2, 2, False)
    assert steps(f.StepStarted(step=5), STEP) == (6, 6, False)
    assert steps(f.StepStarted(step=5), f.StepStarted(step=2)) == (2, 5, False)
    assert steps(f.StepStarted(step=5), f.StepStarted(step=0)) == (0, 5, False)


def test_a_message_that_comes_again_begins_at_its_first_step() -> None:
    assert steps(M1, STEP, STEP, M1) == (0, 2, True)
    assert steps(M1, STEP, STEP, M1, STEP) == (1, 2, False)
    assert steps(M1, STEP, M2, STEP, STEP, M2) == (1, 3, True)
    assert steps(M1, STEP, M2) == (1, 1, False)


def test_a_message_with_an_id_is_a_scope() -> None:
    context = play(M1, M2)
    assert (context.scope, context.scopes, context.message_id) == ("m2", ["m1", "m2"], "m2")
    assert play(f.MessageStarted(), f.MessageStarted()).scope == "" and not play(f.MessageStarted()).continuing
    assert play(M1, f.RunEnded(), M1).ended == ""


# ---------------------------------------------------------------- lanes
def test_a_lane_is_the_path_of_its_agents_and_the_call_that_started_it() -> None:
    context = play(
        f.RunStarted(agent="boss", scope="r"),
        f.LaneStarted(lane="a", name="helper", parent_call="c1"), f.LaneStarted(lane="b", parent_lane="a"),
        f.LaneStarted(lane="c", name="x", parent_lane="gone"),
    )  # fmt: skip
    assert context.get_lane("a") == (["boss", "helper"], "c1") and context.get_lane("b") == (
        ["boss", "helper", "b"],
        "",
    )
    assert context.get_lane("c") == (["boss", "gone", "x"], "")
    assert context.get_lane("") == context.get_lane("r") == (["boss"], "") and context.get_lane("d") == (
        ["boss", "d"],
        "",
    )


def test_without_an_agent_a_lane_is_below_the_main_one() -> None:
    context = play(f.LaneStarted(lane="a", name="helper"))
    assert context.get_lane("a") == (["main", "helper"], "") and context.get_lane("") == ([], "")
    assert context.get_lane("b") == (["b"], "")


# ---------------------------------------------------------------- tools and their kinds
KINDS: list[tuple[dict[str, Any], str | None]] = [
    ({}, ""), ({"kind": "read"}, "read"), ({"kind": 5}, ""), ({"kind": None}, ""), ({"annotations": []}, ""),
    ({"annotations": {"readOnlyHint": True}}, "read"), ({"annotations": {"readOnlyHint": False}}, "edit"),
    ({"annotations": {"destructiveHint": True}}, "delete"), ({"annotations": {"destructiveHint": False}}, ""),
    ({"annotations": {"readOnlyHint": True, "destructiveHint": True}}, "read"),
    ({"annotations": {"readOnlyHint": "yes"}}, ""), ({"annotations": {"readOnlyHint": 1}}, ""),
    ({"kind": "read", "annotations": {"destructiveHint": True}}, "delete"),
    ({"kind": "delete", "annotations": {"readOnlyHint": True}}, "delete"),
    ({"kind": "read", "annotations": {"readOnlyHint": False}}, "edit"),
]  # fmt: skip


@loop_over(("tool", "kind"), KINDS)
def test_a_tool_has_the_more_dangerous_of_its_kinds(tool: dict[str, Any], kind: str) -> None:
    assert play(f.RunStarted(tools=[{"name": "t", **tool}])).kinds == {"t": kind}


def test_tools_add_up_the_last_word_counts_and_tools_without_names_do_not() -> None:
    context = play(
        f.RunStarted(tools=[{"name": "a", "kind": "read"}, {"name": 5}, {}]),
        f.RunStarted(tools=[{"name": "b"}, {"name": "a", "kind": "edit"}]),
    )
    assert context.kinds == {"a": "edit", "b": ""}


# ---------------------------------------------------------------- answers without a request, removed calls
def test_an_answer_waits_for_its_request_by_its_id_or_its_call() -> None:
    context = play(f.ApprovalAnswered("c", True, "q", at=1.5), f.ApprovalAnswered("c", False, reason="no", at=2.0))
    assert context.held == {"q": [True, "", 1.5], "call:c": [False, "no", 2.0]}


def test_a_removed_call_is_remembered_once() -> None:
    context = RunContext()
    for call_id in ("a", "b", "a"):
        context.drop(call_id)
    assert context.dropped == ["a", "b"]


# ---------------------------------------------------------------- the whole
@loop_over("fact", [f.StepFinished(), f.StepReset(), f.TextDelta(text="x")])
def test_some_facts_of_a_run_change_nothing(fact: Any) -> None:
    assert play(f.RunStarted(scope="r"), fact) == play(f.RunStarted(scope="r"))


def test_a_fact_of_a_call_has_no_handler() -> None:
    context = RunContext()
    assert not context.apply(f.OutputReady("c", 1)) and context == RunContext()


def test_a_copy_does_not_change_with_later_facts() -> None:
    context = play(
        f.RunStarted(scope="r", tools=[{"name": "t"}]), f.LaneStarted(lane="a"), f.ApprovalAnswered("c", True)
    )
    context.drop("c")
    context.chunked["a"] = "c"
    copied, before = context.copy(), asdict(context)
    for fact in (
        f.RunStarted(scope="s", tools=[{"name": "u"}]),
        f.LaneStarted(lane="b"),
        f.ApprovalAnswered("d", True),
    ):
        context.apply(fact)
    context.drop("d")
    context.chunked.clear()
    assert asdict(copied) == before != asdict(context)
    assert RunContext(**json.loads(json.dumps(before))) == copied


def test_an_agent_cannot_make_the_context_as_large_as_it_likes() -> None:
    context = RunContext()
    for number in range(3_000):
        context.apply(f.LaneStarted(lane=f"lane-{number}", parent_lane=f"lane-{number - 1}"))
        context.apply(f.MessageStarted(message_id=f"message-{number}"))
        context.apply(f.ApprovalAnswered(f"call-{number}", True))
        context.drop(f"call-{number}")
    context.apply(f.RunStarted(scope="r", tools=[{"name": f"tool-{number}"} for number in range(12_000)]))
    assert len(context.lanes) == len(context.held) == len(context.scopes) == len(context.dropped) == 1_000
    assert len(context.kinds) == 10_000 and len(json.dumps(vars(context))) < 2_000_000
    path, _ = context.get_lane("lane-2999")
    assert len(path) == 32 and path[-1] == "lane-2999" and path[:2] == ["lane--1", "lane-0"]
    assert context.scopes[-1] == "r" and context.dropped[-1] == "call-2999" and "call:call-0" in context.held


SKIPPED_FRAMES_KINDS = st.lists(st.one_of(st.text(max_size=200), st.integers(0, 90).map(str)), max_size=150)


def count_frames(kinds: list[str]) -> SkippedFrames:
    frames = SkippedFrames()
    for kind in kinds:
        frames.count(kind)
    return frames


@pytest.mark.slow
@given(SKIPPED_FRAMES_KINDS, SKIPPED_FRAMES_KINDS)
def test_counts_are_bounded_and_add_up(first: list[str], second: list[str]) -> None:
    frames, more = count_frames(first), count_frames(second)
    frames.add(more)
    assert frames.total == len(first) + len(second) == sum(frames.kinds.values()) + frames.other
    assert len(frames.kinds) <= MAX_KINDS and all(0 < len(kind) <= MAX_KIND_LENGTH for kind in frames.kinds)
    assert frames.other >= 0
    assert load(frames.total, frames.dump_kinds()) == frames


def test_the_kinds_beyond_the_limit_are_one_number() -> None:
    frames = count_frames([f"kind-{n}" for n in range(60)] + ["kind-0", "kind-59"])
    assert (len(frames.kinds), frames.kinds["kind-0"], frames.other) == (50, 2, 11)


def test_kinds_without_a_name_and_with_a_long_one_are_kept() -> None:
    assert count_frames(["", "x" * 81, "x" * 90, "y" * 80]).kinds == {"(empty)": 1, "x" * 79 + "…": 2, "y" * 80: 1}


def test_the_most_frequent_kinds_come_first() -> None:
    assert count_frames(["b", "a", "c", "c"]).by_number() == [("c", 2), ("a", 1), ("b", 1)]
