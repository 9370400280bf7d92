"""Votes of people, at once and one after the other: the first decision wins, for exactly what was seen."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from toolcards import gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls.card import Card
from toolcards.encryption import get_redactor
from toolcards.models import Approval, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
FIRST, SECOND = {"command": "git push --dry-run"}, {"command": "git push --tags"}
SECRET = "ghp_" + "a1B2" * 9


def ask(source: Any, policy: Any, quorum: int, **args: str) -> gate.Ballot:
    """Return the ballot of a fresh question, as an edit without its input."""
    terms = {"editable": ["/command"], "quorum": quorum}
    policy({"default": "deny", "rules": [{"id": "ask", "effect": "ask", "match": {"tool": "bash"}, "ask": terms}]})
    all_args = {"command": "git push", **args}
    approval = gate.decide(source, gate.DecisionRequest("r", "c", "bash", all_args))["approval"]["id"]
    return gate.Ballot(approval, "edit", ToolCall.objects.get().rev, digest(all_args))


@pytest.mark.parametrize("quorum", [1, 2])
def test_another_edit_of_the_same_person_is_not_taken_for_the_first_one_again(
    source: Any, policy: Any, a_person: Any, quorum: int
) -> None:
    ann, _, ballot = a_person("approver", "ann"), a_person("approver", "ben"), ask(source, policy, quorum)
    gate.vote(ann, replace(ballot, edited_args=FIRST))
    with pytest.raises(gate.RequestRefused) as refusal:
        gate.vote(ann, replace(ballot, edited_args=SECOND))
    assert refusal.value.code == ("already_decided" if quorum == 1 else "stale_rev")
    again: Card = gate.vote(ann, replace(ballot, edited_args=FIRST))
    assert FIRST in (again.input, again.approval and again.approval.edited)


def test_a_person_corrects_an_edit_that_still_waits_for_others(source: Any, policy: Any, a_person: Any) -> None:
    ann, ben, ballot = a_person("approver", "ann"), a_person("approver", "ben"), ask(source, policy, 2)
    card: Card = gate.vote(ann, replace(ballot, edited_args=FIRST))
    card = gate.vote(ann, replace(ballot, rev=card.rev, args_sha256=digest(FIRST), edited_args=SECOND))
    assert card.approval is not None and card.approval.edited == SECOND and card.approval.have == 1
    assert card.state == "approval-requested"
    card = gate.vote(ben, replace(ballot, decision="approve", rev=card.rev, args_sha256=digest(SECOND)))
    assert card.input == SECOND and Approval.objects.get().state == "approved"


def test_the_same_edit_of_an_input_with_a_mask_is_the_same_again(source: Any, policy: Any, a_person: Any) -> None:
    ann, ballot = a_person("approver", "ann"), ask(source, policy, 1, key=SECRET)
    masked_key = get_redactor().value({"key": SECRET})["key"]
    edit = replace(ballot, edited_args=FIRST | {"key": masked_key})
    card: Card = gate.vote(ann, edit)
    assert card.input == FIRST | {"key": SECRET} and gate.vote(ann, edit).input == card.input


def test_the_second_answer_loses_and_learns_who_won(a_call: Any, an_approver: Any, a_person: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    gate.vote(an_approver, ballot(call, "deny"))
    with pytest.raises(gate.AlreadyDecided) as error:
        gate.vote(a_person("approver", "bob"), ballot(call, "approve"))
    assert error.value.details["by"] == "ann"


def test_of_two_answers_at_once_one_wins(a_call: Any, an_approver: Any, a_person: Any, ballot: Any) -> None:
    call, outcomes, ready = a_call("approval-requested"), [], threading.Barrier(2)

    def cast(person: Any, decision: str, value: gate.Ballot) -> None:
        ready.wait()
        try:
            gate.vote(person, value)
            outcomes.append(decision)
        except gate.AlreadyDecided:
            outcomes.append("lost")
        finally:
            connection.close()

    votes = [(an_approver, "approve"), (a_person("approver", "bob"), "deny")]
    threads = [threading.Thread(target=cast, args=(voter, choice, ballot(call, choice))) for voter, choice in votes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) in (["approve", "lost"], ["deny", "lost"])
    won = "approved" if "approve" in outcomes else "denied"
    assert Approval.objects.get().state == won


def test_the_same_answer_again_is_no_second_answer(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    vote = ballot(call, "approve")
    gate.vote(an_approver, vote)
    assert gate.vote(an_approver, vote).state == "approval-responded"


def test_an_answer_to_what_was_not_shown_does_not_count(a_call: Any, an_approver: Any, ballot: Any) -> None:
    vote = ballot(a_call("approval-requested"), "approve")
    for change in ({"rev": vote.rev - 1}, {"args_sha256": "0" * 64}):
        other = gate.Ballot(**{name: getattr(vote, name) for name in gate.Ballot.__slots__} | change)
        with pytest.raises(gate.CallChanged):
            gate.vote(an_approver, other)
    assert Approval.objects.get().state == "pending"
