"""Frames of a stream become facts: once, in order, joined where that is equivalent, and decided on a gate stream."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.gate_commands import pass_working_time
from tests.support.held_writer import HeldWriter, hold_writer
from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards import gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls import facts as f
from toolcards.core.runs import sequence_set
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.gate.agents import ingest
from toolcards.gate.writer import group_commit, transaction
from toolcards.gate.writer.cache import run_cache
from toolcards.models import Approval, Event, Run, Source, ToolCall

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWriter]:
    held_writer = hold_writer(monkeypatch)
    yield held_writer
    held_writer.loop.close()


def read_log(name: str = "r") -> list[Any]:
    """Return the facts of the run, in order."""
    return [event.decoded_fact for event in Event.objects.after(Run.objects.get(name=name), 0)]


def read_permits(name: str = "r") -> dict[str, str]:
    """Return the state of each call's permit."""
    cards = [call.as_card() for call in ToolCall.objects.filter(run__name=name)]
    return {card.call_id: card.permit.state for card in cards if card.permit}


# ---------------------------------------------------------------- the end of a run and of a part of it


def test_the_end_of_a_sub_agent_keeps_the_permits_and_the_reason_of_the_run(
    writer: HeldWriter, source: Source, policy: Callable[..., Any]
) -> None:
    policy({"default": "allow"})
    gate.decide(source, gate.DecisionRequest("r", "main", "bash", {"command": "ls"}))
    stream = writer.open(source)
    stream.push([f.LaneStarted("helper"), f.InputReady("sub", "bash", {"command": "ls"}, True, lane="helper")])
    stream.push([f.RunEnded(outcome="error", reason="The sub-agent failed.", lane="helper")])
    writer.write_all()
    run = Run.objects.get()
    assert read_permits() == {"main": "issued"}
    assert (run.status, run.reason) == ("running", "")
    stream.push([f.RunEnded(outcome="error", reason="The run failed.")])
    writer.write_all()
    run.refresh_from_db()
    assert read_permits() == {"main": "void"}
    assert (run.status, run.reason) == ("error", "The run failed.")


def test_the_end_of_another_scope_voids_no_permit_of_the_current_one(
    writer: HeldWriter, source: Source, policy: Callable[..., Any]
) -> None:
    policy({"default": "allow"})
    gate.decide(source, gate.DecisionRequest("r", "main", "bash", {"command": "ls"}))
    stream = writer.open(source)
    stream.push([f.RunEnded(outcome="error", reason="The session failed.", scope="session of a sub-agent")])
    writer.write_all()
    assert (read_permits(), Run.objects.get().reason) == ({"main": "issued"}, "")


def test_an_end_that_comes_again_keeps_the_reason_of_the_first(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source)
    stream.push([f.InputReady("c", "bash", {}, True), f.RunEnded(outcome="error", reason="The model failed.")])
    stream.push([f.RunEnded(outcome="ok", again=True), f.TextDelta(text="late")])
    writer.write_all()
    assert Run.objects.get().reason == "The model failed."


# ---------------------------------------------------------------- frames and their numbers


def push_all(stream: Any, *frames: Any, first: int = 0) -> None:
    """Push the frames, numbered from `first` on if there is one."""
    for place, frame in enumerate(frames):
        stream.push(frame, first + place if first else 0)


def text(*words: str) -> list[Any]:
    return [f.TextDelta(text=word) for word in words]


def read_texts(name: str = "r") -> list[str]:
    return [fact.text for fact in read_log(name) if isinstance(fact, f.TextDelta)]


STARTED = [f.InputStarted("c", "bash")]


def test_a_frame_with_a_number_is_written_once_by_whichever_stream(writer: HeldWriter, source: Source) -> None:
    first, second = writer.open(source), writer.open(source)
    push_all(first, text("1"), STARTED, ("c", "{"), SkippedFrame("foo"), [], first=1)
    writer.write_all()
    push_all(second, text("1"), STARTED, ("c", "{"), SkippedFrame("foo"), [], text("6"), ("c", "}"), first=1)
    writer.write_all()
    push_all(first, text("6"), ("c", "}"), text("8"), first=6)
    writer.write_all()
    run = Run.objects.get()
    assert (read_texts(), str(ToolCall.objects.get().as_card().text)) == (["1", "6", "8"], "{}")
    assert (run.skipped, run.numbers) == (1, "[8]")
    third = writer.open(source)
    third.push(STARTED, 2)  # its sender takes the call for its own
    writer.write_all()
    assert third.touched_calls == second.touched_calls == first.touched_calls == {1}
    assert [report.frames for report in writer.reports] == [5, 7, 8, 1]  # repeated frames count as committed


@pytest.mark.parametrize("effect", ["allow", "deny", "ask"])
def test_a_question_whose_answer_was_lost_with_its_connection_is_answered_when_its_frame_is_repeated(
    effect: str, writer: HeldWriter, source: Source, policy: Callable[..., Any], an_approver: Any
) -> None:
    policy({"default": effect})
    question = [f.InputReady("c", "bash", {"command": "ls"}, True)]
    answers = []
    for _ in range(3):
        stream = writer.open(source, mode="gate", channel="socket")
        stream.push(question, 1)
        writer.write_all()
        answers += writer.reports.pop().decisions
    assert [answer["decision"] for answer in answers] == [effect] * 3
    assert answers[0] == answers[1] == answers[2]  # one decision, told again
    assert sum(isinstance(fact, f.PolicyDecided) for fact in read_log()) == 1


@pytest.mark.parametrize("handover", [0, 3600])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("first", "again", "effects"), [
    ("socket", "socket", []), ("http", "socket", []), ("http", "none", []), ("hook", "hook", ["ask"]),
    ("http", "hook", ["ask"]),
])  # fmt: skip
def test_an_approval_is_not_told_by_repeating_its_question_before_it_is_handed_over(
    first: str, again: str, effects: list[str], number: int, handover: int, writer: HeldWriter, source: Source,
    policy: Callable[..., Any], an_approver: Any, ballot: Any, limits: Any,
) -> None:  # fmt: skip
    limits(handover_seconds=handover)
    policy({"default": "ask"})
    question = [f.InputReady("c", "bash", {"command": "ls"}, True)]
    if first == "http":
        gate.decide(source, gate.DecisionRequest("r", "c", "bash", {"command": "ls"}))
    writer.open(source, mode="gate", channel=again).push(question, 1)
    writer.write_all()
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    writer.reports.clear()
    writer.open(source, mode="gate", channel=again).push(question, number)
    writer.write_all()
    assert [decision["decision"] for report in writer.reports for decision in report.decisions] == effects
    assert Approval.objects.get().state == "approved"


@pytest.mark.parametrize(
    ("mode", "end"),
    [
        ("observe", f.TextDelta(text="more")),
        ("gate", f.OutputReady("c", "done")),
        ("gate", f.RunEnded(outcome="truncated")),
    ],
)
def test_a_repeated_question_of_an_ended_call_or_an_observed_run_has_no_answer(
    mode: str, end: Any, writer: HeldWriter, source: Source, policy: Callable[..., Any]
) -> None:
    policy({"default": "allow"})
    frames = [f.InputReady("c", "bash", {"command": "ls"}, True)], [end]
    push_all(writer.open(source, mode=mode, channel="socket"), *frames, first=1)
    writer.write_all()
    writer.reports.clear()
    before = [type(fact) for fact in read_log()]
    push_all(writer.open(source, mode=mode, channel="socket"), *frames, first=1)
    writer.write_all()
    assert [report.decisions for report in writer.reports] == [[]]
    assert [type(fact) for fact in read_log()] == before


def test_frames_without_a_number_are_never_taken_for_repeated_ones(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source)
    push_all(stream, text("x"), text("x"), STARTED, ("c", "1"), ("c", "1"))
    writer.write_all()
    assert (read_texts(), str(ToolCall.objects.get().as_card().text)) == (["x", "x"], "11")


def test_numbers_that_leave_too_many_gaps_are_refused_and_counted(
    writer: HeldWriter, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_set, "MAX_GAPS", 2)
    stream = writer.open(source)
    push_all(stream, STARTED)
    for number in (2, 4, 6, 8):
        stream.push(text(str(number)), number)
    stream.push(("c", "lost"), 10)
    stream.push(("c", "kept"), 5)
    writer.write_all()
    assert (read_texts(), str(ToolCall.objects.get().as_card().text)) == (["2", "4"], "kept")
    assert [(report.frames, report.refused_frames) for report in writer.reports] == [(7, 3)]


@draw(40, suppress_health_check=list(HealthCheck))
@given(
    pieces=st.lists(st.tuples(st.sampled_from("ab"), st.text("xyz", min_size=1, max_size=3)), min_size=1, max_size=12),
    flood=st.sampled_from([2, 100]), cut=st.integers(0, 12),
)  # fmt: skip
def test_pieces_that_are_joined_in_a_flood_add_up_to_the_same_texts(
    source: Source, pieces: list[tuple[str, str]], flood: int, cut: int
) -> None:
    name = f"r{next(_names)}"
    with pytest.MonkeyPatch.context() as patch:
        writer = hold_writer(patch)
        patch.setattr(ingest, "FLOOD", flood)
        stream = writer.open(source, name)
        push_all(stream, [f.InputStarted("a", "bash")], [f.InputStarted("b", "bash")], first=1)
        writer.write()
        push_all(stream, *pieces[:cut], first=3)
        writer.write()
        push_all(stream, *pieces[cut:], first=3 + len(pieces[:cut]))
        writer.write_all()
        writer.loop.close()
    expected = {call: "".join(part for owner, part in pieces if owner == call) for call in "ab"}
    assert {call.call_id: str(call.as_card().text) for call in ToolCall.objects.filter(run__name=name)} == expected
    deltas = sum(isinstance(fact, f.InputDelta) for fact in read_log(name))
    groups = [
        [*group] for part in (pieces[:cut], pieces[cut:]) for _, group in groupby(part, key=lambda piece: piece[0])
    ]
    floods = len(pieces[:cut]) >= flood or len(pieces[cut:]) >= flood
    assert deltas == len(pieces) if not floods else len(groups) <= deltas <= len(pieces)
    assert json.loads(Run.objects.get(name=name).numbers) == [len(pieces) + 2]


_names = iter(range(10**9))


@draw(80, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.sampled_from([0, 1, 2, 3, 4, "commit"]), max_size=25),
    limits=st.sampled_from([{"MAX_RUNS": 1}, {"MAX_RUNS": 2}, {"MAX_SIZE": 0, "IDLE": -1.0}]),
)  # fmt: skip
def test_each_frame_is_kept_once_whichever_runs_the_cache_drops_meanwhile(
    source: Source, steps: list[Any], limits: dict[str, Any]
) -> None:
    names = [f"r{next(_names)}" for _ in range(3)]
    frames: dict[int, list[str]] = {stream: [] for stream in range(5)}
    with pytest.MonkeyPatch.context() as patch:
        writer = hold_writer(patch)
        run_cache.clear()
        for name, value in limits.items():
            patch.setattr(run_cache, name, value)
        streams = [writer.open(source, names[place % 3]) for place in range(5)]  # two runs have two streams
        for place, step in enumerate(steps):
            if step == "commit":
                writer.write()
                continue
            frames[step].append(str(place))
            streams[step].push(text(str(place)))
        writer.write_all()
        writer.loop.close()
    for place, name in enumerate(names):
        run = Run.objects.filter(name=name).first()
        texts = read_texts(name) if run else []
        streams_of_run = [frames[stream] for stream in range(place, 5, 3)]
        assert sorted(texts) == sorted(each for part in streams_of_run for each in part)
        assert all([each for each in texts if each in part] == part for part in streams_of_run)
        assert run is None or run.seq == len(texts) + 1  # and the start of the run


def test_a_flood_on_other_streams_joins_pieces_too(
    writer: HeldWriter, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "PRESSURE", 4)
    stream = writer.open(source)
    push_all(stream, STARTED, ("c", "1"), ("c", "2"))
    writer.write_all()
    push_all(stream, ("c", "3"), ("c", "4"))
    writer.frames_received += 2
    writer.write_all()
    assert [fact.text for fact in read_log() if isinstance(fact, f.InputDelta)] == ["1", "2", "34"]


def test_a_commit_that_takes_long_leaves_the_rest_of_the_frames_for_the_next_one(
    writer: HeldWriter, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "LONG", -1.0)
    stream = writer.open(source)
    push_all(stream, *(text(str(number)) for number in range(2 * transaction.SHARE + 1)))
    assert writer.write_all() == 3
    assert read_texts() == [str(number) for number in range(2 * transaction.SHARE + 1)]
    assert [report.frames for report in writer.reports] == [16, 32, 33]


def test_a_large_frame_ends_the_share_of_its_stream(
    writer: HeldWriter, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "LARGE", 1_000)
    monkeypatch.setattr(ingest, "LARGE", 1_000)
    stream = writer.open(source)
    push_all(stream, text("x" * 2_000), text("y"), text("z"))
    assert (writer.write_all(), read_texts()[1:]) == (2, ["y", "z"])


# ---------------------------------------------------------------- the start of a run


@loop_over("name, frames, expected", [
    ("own", [[f.RunStarted(agent="own", title="A title")]], [("own", "A title")]),
    ("unnamed", [[f.RunStarted()]], [("bot", "")]),
    ("none", [text("x")], [("bot", "")]),
    ("late", [text("x"), [f.RunStarted(agent="late")]], [("bot", ""), ("late", "")]),
    ("again", [[f.RunStarted()], [f.RunStarted(title="T" * 600)]], [("bot", ""), ("", "T" * 600)]),
    ("pieces", [("c", "1")], [("bot", "")]),
    ("skipped", [SkippedFrame("foo"), [], text("x")], [("bot", "")]),
    ("empty", [SkippedFrame("foo"), []], []),
])  # fmt: skip
def test_a_log_begins_with_the_start_of_its_run(
    name: str, frames: list[Any], expected: list[Any], source: Source
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        writer = hold_writer(patch)
        push_all(writer.open(source, name, agent="bot"), *frames)
        writer.write_all()
        writer.loop.close()
    starts = [(fact.agent, fact.title) for fact in read_log(name) if isinstance(fact, f.RunStarted)]
    assert starts == expected and (not expected or isinstance(read_log(name)[0], f.RunStarted))
    row = Run.objects.get(name=name)
    assert (row.title, row.agent) == (
        expected[-1][1][:500] if expected else "",
        "late" if name == "late" else row.agent,
    )


# ---------------------------------------------------------------- decisions


def decisions(writer: HeldWriter) -> list[tuple[str, str]]:
    return [(part["call_id"], part["decision"]) for report in writer.reports for part in report.decisions]


@pytest.mark.parametrize(("mode", "expected"), [("gate", [("c", "allow")]), ("observe", [])])
def test_a_gate_stream_gets_a_decision_about_each_complete_input(
    writer: HeldWriter, source: Source, policy: Callable[..., Any], mode: str, expected: Any
) -> None:
    policy({"default": "allow"})
    stream = writer.open(source, mode=mode)
    push_all(stream, STARTED, ("c", '{"command": "ls"}'))
    writer.write_all()
    assert decisions(writer) == []
    push_all(stream, [f.InputReady("c")], [f.OutputReady("c", 1)])
    writer.write_all()
    assert decisions(writer) == expected
    assert bool(ToolCall.objects.get().as_card().decision) is (mode == "gate")


@pytest.mark.parametrize(("mode", "codes"), [("gate", ["ungoverned"]), ("observe", [])])
def test_a_result_without_a_decision_is_ungoverned_where_the_agent_must_ask(
    writer: HeldWriter, source: Source, mode: str, codes: list[str]
) -> None:
    stream = writer.open(source, mode=mode)
    push_all(stream, [f.OutputReady("c", 1)], [f.OutputReady("none", 1)][:0])
    writer.write_all()
    assert [code for code, _ in ToolCall.objects.get().as_card().anomalies if code == "ungoverned"] == codes


@pytest.mark.parametrize(("channel", "fact", "votable"), [
    ("watch", f.ApprovalRequested("c", source_id="q"), True),
    ("none", f.ApprovalRequested("c", source_id="q"), False),
    ("watch", f.ApprovalRequested("c", source_id="q", automatic=True), False),
    ("watch", f.ApprovalRequested("c", source_id="q", terms={"local": True}), False),
])  # fmt: skip
def test_people_answer_the_agents_questions_only_if_its_connection_takes_answers(
    writer: HeldWriter, source: Source, channel: str, fact: Any, votable: bool
) -> None:
    stream = writer.open(source, channel=channel)
    push_all(stream, [f.InputReady("c", "bash", {"command": "ls"}, True), fact])
    writer.write_all()
    row, ask = Approval.objects.get(), ToolCall.objects.get().as_card().approval
    assert ask is not None and (ask.id, ask.votable, ask.args_sha256) == (row.pk, votable, digest({"command": "ls"}))
    assert row.channel == (channel if votable else "none")
    requests = [part for report in writer.reports for part in report.approvals]
    assert requests == [{"id": row.pk, "source_id": "q", "call_id": "c"}] * votable


def test_a_local_question_can_be_answered_here_if_someone_may(
    writer: HeldWriter, source: Source, an_approver: Any
) -> None:
    stream = writer.open(source, channel="watch")
    push_all(stream, [f.ApprovalRequested("c", source_id="q", terms={"local": True}, input={"a": 1})])
    writer.write_all()
    ask = ToolCall.objects.get().as_card().approval
    assert ask is not None and ask.votable and ask.args_sha256 == digest({"a": 1})


def test_a_local_question_stays_with_the_agent_where_the_policy_says_so(
    writer: HeldWriter, source: Source, an_approver: Any, policy: Any
) -> None:
    policy("watch")
    stream = writer.open(source, channel="watch")
    local, other = {"terms": {"local": True}, "input": {"a": 1}}, {"input": {"a": 2}}
    push_all(
        stream, [f.ApprovalRequested("c", source_id="q", **local), f.ApprovalRequested("d", source_id="r", **other)]
    )
    writer.write_all()
    assert {row.call_id: row.as_card().approval.votable for row in ToolCall.objects.all()} == {"c": False, "d": True}


def test_a_stream_reports_the_cards_that_it_touched(writer: HeldWriter, source: Source) -> None:
    other, stream = writer.open(source), writer.open(source)
    push_all(other, [f.InputReady("theirs", "bash", {}, True)])
    writer.write_all()
    stream.reports_cards = True
    push_all(stream, [f.InputReady("b", "bash", {}, True)], [f.InputReady("a", "bash", {}, True)], text("x"))
    writer.write_all()
    assert [card.call_id for card in stream.cards] == ["b", "a"] and other.cards == []
    assert (stream.seq, stream.run_pk) == (Run.objects.get().seq, Run.objects.get().pk)


def test_a_run_that_was_lost_continues_with_the_next_frames(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source)
    push_all(stream, text("1"))
    stream.renew_lease(5.0)
    writer.write_all()
    pass_working_time(10.0)
    assert Run.objects.get().status == "truncated"
    stream.renew_lease(5.0)
    writer.write_all()
    run = Run.objects.get()
    assert (run.status, run.reason) == ("running", "") and run.alive_until is not None


# ---------------------------------------------------------------- whole bodies


@pytest.mark.django_db(transaction=True)
async def test_a_body_and_the_lease_of_its_run_are_one_commit(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    commit = group_commit.commit

    def count_commits(works: list[Any]) -> None:
        commits.append(len(works))
        commit(works)

    monkeypatch.setattr(group_commit, "commit", count_commits)
    stream = gate.open_stream(source, "whole", protocol="native")
    stream.urgent = stream.reports_cards = True
    stream.prepare_lease(600.0)
    stream.push([f.InputReady("c", "bash", {"command": "ls"}, True, 0.0)])
    await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)
    assert await asyncio.to_thread(gate.drain, PATIENCE)
    assert commits == [1]
    assert [(card.call_id, card.state) for card in stream.cards] == [("c", "input-available")]
    row = await Run.objects.aget(name="whole")
    assert row.alive_until is not None and row.seq == stream.seq


@pytest.mark.django_db(transaction=True)
async def test_a_long_body_takes_several_commits_and_its_lease_belongs_to_the_last(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "LONG", -1.0)
    commits: list[tuple[int, list[str]]] = []
    stream = gate.open_stream(
        source, "long", protocol="native",
        on_commit=lambda report: commits.append((report.frames, [card.call_id for card in stream.cards])),
    )  # fmt: skip
    stream.reports_cards = True
    stream.prepare_lease(math.inf)
    for number in range(3 * transaction.SHARE):
        stream.push([f.InputReady(f"c{number}", "bash", {"command": "ls"}, True)])
    stream.push([gate.build_end_of_stream()])
    await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)
    assert [frames for frames, _ in commits] == [16, 32, 48, 49]
    assert len(stream.cards) == 3 * transaction.SHARE and all(card.finished for card in stream.cards)
    row = await Run.objects.aget(name="long")
    assert (row.status, row.alive_until) == ("truncated", math.inf)


@pytest.mark.django_db(transaction=True)
async def test_numbers_with_endless_gaps_are_refused_and_said_to_be(
    call: Any, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence_set, "MAX_GAPS", 3)
    frames = [{"n": n, "type": "text.delta", "text": str(n)} for n in (2, 4, 6, 8, 1, 3)]
    _, body, _ = await call("POST", "/api/v1/ingest?protocol=native&run=r", frames)
    assert (body["accepted"], body["refused"], body["error"]["code"]) == (5, 1, "gaps")
    assert json.loads((await Run.objects.aget()).numbers) == [4, [6, 6]]
    async with agent(run="s", mode="observe") as socket:
        await socket.say(frames[:4])
        assert (await socket.hear("error"))["code"] == "gaps"
        await socket.acked(4)
    texts = [event.decoded_fact async for event in Event.objects.filter(run__name="s").order_by("seq")]
    assert [fact.text for fact in texts if fact.type == "text-delta"] == ["2", "4", "6"]
