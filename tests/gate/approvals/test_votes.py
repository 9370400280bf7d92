"""Votes of people, at once and one after the other: the first decision wins, for exactly what was seen."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.support.gated_calls import ASK
from toolcards import gate
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls.card import Card
from toolcards.encryption import get_redactor
from toolcards.models import Approval, Source, ToolCall

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


def test_the_second_answer_is_refused_with_the_name_of_the_first_voter(
    a_call: Any, an_approver: Any, a_person: Any, ballot: Any
) -> None:
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


def test_an_answer_to_another_look_of_the_call_does_not_count(
    source: Source, policy: Any, an_approver: Any, client: Client
) -> None:
    policy({"rules": [ASK]})
    gate.decide(
        source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={"command": "PASSWORD=hunter2hunter2 ls"})
    )
    client.force_login(an_approver)
    page = client.get("/approvals/").content.decode()
    hidden = dict(re.findall(r'name="(rev|args_sha256|view_sha256)" value="([^"]+)"', page))
    listed = client.get("/api/v1/approvals").json()["approvals"][0]["call"]["approval"]
    assert hidden["view_sha256"] == listed["view_sha256"]
    path = f"/approvals/{listed['id']}/vote"
    assert client.post(path, hidden | {"decision": "approve", "view_sha256": "0" * 64}).status_code == 412
    with pytest.raises(gate.CallChanged) as error:
        stale = gate.Ballot(listed["id"], "approve", int(hidden["rev"]), hidden["args_sha256"], "0" * 64)
        gate.vote(an_approver, stale)
    assert error.value.code == "view_stale"
    assert client.post(path, hidden | {"decision": "approve"}).status_code == 303


def test_what_a_person_writes_reaches_the_model_without_control_characters(
    a_call: Any, an_approver: Any, ballot: Any, source: Source
) -> None:
    vote = replace(
        ballot(a_call("approval-requested"), "deny"), reason="no\x1b[2J\x00\x07\r\nnot \x9bthis" + "x" * 3000
    )
    gate.vote(an_approver, vote)
    request = gate.DecisionRequest(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"})
    text = gate.decide(source, request)["reason"]["text"]
    assert text.startswith("A person declined: no[2J\nnot thisxxx") and len(text) < 2_100
