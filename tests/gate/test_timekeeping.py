"""Time with faults: pauses of our own, restarts, set clocks, and several processes, against a model that counts.

The model knows real time, the wall clock, and for how long any process worked. Two processes share a database; each
has a clock and memories of its own, and one that is stopped knows nothing of the time between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from toolcards import gate
from toolcards.clocks import PAUSE, clock
from toolcards.gate.agents import liveness, run_commands
from toolcards.gate.agents.liveness import BEAT_LEASE
from toolcards.gate.approvals.permits import ClaimPermit
from toolcards.gate.refusals import RequestRefused
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Pulse, Run, Source, ToolCall
from toolcards.models.write_guard import allow_event_changes, allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)
GRACE, DECIDE, USE = 8.0, 30.0, 40.0  # seconds
SLIP = 3.0  # seconds between two beats: so much may be given back more than a pause took
ASK = {"default": "ask", "rules": [{"id": "ask", "effect": "ask", "ask": {"use_ttl": "40s", "decide_ttl": "30s"}}]}


class Leave(RunCommand):
    """The last connection of the run has closed."""

    def apply(self, tx: Transaction) -> None:
        memory = self._run(tx)
        liveness.resume_run(tx, memory)
        liveness.renew_lease(tx, memory, GRACE)


class Process:
    """What one server process has in mind."""

    def __init__(self) -> None:
        clock.reset()
        self.state, self.memories, self.names = clock._state, OrderedDict[Any, Any](), dict[Any, Any]()
        self.is_stopped = False

    def perform(self, action: Callable[[], Any]) -> Any:
        """Do something in this process."""
        clock._state, run_cache._cache, run_cache._names = self.state, self.memories, self.names
        try:
            return action()
        finally:
            self.state = clock._state


@dataclass
class RunModel:
    """What the model knows of a run: when its lease is over, and of its question, each on the clock that counts."""

    due: float  # worked seconds
    until_real: float = 0.0
    approval: str = ""
    approved: float | None = None  # worked seconds
    pauses: list[int] = field(default_factory=list)


class Days(RuleBasedStateMachine):
    """Days in the life of an installation."""

    source: Source
    person: Any
    ballot: Any

    def __init__(self) -> None:
        super().__init__()
        with transaction.atomic(), allow_log_writes(), allow_event_changes():
            for model in (Approval, ToolCall, Run):
                model.objects.all().delete()
        Pulse.objects.all().delete()
        self.real, self.ahead, self.work_time, self.slipped = 1_700_000_000.0, 0.0, 0.0, 0.0
        clock.wall, clock.elapsed = lambda: self.real + self.ahead, lambda: self.real - 1_600_000_000.0
        self.processes = [Process(), Process()]
        for process in self.processes:
            process.perform(gate.sweep)
        self.runs: dict[str, RunModel] = {}

    # ------------------------------------------------------------ time

    @rule(seconds=st.integers(1, 12))
    def work(self, seconds: int) -> None:
        for _ in range(seconds):
            self.real += 1.0
            self.work_time += 1.0
            for process in self.processes:
                if not process.is_stopped:
                    process.perform(gate.sweep)
        self._check()

    @rule(seconds=st.sampled_from([10.0, 120.0, 5_000.0]), wake=st.integers(0, 1))
    def sleep(self, seconds: float, wake: int) -> None:
        self.real += seconds
        self.slipped += SLIP
        self.processes[wake].is_stopped = False
        for process in sorted(self.processes, key=lambda process: process is not self.processes[wake]):
            if not process.is_stopped:
                process.perform(gate.sweep)
        self._check()

    @rule(which=st.integers(0, 1), seconds=st.sampled_from([0.0, 8.0, 130.0]))
    def restart(self, which: int, seconds: float) -> None:
        """All stop where it takes a while: of two, one may go on."""
        self.real += seconds
        self.slipped += SLIP
        self.processes[which] = Process()
        self.work(1)

    @rule(seconds=st.sampled_from([-3600.0, -20.0, 20.0, 3600.0]))
    def set_the_clock(self, seconds: float) -> None:
        for process in self.processes:  # one that starts afterwards can only go by the wall
            if not process.is_stopped:
                process.perform(gate.sweep)
        self.ahead += seconds
        self.work(1)

    @rule()
    def stop_one(self) -> None:
        self.processes[1].is_stopped = not self.processes[1].is_stopped
        if not self.processes[1].is_stopped:
            self.processes[1].perform(gate.sweep)
            self._check()

    # ------------------------------------------------------------ agents and people

    @rule(which=st.integers(0, 1))
    def ask(self, which: int) -> None:
        name = f"r{len(self.runs)}"
        request = gate.DecisionRequest(run=name, call_id="c", tool="bash", args={})
        decision = self._do(which, lambda: gate.decide(self.source, request))
        due, approval = self.work_time + liveness.REQUEST_LEASE, decision["approval"]["id"]
        self.runs[name] = RunModel(due, self.real + DECIDE, approval)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), which=st.integers(0, 1), beats=st.booleans())
    def be_there_and_leave(self, data: Any, which: int, beats: bool) -> None:
        name, run = self._one(data)
        work = run_commands.RecordHeartbeat(self.source, name) if beats else Leave(self.source, name)
        self._do(which, lambda: group_commit.execute(work))
        if not Run.objects.get(name=name).reason.startswith(liveness.LOST_REASON):  # else its run has ended
            run.due = self.work_time + (BEAT_LEASE if beats else GRACE)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), which=st.integers(0, 1))
    def poll(self, data: Any, which: int) -> None:
        _, run = self._one(data)
        result = self._do(which, lambda: group_commit.execute(run_commands.FetchDecision(self.source, run.approval)))
        row = Approval.objects.get(id=run.approval)
        if row.state == "expired" and run.approved is None:
            assert result["decision"] == "deny" and self.real >= run.until_real - 1
        if result["decision"] == "ask":
            assert self.real < run.until_real + 1, "a question whose time is over reads as open"

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), which=st.integers(0, 1))
    def approve(self, data: Any, which: int) -> None:
        _, run = self._one(data)
        call = ToolCall.objects.get(approvals__id=run.approval)
        if run.approved is not None:
            return
        try:
            self._do(which, lambda: gate.vote(self.person, self.ballot(call, "approve")))
        except RequestRefused as refused:
            assert refused.code != "expired" or self.real >= run.until_real - 1, "refused before its time was over"
            return
        assert self.real < run.until_real + 1, "approved too late"
        run.approved, run.pauses = self.work_time, [round(self.slipped)]

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), which=st.integers(0, 1))
    def claim(self, data: Any, which: int) -> None:
        name, run = self._one(data)
        row = Approval.objects.get(id=run.approval)
        if run.approved is None or row.claimed_at or row.state not in ("approved", "expired"):
            return
        body = {"call_id": "c", "args_sha256": row.args_sha256}
        seconds_used = self.work_time - run.approved
        try:
            self._do(which, lambda: group_commit.execute(ClaimPermit(self.source, row.permit, body)))
        except RequestRefused as refused:
            is_lost = Run.objects.get(name=name).beats and refused.code in ("run_ended", "revoked")
            assert is_lost or seconds_used >= USE - 1, f"a permit ended after {seconds_used} s of {USE}: {refused.code}"
            return
        assert seconds_used < USE + 2 * PAUSE + self.slipped - run.pauses[0]
        run.due = max(run.due, self.work_time + liveness.REQUEST_LEASE)

    # ------------------------------------------------------------ what must hold

    def _check(self) -> None:
        times = [process.perform(clock.working) for process in self.processes if not process.is_stopped]
        assert max(times) - min(times) <= PAUSE, "a gap was given back more than once"
        for row in Run.objects.all():
            run = self.runs[row.name]
            if row.reason.startswith(liveness.LOST_REASON):
                assert self.work_time >= run.due - 1, f"{row.name} was lost {run.due - self.work_time} s too early"
        for approval in Approval.objects.filter(state="expired", claimed_at=0):
            run = next(run for run in self.runs.values() if run.approval == approval.pk)
            if run.approved is None:
                assert self.real >= run.until_real - 1, "a question expired too early"
            else:
                assert self.work_time - run.approved >= USE - 1, "a permit lapsed too early"

    def teardown(self) -> None:
        """Each agent that left, or stopped to beat, is noticed in the end."""
        self.processes[0].is_stopped = False
        for run in self.runs.values():
            run.due = min(run.due, self.work_time + liveness.POLL_LEASE)
        for name in self.runs:
            self._do(0, lambda name=name: group_commit.execute(Leave(self.source, name)))
        for _ in range(int((liveness.POLL_LEASE + 2 * GRACE) / 4)):
            self.real += 4.0
            self.work_time += 4.0
            self.processes[0].perform(gate.sweep)
        running = Approval.objects.filter(state="claimed").values_list("run__name", flat=True)
        alive = Run.objects.active().exclude(name__in=list(running)).filter(alive_until__isnull=False)
        assert not alive.exists(), list(alive.values("name", "alive_until", "status"))

    def _do(self, which: int, action: Callable[[], Any]) -> Any:
        process = self.processes[which]
        return (self.processes[0] if process.is_stopped else process).perform(action)

    def _one(self, data: Any) -> tuple[str, RunModel]:
        name = data.draw(st.sampled_from(sorted(self.runs)))
        return name, self.runs[name]


@pytest.mark.slow
def test_no_run_is_lost_or_ended_by_our_own_pauses_or_a_clock_change(
    source: Source, policy: Any, an_approver: Any, ballot: Any, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(grace=GRACE, decide_ttl=DECIDE)
    policy(ASK)
    Days.source, Days.person, Days.ballot = source, an_approver, staticmethod(ballot)
    monkeypatch.setattr(clock, "wall", clock.wall)
    monkeypatch.setattr(clock, "elapsed", clock.elapsed)
    monkeypatch.setattr(run_cache, "_cache", OrderedDict())
    monkeypatch.setattr(run_cache, "_names", {})
    monkeypatch.setattr(run_cache, "_cached_size", 0)
    few = settings(
        max_examples=7, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate), report_multiple_bugs=False,
    )  # fmt: skip
    run_state_machine_as_test(Days, settings=few)


def test_after_a_pause_agents_have_their_grace_time_to_come_back(
    source: Source, policy: Any, an_approver: Any, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(grace=GRACE)
    policy(ASK)
    now = 1_700_000_000.0
    monkeypatch.setattr(clock, "wall", lambda: now)
    monkeypatch.setattr(clock, "elapsed", lambda: now)
    clock.reset()
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    group_commit.execute(run_commands.RecordHeartbeat(source, "r"))
    gate.sweep()
    now += 20.0  # the computer sleeps
    gate.sweep()
    with allow_log_writes():
        Run.objects.update(alive_until=clock.working())  # the lease had no time left
    now += GRACE / 2
    gate.sweep()
    assert Run.objects.get().status == "waiting"
    now += GRACE / 2
    gate.sweep()
    assert Run.objects.get().status == "truncated"
