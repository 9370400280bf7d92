"""An agent has at most so many calls that wait for people."""

from __future__ import annotations

import random
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.gated_calls import ASK, DECIDE, PUSH, QUESTION
from toolcards import gate
from toolcards.gate.agents import run_commands
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Approval, Source, ToolCall

LIMIT = 3
REFUSAL_CODE = "slow_down"


def ask(source: Source, run: str, call_id: str) -> str:
    """Return the decision about the call, or the code of the refusal."""
    request = gate.DecisionRequest(run=run, call_id=call_id, tool="bash", args={"command": f"git push {call_id}"})
    try:
        return str(gate.decide(source, request)["decision"])
    except gate.RequestRefused as refusal:
        return refusal.code


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(12))
def test_questions_are_refused_exactly_while_as_many_wait(
    seed: int, source: Source, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    policy({"rules": [ASK]})
    limits(max_waiting=LIMIT)
    other = AgentKey.objects.ensure("tck_" + "o" * 43, name="another agent")
    sources, chance = [source, other.source], random.Random(seed)
    waiting: list[set[tuple[str, str]]] = [set(), set()]  # the model: (run, call id) of each agent
    for step in range(40):
        number = chance.randrange(2)
        one, mine = sources[number], waiting[number]
        act = chance.choice(["ask", "ask", "ask again", "vote", "end"])
        if act == "ask":
            run, call_id = f"r{chance.randrange(2)}", f"c{step}"
            assert ask(one, run, call_id) == ("ask" if len(mine) < LIMIT else REFUSAL_CODE)
            if len(mine) < LIMIT:
                mine.add((run, call_id))
            else:
                assert not ToolCall.objects.filter(run__source=one, call_id=call_id).exists()
        elif mine and act == "ask again":
            assert ask(one, *chance.choice(sorted(mine))) == "ask"
        elif mine and act == "vote":
            run, call_id = chance.choice(sorted(mine))
            call = ToolCall.objects.get(run__source=one, run__name=run, call_id=call_id)
            gate.vote(an_approver, ballot(call, chance.choice(["approve", "deny"])))
            mine.remove((run, call_id))
        elif mine and act == "end":
            run, _ = chance.choice(sorted(mine))
            group_commit.execute(run_commands.EndRun(one, run, "success", ""))
            mine.difference_update([entry for entry in mine if entry[0] == run])
        for source_waiting, entry in zip(waiting, sources, strict=True):
            waiting_approvals = Approval.objects.waiting().filter(run__source=entry)
            assert {(row.run.name, row.call.call_id) for row in waiting_approvals} == source_waiting


@pytest.mark.django_db(transaction=True)
async def test_the_refusal_says_when_to_ask_again(call: Any, policy: Any, an_approver: Any, limits: Any) -> None:
    await in_thread(lambda: policy({"rules": [ASK]}))()
    limits(max_waiting=1)
    assert (await call("POST", DECIDE, QUESTION))[0] == 200
    status, body, headers = await call("POST", DECIDE, QUESTION | {"call_id": "d"})
    assert (status, body["error"]["code"]) == (429, REFUSAL_CODE)
    assert "1 call" in body["error"]["message"] and int(headers["retry-after"]) > 0


@pytest.mark.django_db(transaction=True)
async def test_sockets_receive_a_denial(agent: Any, policy: Any, an_approver: Any, limits: Any) -> None:
    await in_thread(lambda: policy({"rules": [ASK]}))()
    limits(max_waiting=1)
    async with agent(run="s") as socket:
        await socket.say([PUSH])
        assert (await socket.hear("decision"))["decision"] == "ask"
        await socket.say([PUSH | {"call_id": "d"}])
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["reason"]["code"]) == ("deny", "too_many_waiting")
        assert decision["by"]["kind"] == "gate_error" and "wait" in decision["reason"]["text"]
