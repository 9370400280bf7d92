"""Requests that wait for an answer get it from the commit of the vote: the same object, once, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.answer_waits import wait_for_waits
from tests.support.server import PATIENCE
from toolcards import feed, gate
from toolcards.gate import InvalidRequest, agent_requests
from toolcards.gate.approvals import expected_decisions
from toolcards.models import Approval, Run, Source, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
POLL = "/api/v1/approvals/{}?wait=30"


@pytest.fixture
def asks(policy: Any, an_approver: Any) -> None:
    policy({"default": "ask"})


async def ask(source: Source, call_id: str = "c") -> str:
    request = gate.DecisionRequest("r", call_id, "bash", {"command": f"git push {call_id}"})
    return str((await gate.adecide(source, request))["approval"]["id"])


async def vote(person: Any, ballot: Any, decision: str, call_id: str = "c") -> None:
    call = await ToolCall.objects.aget(call_id=call_id)
    await in_thread(lambda: gate.vote(person, ballot(call, decision)))()


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_the_commit_of_the_vote_builds_what_would_be_fetched(
    asks: None, source: Source, an_approver: Any, ballot: Any, decision: str
) -> None:
    approval = await ask(source)
    with gate.expect_decision(source, approval) as expected:
        await vote(an_approver, ballot, decision)
        result = await asyncio.wait_for(expected, PATIENCE)
    assert result == await gate.aget_decision(source, approval)
    assert result["decision"] == {"approve": "allow", "deny": "deny"}[decision]
    assert not expected_decisions._expected


async def test_a_long_poll_is_answered_without_another_commit(
    call: Any, asks: None, source: Source, an_approver: Any, ballot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = await ask(source)
    monkeypatch.setattr(feed, "HEARTBEAT", PATIENCE)  # a read between the commit and its answer would fetch
    polls = [asyncio.create_task(call("GET", POLL.format(approval))) for _ in range(2)]
    await wait_for_waits(approval, requests=2)
    fetched = []
    fetch = agent_requests.run_commands.FetchDecision.apply
    monkeypatch.setattr(agent_requests.run_commands.FetchDecision, "apply", lambda *a: (fetched.append(a), fetch(*a)))
    await vote(an_approver, ballot, "approve")
    answers = await asyncio.gather(*polls)
    assert [(status, answer["decision"]) for status, answer, _ in answers] == [(200, "allow")] * 2
    assert answers[0][1]["permit"] == answers[1][1]["permit"] is not None and not fetched


async def test_many_at_once_get_each_their_own_answer(
    call: Any, asks: None, source: Source, an_approver: Any, ballot: Any
) -> None:
    names = [f"c{number}" for number in range(12)]
    approvals = [await ask(source, name) for name in names]
    polls = [asyncio.create_task(call("GET", POLL.format(approval))) for approval in approvals]
    await wait_for_waits(*approvals)
    decisions = ["deny" if number % 3 else "approve" for number in range(12)]
    await asyncio.gather(*[vote(an_approver, ballot, decisions[index], names[index]) for index in range(12)])
    for index, (status, answer, _) in enumerate(await asyncio.wait_for(asyncio.gather(*polls), PATIENCE)):
        assert (status, answer["call_id"]) == (200, names[index])
        assert answer["decision"] == {"approve": "allow", "deny": "deny"}[decisions[index]]
        assert (answer["permit"] is None) == (decisions[index] == "deny")
    assert not expected_decisions._expected


async def test_a_poll_that_comes_while_the_vote_is_written_is_answered(
    call: Any, asks: None, source: Source, an_approver: Any, ballot: Any
) -> None:
    for number in range(10):
        approval = await ask(source, f"c{number}")
        voting = asyncio.create_task(vote(an_approver, ballot, "deny", f"c{number}"))
        await asyncio.sleep(number / 1_000)
        _, answer, _ = await asyncio.wait_for(call("GET", POLL.format(approval)), PATIENCE)
        assert answer["decision"] == "deny"
        await voting


async def test_a_refused_vote_answers_no_one(asks: None, source: Source, an_approver: Any, ballot: Any) -> None:
    approval = await ask(source)

    def vote_with_an_unknown_grant() -> None:
        ballot_of_call = ballot(ToolCall.objects.get(), "approve")
        gate.vote(
            an_approver,
            gate.Ballot(approval, "approve", ballot_of_call.rev, ballot_of_call.args_sha256, grant={"kind": "x"}),
        )

    with gate.expect_decision(source, approval) as expected:
        with pytest.raises(InvalidRequest):
            await in_thread(vote_with_an_unknown_grant)()
        await asyncio.sleep(0.1)
        assert not expected.done()
    assert (await Approval.objects.aget()).state == "pending"


async def test_another_agent_gets_no_information(asks: None, source: Source, an_approver: Any, ballot: Any) -> None:
    approval = await ask(source)
    other = await Source.objects.acreate(name="other")
    with gate.expect_decision(other, approval) as expected:
        await vote(an_approver, ballot, "approve")
        await asyncio.sleep(0.1)
        assert not expected.done()


async def test_an_approval_that_can_be_revoked_is_held_back(
    asks: None, source: Source, an_approver: Any, ballot: Any, settings: Any
) -> None:
    settings.TOOLCARDS = settings.TOOLCARDS.model_copy(update={"handover_seconds": 30})
    approval = await ask(source)
    with gate.expect_decision(source, approval) as expected:
        await vote(an_approver, ballot, "approve")
        await asyncio.sleep(0.1)
        assert not expected.done()


async def test_an_answered_request_is_a_sign_of_life(
    call: Any, asks: None, source: Source, an_approver: Any, ballot: Any
) -> None:
    approval = await ask(source)
    await gate.aget_decision(source, approval)  # a poll: the agent counts as away soon without another one
    before = (await Run.objects.aget()).alive_until
    poll = asyncio.create_task(call("GET", POLL.format(approval)))
    await wait_for_waits(approval)
    await vote(an_approver, ballot, "approve")
    await poll
    after = (await Run.objects.aget()).alive_until
    assert before is not None and after is not None and after - before > gate.REQUEST_LEASE / 2
