"""Of several votes, those of people who may vote at that moment count: in every order of votes and changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.gated_calls import ASK
from toolcards import gate
from toolcards.models import Approval, Source, ToolCall

pytestmark = pytest.mark.django_db
NAMES = ("ann", "ben", "cat", "dan")
QUESTION = gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "git push"})


class Voters:
    """The reference model: who may vote now, and what each person voted last."""

    def __init__(self, quorum: int, deny_quorum: int) -> None:
        self.quorums = {"approve": quorum, "deny": deny_quorum}
        self.allowed = dict.fromkeys(NAMES, True)
        self.votes: dict[str, str] = {}

    def vote(self, name: str, decision: str) -> str:
        """Return the state of the approval after this vote."""
        self.votes[name] = decision
        count = sum(self.allowed[voter] for voter, cast in self.votes.items() if cast == decision)
        decided = {"approve": "approved", "deny": "denied"}[decision]
        return decided if count >= self.quorums[decision] else "pending"


@pytest.mark.parametrize("seed", range(25))
def test_votes_count_while_their_people_may_vote(seed: int, source: Source, policy: Any, a_person: Any) -> None:
    chance = random.Random(seed)
    model = Voters(chance.choice([2, 3]), chance.choice([1, 2]))
    terms = {"quorum": model.quorums["approve"], "deny_quorum": model.quorums["deny"]}
    policy({"rules": [ASK | {"ask": terms}]})
    people = {name: a_person("approver", name) for name in NAMES}
    groups = list(people["ann"].groups.all())
    gate.decide(source, QUESTION)
    for _ in range(20):
        name = chance.choice(NAMES)
        person, may_vote = people[name], model.allowed[name]
        act = chance.choice(["vote", "vote", "switch off", "drop the role", "restore"])
        if act == "switch off":
            type(person).objects.filter(pk=person.pk).update(is_active=False)
            model.allowed[name] = False
        elif act == "drop the role":
            person.groups.clear()
            model.allowed[name] = False
        elif act == "restore":
            type(person).objects.filter(pk=person.pk).update(is_active=True)
            person.groups.set(groups)
            model.allowed[name] = True
        else:
            decision = chance.choice(["approve", "approve", "deny"])
            card = ToolCall.objects.get().as_card()
            assert card.approval is not None
            ballot = gate.Ballot(card.approval.id, decision, card.rev, card.approval.args_sha256)
            if model.votes.get(name) == decision:
                continue  # a repeated vote changes nothing
            if not may_vote:
                with pytest.raises(gate.NotAllowed):
                    gate.vote(person, ballot)
                continue
            expected = model.vote(name, decision)
            gate.vote(person, ballot)
            assert Approval.objects.get().state == expected
            if expected != "pending":
                return


def test_the_vote_of_someone_who_lost_the_role_is_not_on_the_card(
    source: Source, policy: Any, a_person: Any, ballot: Any
) -> None:
    policy({"rules": [ASK | {"ask": {"quorum": 2}}]})
    ann, ben = a_person("approver", "ann"), a_person("approver", "ben")
    a_person("approver", "cat")
    gate.decide(source, QUESTION)
    gate.vote(ann, ballot(ToolCall.objects.get(), "approve"))
    ann.groups.clear()
    card = gate.vote(ben, ballot(ToolCall.objects.get(), "approve"))
    assert card.approval is not None and (card.approval.have, card.approval.state) == (1, "pending")
