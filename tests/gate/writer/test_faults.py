"""What was acknowledged is kept once, and what was not has left no trace, wherever the database fails in a commit.

The reference model is another agent, with the same runs, for which the database never fails: it gets the works that
were acknowledged and no others. In the end both have the same rows, and each cached run is what is read from its rows.
"""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.gate_commands import RecordFacts
from toolcards import gate, outages
from toolcards.core.calls import facts as f
from toolcards.database import is_transient
from toolcards.gate.agents.results import RecordResult
from toolcards.gate.agents.run_commands import EndRun, FetchDecision, WithdrawApproval
from toolcards.gate.approvals.permits import ClaimPermit
from toolcards.gate.approvals.votes import CastVote
from toolcards.gate.decisions.decision_request import DecideCall
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.models import AgentKey, Approval, AuditRow, Event, Run, Source, ToolCall, Vote

pytestmark = pytest.mark.django_db(transaction=True)
POLICY = {
    "default": "ask",
    "rules": [
        {"id": "read", "effect": "allow", "match": {"tool": ["read"]}},
        {"id": "wipe", "effect": "deny", "match": {"tool": ["wipe"]}},
    ],
}
_stories = itertools.count()


class World:
    """An agent, and works about its calls: each is built from the rows as they are."""

    def __init__(self, source: Source, person: Any, number: int) -> None:
        self.source, self.person, self.number = source, person, number

    def name(self, run: int) -> str:
        return f"story-{self.number}-{run}"

    def find_approval(self, run: int, call: str) -> Approval | None:
        rows = Approval.objects.filter(run__source=self.source, run__name=self.name(run), call__call_id=call)
        return rows.select_related("call").order_by("-requested_at", "-call__ordinal", "id").first()

    def build(self, kind: str, run: int, call: str, more: str) -> Any:
        name, row = self.name(run), self.find_approval(run, call)
        pk = row.id if row else "none"
        if kind == "decide":
            return DecideCall(self.source, gate.DecisionRequest(name, call, more, {"path": call}))
        if kind == "vote":
            rev = row.call.rev if row else 0
            return CastVote(self.person, gate.Ballot(pk, more, rev, row.args_sha256 if row else ""))
        if kind == "claim":
            proof = {"call_id": call, "args_sha256": row.args_sha256 if row else ""}
            return ClaimPermit(self.source, row.permit if row else "none", proof, "a client")
        if kind == "result":
            return RecordResult(self.source, name, call, {"outcome": more, "output": 1})
        if kind == "withdraw":
            return WithdrawApproval(self.source, pk)
        if kind == "look":
            return FetchDecision(self.source, pk)
        if kind == "end":
            return EndRun(self.source, name, "success", "")
        return RecordFacts(
            self.source, name, [f.InputReady(call, more, {"path": "frame"}, True), f.TextDelta(text=more)]
        )

    def describe(self) -> Any:
        """Return all rows about the runs, without what differs between two worlds."""
        runs = Run.objects.filter(source=self.source, name__startswith=f"story-{self.number}-").order_by("name")
        return [
            (
                run.name, run.status, run.seq, run.calls, sorted(json.loads(run.counts).items()),
                [clean(call.as_card()) for call in ToolCall.objects.filter(run=run).order_by("ordinal")],
                sorted(
                    (row.call.ordinal, row.state, row.asked, row.claimed_at > 0, row.by_kind, bool(row.permit))
                    for row in Approval.objects.filter(run=run).select_related("call")
                ),
                [(event.ordinal, event.applied, clean(event.decoded_fact)) for event in Event.objects.after(run, 0)],
                list(Vote.objects.filter(approval__run=run).order_by("id").values_list("decision", flat=True)),
                sorted(AuditRow.objects.filter(call__startswith=f"{run.pk}-").values_list("act", flat=True)),
            )
            for run in runs
        ]  # fmt: skip


def clean(value: Any) -> str:
    text = re.sub(r"\b(prm|apr|alw|dec)_[\w-]+|\b\d{10}\.\d+|\d\d\d\d-\d\d-\d\dT[\d:.]+Z", "_", repr(value))
    return re.sub(r"<[\w.]+: ('[^']*')>", r"\1", text)  # a card read from its row has the values of enumerations


def assert_cache_is_true(run: Run) -> None:
    """Compare the cached run with one that is read from the database."""
    cached = run_cache.get(run.pk)
    if cached is None:
        return
    memory = run_memory.load_memory(run)
    assert cached.board.cards == memory.board.cards and vars(cached.board.context) == vars(memory.board.context)
    assert (cached.seq, cached.states, cached.waiting, cached.asks, cached.has_approvals, cached.row_version) == (
        memory.seq, memory.states, memory.waiting, memory.asks, memory.has_approvals, memory.row_version
    )  # fmt: skip
    assert not cached.events and not cached.dirty and not cached.touched


# ---------------------------------------------------------------- faults


@contextmanager
def no_fault(place: int) -> Iterator[None]:
    yield


@contextmanager
def failing_once(place: int) -> Iterator[None]:
    """The statement at this place fails, and the next try works."""
    yield from _fail(place, 1)


@contextmanager
def failing(place: int) -> Iterator[None]:
    """The statement at this place, and those at the same place of all further tries, fail."""
    yield from _fail(place, 10**9)


def _fail(place: int, times: int) -> Iterator[None]:
    counts = {"statements": 0, "failures": 0}

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("BEGIN"):
            counts["statements"] = 0
        counts["statements"] += 1
        if counts["statements"] == place + 1 and counts["failures"] < times:
            counts["failures"] += 1
            counts["statements"] = 0
            raise OperationalError("disk I/O error")
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


@contextmanager
def full_disk(place: int) -> Iterator[None]:
    """The database cannot grow by more than so many pages."""
    with connection.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages + place % 3}")
        try:
            yield
        finally:
            cursor.execute("PRAGMA max_page_count = 1073741823")


@contextmanager
def locked(place: int) -> Iterator[None]:
    """Another process writes and does not end."""
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 5")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@contextmanager
def failing_commit(place: int) -> Iterator[None]:
    """The COMMIT itself fails, and the next try works."""
    commit, failures = connection._commit, itertools.count()

    def fail_once() -> None:
        if next(failures) == 0:
            raise OperationalError("disk I/O error")
        commit()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_commit", fail_once)
        yield


@contextmanager
def lost_reply(place: int) -> Iterator[None]:
    """The COMMIT happens, and its reply is lost."""
    commit, commits = connection._commit, itertools.count()

    def lose_once() -> None:
        commit()
        if next(commits) == 0:
            raise OperationalError("server closed the connection unexpectedly")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_commit", lose_once)
        yield


@contextmanager
def ended_session(place: int) -> Iterator[None]:
    """An administrator ends the session before the statement at this place."""
    counts = itertools.count()

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if next(counts) == place:
            with connection.copy().temporary_connection() as other:
                other.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


_OF_ALL = (no_fault, failing_once, failing, failing_commit)
_OF_ONE = {"sqlite": (full_disk, locked), "postgresql": (lost_reply, ended_session)}
FAULTS = {fault.__name__: fault for fault in (*_OF_ALL, *_OF_ONE[connection.vendor])}

# ---------------------------------------------------------------- stories

runs, calls = st.integers(0, 1), st.sampled_from(["c", "d"])
tools = st.sampled_from(["bash", "bash", "read", "wipe"])
works = st.one_of(
    st.tuples(st.just("decide"), runs, calls, tools),
    st.tuples(st.just("decide"), runs, calls, tools),
    st.tuples(st.just("vote"), runs, calls, st.sampled_from(["approve", "approve", "deny"])),
    st.tuples(st.just("claim"), runs, calls, st.just("")),
    st.tuples(st.just("result"), runs, calls, st.sampled_from(["ok", "error", "aborted"])),
    st.tuples(st.sampled_from(["withdraw", "look", "end"]), runs, calls, st.just("")),
    st.tuples(st.just("frame"), runs, calls, tools),
)
batches = st.tuples(st.lists(works, min_size=1, max_size=4), st.sampled_from(list(FAULTS)), st.integers(0, 30))


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(story=st.lists(batches, min_size=1, max_size=6))
def test_works_are_written_once_or_not_at_all(
    source: Source, an_approver: Any, policy: Any, story: list[tuple[list[Any], str, int]]
) -> None:
    play(source, an_approver, policy, story)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["bash", "read", "wipe"])
def test_a_call_is_decided_as_ever_whichever_statement_fails_first(
    source: Source, an_approver: Any, policy: Any, tool: str
) -> None:
    for place in range(30):
        play(source, an_approver, policy, [([("decide", 0, "c", tool)], "failing_once", place)])


def play(source: Source, person: Any, policy: Any, story: list[tuple[list[Any], str, int]]) -> None:
    """Play the story with an agent whose database fails and with one whose does not, and compare them."""
    number = next(_stories)
    if not gate.get_active_version_number():
        policy(POLICY)
    other = AgentKey.objects.ensure("tck_" + "o" * 43, name="an agent whose database never fails").source
    world, model = World(source, person, number), World(other, person, number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_commit, "PATIENCE", 0.02)
        patch.setattr(group_commit, "FIRST_PAUSE", 0.001)
        for batch, fault, place in story:
            commands = [world.build(*work) for work in batch]
            expected = [model.build(*work) for work in batch]
            with FAULTS[fault](place):
                group_commit.commit(commands)
            outages.reset()
            indexes = [at for at, command in enumerate(commands) if not is_transient(command.error)]
            group_commit.commit([expected[at] for at in indexes])
            for at in indexes:
                assert not find_differences(describe_answer(commands[at]), describe_answer(expected[at]))
            for ours, theirs in zip(world.describe(), model.describe(), strict=True):
                assert not find_differences(repr(ours), repr(theirs))
    for run in Run.objects.filter(name__startswith=f"story-{number}-"):
        assert_cache_is_true(run)


def find_differences(first: str, second: str) -> list[tuple[str | None, str | None]]:
    """Return the parts that differ between two descriptions."""
    pairs = itertools.zip_longest(first.split(", "), second.split(", "))
    return [(ours, theirs) for ours, theirs in pairs if ours != theirs]


def describe_answer(command: Any) -> str:
    if command.error is not None:
        return clean(command.error)
    return "" if isinstance(command, RecordFacts) else clean(command.answer)  # that is the key of its run
