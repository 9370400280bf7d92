"""Commands that share a commit give the answers, and leave the state, that they would one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from toolcards import gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls.card import Card
from toolcards.gate.agents.run_commands import EndRun, FetchDecision, FindDecision, WithdrawApproval
from toolcards.gate.approvals.votes import CastVote
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Source, ToolCall, Vote

pytestmark = pytest.mark.django_db(transaction=True)
EDITED = {"command": "git push --dry-run"}
POLICIES = {"one": {"editable": ["/command"]}, "two": {"editable": ["/command"], "quorum": 2}}


class Stage:
    """One asked call, the people who may vote, and the commands about it."""

    def __init__(self, source: Source, run: str, people: list[Any]) -> None:
        self.source, self.run, self.people = source, run, people
        request = gate.DecisionRequest(run, "c", "bash", {"command": "git push"}, place=run)
        self.approval = gate.decide(source, request)["approval"]["id"]
        self.call = ToolCall.objects.get(run__name=run)
        self.rev = self.call.rev

    def ballot(self, decision: str, *, later: int = 0, edited: bool = False) -> gate.Ballot:
        sha256 = digest(EDITED if edited else {"command": "git push"})
        args = EDITED if decision == "edit" else None
        return gate.Ballot(self.approval, decision, self.rev + later, sha256, edited_args=args)

    def describe(self, command: Any) -> Any:
        """Return what the command answered, without what differs between two runs."""
        if command.error is not None:
            return type(command.error).__name__, getattr(command.error, "code", ""), str(command.error)
        return self.clean(command.answer)

    def clean(self, value: Any) -> str:
        if isinstance(value, Card):
            value = value.state, value.rev, value.input, value.repair, value.approval
        text = re.sub(r"(prm|apr|dec)_[\w-]+|\d\d\d\d-\d\d-\d\dT[\d:.]+Z|\b\d{10}\.\d+", "_", repr(value))
        return text.replace(self.run, "RUN")

    def load(self) -> Any:
        row, call = Approval.objects.get(pk=self.approval), ToolCall.objects.get(run__name=self.run)
        state = row.state, row.by_name, row.edited, bool(row.permit), bool(row.permit_expires_at)
        votes = sorted(Vote.objects.filter(approval=self.approval).values_list("person__username", "decision"))
        return state, votes, call.state, self.clean(call.as_card())


COMMANDS: dict[str, Callable[[Stage], Any]] = {
    "ann approves": lambda stage: CastVote(stage.people[0], stage.ballot("approve")),
    "ben approves": lambda stage: CastVote(stage.people[1], stage.ballot("approve")),
    "ben denies": lambda stage: CastVote(stage.people[1], stage.ballot("deny")),
    "ann edits": lambda stage: CastVote(stage.people[0], stage.ballot("edit")),
    "ben approves the next": lambda stage: CastVote(stage.people[1], stage.ballot("approve", later=1)),
    "ben approves the edited": lambda stage: CastVote(stage.people[1], stage.ballot("approve", later=1, edited=True)),
    "ben denies the edited": lambda stage: CastVote(stage.people[1], stage.ballot("deny", later=1, edited=True)),
    "the agent asks": lambda stage: FetchDecision(stage.source, stage.approval),
    "the agent finds": lambda stage: FindDecision(stage.source, stage.run, "bash", {"command": "git push"}),
    "the agent withdraws": lambda stage: WithdrawApproval(stage.source, stage.approval),
    "the run ends": lambda stage: EndRun(stage.source, stage.run, "success", ""),
}


READS = {"the agent asks", "the agent finds"}


@pytest.mark.slow
@pytest.mark.parametrize("policy_name", POLICIES)
def test_two_commands_of_one_commit_are_as_two_commits(
    policy: Any, source: Source, a_person: Any, policy_name: str
) -> None:
    ask = {"id": "push", "effect": "ask", "match": {"tool": ["bash"]}, "ask": POLICIES[policy_name]}
    policy({"default": "ask", "rules": [ask]})
    people = [a_person("approver", name) for name in ("ann", "ben")]
    for first, second in product([name for name in COMMANDS if name not in READS], COMMANDS):
        apart, shared = (Stage(source, f"{first}, {second}, {how}", people) for how in ("apart", "shared"))
        commands = {stage: [COMMANDS[name](stage) for name in (first, second)] for stage in (apart, shared)}
        for command in commands[apart]:
            group_commit.commit([command])
        group_commit.commit(commands[shared])
        results = [[*map(stage.describe, commands[stage]), stage.load()] for stage in (apart, shared)]
        assert results[0] == results[1], (first, second)
