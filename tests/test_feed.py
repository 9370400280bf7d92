"""Waiting for answers and events: who is woken, and what it costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from toolcards import feed, gate
from toolcards.models import Approval, Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
WAITING = 20


@pytest.fixture
def asks(policy: Any, an_approver: Any) -> None:
    policy({"default": "ask"})


async def ask(source: Source, call_id: str) -> str:
    request = gate.DecisionRequest("r", call_id, "bash", {"command": f"git push {call_id}"})
    return str((await gate.adecide(source, request))["approval"]["id"])


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of approvals that each query read."""
    sizes: list[int] = []
    select = feed._select_in_pool

    async def count(approvals: list[str]) -> list[feed.ApprovalStatus]:
        sizes.append(len(approvals))
        return await select(approvals)

    monkeypatch.setattr(feed, "_select_in_pool", count)
    return sizes


async def test_requests_that_wait_in_one_run_share_the_query_of_each_ring(
    asks: None, source: Source, an_approver: Any, ballot: Any, reads: list[int]
) -> None:
    approvals = [await ask(source, f"c{number}") for number in range(WAITING)]
    polls = [asyncio.create_task(feed.wait_for_answer(approval, 60)) for approval in approvals]
    await asyncio.sleep(0.5)
    assert len(reads) <= 6  # of the first request, of the others, and of the watch; each for itself would make them 20
    reads.clear()
    for number in range(5):
        call = await ToolCall.objects.aget(call_id=f"c{number}")
        await in_thread(lambda call=call: gate.vote(an_approver, ballot(call, "approve")))()
        status = await asyncio.wait_for(polls[number], 10)
        assert (status.id, status.state, status.by_kind) == (approvals[number], "approved", "human")
    assert len(reads) <= 10  # one for each vote, and few heartbeats; each request for itself would make them 90
    assert not any(poll.done() for poll in polls[5:])
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    assert not feed._answer_watches[asyncio.get_running_loop()]


async def test_two_requests_for_one_approval_are_both_answered(
    asks: None, source: Source, an_approver: Any, ballot: Any
) -> None:
    approval = await ask(source, "c")
    polls = [asyncio.create_task(feed.wait_for_answer(approval, 60)) for _ in range(2)]
    await asyncio.sleep(0.1)
    call = await ToolCall.objects.aget()
    await in_thread(lambda: gate.vote(an_approver, ballot(call, "deny")))()
    assert [status.state for status in await asyncio.gather(*polls)] == ["denied", "denied"]


async def test_requests_that_come_at_once_get_each_the_status_of_its_approval(
    asks: None, source: Source, an_approver: Any, ballot: Any
) -> None:
    approvals = [await ask(source, f"c{number}") for number in range(6)]
    for number, decision in enumerate(["approve", "deny", "approve"]):
        call = await ToolCall.objects.aget(call_id=f"c{number}")
        await in_thread(lambda call=call, decision=decision: gate.vote(an_approver, ballot(call, decision)))()
    polls = [asyncio.create_task(feed.wait_for_answer(approval, 0.3)) for approval in [*approvals, *approvals]]
    await asyncio.sleep(0)
    polls.pop().cancel()  # who cancels takes the answer from no one
    unknown = feed.wait_for_answer("apr_missing", 0.3)
    statuses = await asyncio.gather(*polls, unknown, return_exceptions=True)
    assert isinstance(statuses.pop(), Approval.DoesNotExist)
    states = ["approved", "denied", "approved", "pending", "pending", "pending"]
    expected = [*zip(approvals, states, strict=True)] * 2
    assert [(status.id, status.state) for status in statuses if not isinstance(status, BaseException)] == expected[:11]


async def test_a_failed_read_fails_only_the_requests_that_shared_it(
    asks: None, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = await ask(source, "c")

    async def fail(approvals: list[str]) -> list[feed.ApprovalStatus]:
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(feed, "_read_statuses", fail)
        results = await asyncio.gather(*[feed.wait_for_answer(approval, 1) for _ in range(3)], return_exceptions=True)
        assert [str(error) for error in results] == ["broken"] * 3
    assert (await feed.wait_for_answer(approval, 0.2)).state == "pending"


async def test_a_request_that_waits_too_long_gets_the_pending_status(asks: None, source: Source) -> None:
    assert (await feed.wait_for_answer(await ask(source, "c"), 0.2)).state == "pending"


async def test_an_unknown_approval_is_not_waited_for() -> None:
    with pytest.raises(Approval.DoesNotExist):
        await feed.wait_for_answer("apr_missing", 60)


async def test_a_failure_while_reading_reaches_the_requests_and_the_next_one_works(
    asks: None, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = await ask(source, "c")

    async def fail(approvals: list[str]) -> list[feed.ApprovalStatus]:
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(feed, "_read_statuses_forever", fail)
        with pytest.raises(ValueError, match="broken"):
            await feed.wait_for_answer(approval, 60)
    assert (await feed.wait_for_answer(approval, 0.2)).state == "pending"


async def test_a_wait_finds_no_approval_of_another_agent(asks: None, source: Source) -> None:
    approval = await ask(source, "c")
    with pytest.raises(Approval.DoesNotExist):
        await feed.wait_for_answer(approval, 60, source=source.pk + 1)
    assert (await feed.wait_for_answer(approval, 0.2, source=source.pk)).state == "pending"
