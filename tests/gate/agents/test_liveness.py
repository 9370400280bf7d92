"""Leases of runs: a request renews them, and writes the run only if that moves the end by enough."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards import gate
from toolcards.clocks import clock
from toolcards.gate.agents.liveness import LEASE_SLACK, POLL_LEASE, REQUEST_LEASE
from toolcards.gate.agents.run_commands import FetchDecision
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Run, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


def ask(source: Any, policy: Any) -> str:
    policy({"default": "ask"})
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "ls"}))
    return Approval.objects.get().id


def poll(source: Any, approval: str) -> Run:
    """Poll once; return the run."""
    group_commit.execute(FetchDecision(source, approval))
    return Run.objects.get()


def set_lease(seconds: float) -> float:
    """Let the stored lease end in so many seconds of working time; return that time."""
    end = clock.working() + seconds
    with allow_log_writes():
        Run.objects.update(alive_until=end)
    return end


def test_a_poll_soon_after_another_request_writes_nothing(
    source: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    approval = ask(source, policy)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    before = Run.objects.get()
    after = poll(source, approval)
    assert (after.alive_until, after.updated_at) == (before.alive_until, before.updated_at)


@pytest.mark.parametrize("share", [LEASE_SLACK * 1.5, 0.5, 1.5])
def test_a_poll_renews_a_lease_that_has_run_for_longer(
    share: float, source: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    approval = ask(source, policy)
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    end = set_lease(REQUEST_LEASE * (1 - share))
    assert float(poll(source, approval).alive_until or 0) == pytest.approx(end + REQUEST_LEASE * share, abs=60)


def test_the_lease_of_an_agent_that_only_polls_is_short_and_renewed_in_time(
    source: Any, policy: Any, an_approver: Any
) -> None:
    approval = ask(source, policy)
    set_lease(REQUEST_LEASE)
    first = float(poll(source, approval).alive_until or 0)
    assert first == pytest.approx(clock.working() + POLL_LEASE, abs=60)
    set_lease(POLL_LEASE / 2)
    assert float(poll(source, approval).alive_until or 0) == pytest.approx(clock.working() + POLL_LEASE, abs=60)
