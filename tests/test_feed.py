"""Waiting for answers and events: who is woken, and what it costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.answer_waits import wait_for_waits
from tests.support.server import PATIENCE
from toolcards import feed, gate
from toolcards.core.calls import facts as f
from toolcards.models import Approval, Event, Source, ToolCall

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
    monkeypatch.setattr(feed, "HEARTBEAT", PATIENCE)  # a slow test has more of them
    return sizes


@pytest.mark.slow
async def test_requests_that_wait_in_one_run_share_the_query_of_each_ring(
    asks: None, source: Source, an_approver: Any, ballot: Any, reads: list[int]
) -> None:
    approvals = [await ask(source, f"c{number}") for number in range(WAITING)]
    polls = [asyncio.create_task(feed.wait_for_answer(approval, 60)) for approval in approvals]
    await wait_for_waits(*approvals)
    assert len(reads) <= 6  # of the first request, of the others, and of the watch; each for itself would make them 20
    while reads:  # those that the last request wakes the watch for
        reads.clear()
        await asyncio.sleep(0.5)
    for number in range(5):
        call = await ToolCall.objects.aget(call_id=f"c{number}")
        await in_thread(lambda call=call: gate.vote(an_approver, ballot(call, "approve")))()
        status = await asyncio.wait_for(polls[number], PATIENCE)
        assert (status.id, status.state, status.by_kind) == (approvals[number], "approved", "human")
    assert len(reads) <= 10  # one for each vote, and few others; each request for itself would make them 90
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
    await wait_for_waits(approval, requests=2)
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


async def follow_to_end(run: int, last: int) -> list[list[Event]]:
    """Return the batches of a follower until it has the last event."""
    batches: list[list[Event]] = []
    async for batch in feed.follow_events(run):
        batches.append(batch)
        if batch and batch[-1].seq == last:
            return batches
    raise AssertionError("a follower never ends")


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[10] * 60, [300_000] * 40, [10] * 30 + [600_000] * 20, [10] * 17 + [1_500_000] * 2])
async def test_a_follower_reads_every_event_once_and_large_ones_in_small_batches(a_run: Any, sizes: list[int]) -> None:
    facts = [f.TextDelta("x" * size) for size in sizes]
    run = await in_thread(a_run)("r", *facts)
    batches = await asyncio.wait_for(follow_to_end(run.pk, run.seq), 60)
    assert [event.seq for batch in batches for event in batch] == list(range(1, run.seq + 1))
    for batch in batches:
        assert sum(len(event.fact) for event in batch[feed.FIRST :]) <= feed.MAX_BATCH
    if max(sizes) == 10:
        assert len(batches) == 1


@pytest.mark.slow
async def test_the_list_of_events_is_whole_when_batches_are_cut(a_run: Any) -> None:
    run = await in_thread(a_run)("r", *[f.TextDelta("x" * 300_000) for _ in range(40)])
    seqs, after = [], 0
    while batch := await feed.read_events(run.pk, after, 500):
        assert len(batch) >= feed.FIRST or batch[-1].seq == run.seq
        after = batch[-1].seq
        seqs += [event.seq for event in batch]
    assert seqs == list(range(1, run.seq + 1))
