"""A decision is claimed by one connection, in the form of its protocol, and comes back if it could not be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from tests.support.gate_commands import make_ballot
from tests.support.gated_calls import ASK, DENY
from tests.support.held_writer import HeldWriter, hold_writer
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.approvals.delivery import ClaimDelivery, ConfirmDelivery, ReleaseDelivery
from toolcards.gate.refusals import NotAllowed, TooLate
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.models import AgentKey, Approval, AuditRow, Event, Run, Source, ToolCall, Vote
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
READY = f.InputReady("c", "bash", {"command": "git push"}, True)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch, an_approver: Any) -> Iterator[HeldWriter]:
    held_writer = hold_writer(monkeypatch)
    yield held_writer
    held_writer.loop.close()


@pytest.fixture
def stream(writer: HeldWriter, policy: Any, source: Source) -> Any:
    """A gate stream with a call that waits for a person."""
    policy({"rules": [ASK]})
    gate_stream = writer.open(source, mode="gate", channel="socket")
    gate_stream.push([READY])
    writer.write_all()
    return gate_stream


def answer(person: Any, decision: str = "approve") -> str:
    """Vote on the newest approval; return its id."""
    row = Approval.objects.select_related("call").order_by("-requested_at").first()
    assert row is not None
    gate.vote(person, make_ballot(row.call, decision))
    return row.pk


def claim(pk: str, key: int = 0) -> Any:
    return group_commit.execute(ClaimDelivery(pk, key))


def release(pk: str) -> None:
    group_commit.execute(ReleaseDelivery(pk))


def read_states(pk: str) -> tuple[str, str, bool, bool]:
    """Return the states of the row and of the card's approval, and whether it is delivered and claimed."""
    row = Approval.objects.select_related("call").get(pk=pk)
    ask = row.call.as_card().approval
    assert ask is not None and row.claimed_at is not None
    return row.state, ask.state, row.delivered_at is not None, row.claimed_at > 0


# ---------------------------------------------------------------- claims


def test_one_connection_claims_an_approval_and_others_get_nothing(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver)
    assert read_states(pk) == ("approved", "approved", False, False)
    decision = claim(pk)
    assert (decision["decision"], decision["call_id"], decision["by"]["name"]) == ("allow", "c", "ann")
    assert "reply" not in decision  # the gate asked
    assert read_states(pk) == ("claimed", "claimed", True, True)
    events = Event.objects.count()
    assert (claim(pk), claim("apr_none"), Event.objects.count()) == (None, None, events)


def test_a_denial_is_delivered_once_and_claims_nothing(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver, "deny")
    assert (claim(pk)["decision"], claim(pk)) == ("deny", None)
    assert read_states(pk) == ("denied", "denied", True, False)


def test_a_connection_whose_key_was_revoked_gets_nothing_and_takes_nothing(
    stream: Any, an_approver: Any, key: AgentKey
) -> None:
    pk, other = answer(an_approver), AgentKey.objects.issue("another agent")[0]
    AgentKey.objects.filter(pk=other.pk).delete()
    with pytest.raises(NotAllowed) as refusal:
        claim(pk, other.pk)
    assert refusal.value.code == "revoked"
    assert read_states(pk) == ("approved", "approved", False, False)
    assert claim(pk, key.pk)["decision"] == "allow"


def test_an_approval_whose_time_is_over_is_delivered_as_expired(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver)
    with allow_log_writes():
        Approval.objects.update(permit_expires_at=1.0)
    decision = claim(pk)
    assert (decision["decision"], decision["reason"]["code"]) == ("deny", "permit_expired")
    assert read_states(pk)[:3] == ("expired", "expired", True)


def test_an_approval_that_policy_denies_in_the_meantime_is_delivered_as_a_denial(
    stream: Any, an_approver: Any, policy: Any
) -> None:
    pk = answer(an_approver)
    policy({"rules": [DENY]})
    decision = claim(pk)
    assert (decision["decision"], decision["by"]["kind"]) == ("deny", "rule")
    assert read_states(pk)[:3] == ("revoked", "revoked", True)


@pytest.mark.parametrize(("channel", "effect"), [("socket", None), ("hook", "deny")])
def test_a_stricter_policy_asks_again_where_the_agent_can_wait(
    channel: str, effect: str | None, writer: HeldWriter, policy: Any, source: Source, an_approver: Any, a_person: Any
) -> None:
    policy({"rules": [ASK]})
    gate_stream = writer.open(source, channel, mode="gate", channel=channel)
    gate_stream.push([READY])
    writer.write_all()
    pk = answer(an_approver)
    a_person("approver", "ben")
    policy({"rules": [ASK | {"ask": {"quorum": 2}}]})
    decision = claim(pk)
    assert (decision and decision["decision"]) == effect
    states = sorted(Approval.objects.filter(run__name=channel).values_list("state", flat=True))
    assert states == (["pending", "superseded"] if effect is None else ["revoked"])


def test_an_approval_that_a_newer_one_replaced_is_not_delivered(
    stream: Any, writer: HeldWriter, an_approver: Any
) -> None:
    pk = answer(an_approver)
    stream.push([f.InputReady("c", "bash", {"command": "git push --tags"}, True)])
    writer.write_all()
    newest = ToolCall.objects.order_by("-ordinal").first()
    assert newest is not None and newest.waiting
    with allow_log_writes():  # as on an older attempt of the same call
        Approval.objects.filter(pk=pk).update(call=newest)
    assert claim(pk) is None
    first = ToolCall.objects.order_by("ordinal").first()
    with allow_log_writes():
        Approval.objects.filter(pk=pk).update(call=first)


# ---------------------------------------------------------------- releases


def test_an_approval_that_could_not_be_sent_is_claimed_by_the_next_connection(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver)
    first = claim(pk)
    release(pk)
    assert read_states(pk) == ("approved", "approved", False, False)
    again = claim(pk)
    assert again == first
    release("apr_none")


def test_a_denial_that_could_not_be_sent_comes_back_too(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver, "deny")
    first = claim(pk)
    release(pk)
    assert claim(pk) == first


def test_an_answer_to_a_call_that_has_ended_in_the_meantime_stays_with_its_connection(
    stream: Any, writer: HeldWriter, an_approver: Any
) -> None:
    pk = answer(an_approver)
    claim(pk)
    stream.push([f.OutputReady("c", "done")])
    writer.write_all()
    before, events = read_states(pk), Event.objects.count()
    release(pk)
    assert (read_states(pk), Event.objects.count(), claim(pk)) == (before, events, None)


# ---------------------------------------------------------------- receipts


def send(pk: str, connection: str) -> Any:
    """Claim for a connection that waits for the receipt."""
    return group_commit.execute(ClaimDelivery(pk, connection=connection))


def confirm(pk: str) -> None:
    group_commit.execute(ConfirmDelivery(pk))


def elapse() -> None:
    """Let the time for receipts pass."""
    with allow_log_writes():
        Approval.objects.filter(held_until__gt=0).update(held_until=1.0)


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_decision_is_delivered_with_its_receipt(stream: Any, an_approver: Any, decision: str) -> None:
    pk = answer(an_approver, decision)
    confirm(pk)  # nothing was sent
    first = send(pk, "one")
    assert first is not None and not read_states(pk)[2]
    assert send(pk, "two") is None  # the receipt can still come
    confirm(pk)
    elapse()
    release_from("one", pk)
    assert read_states(pk)[2] and send(pk, "two") is None


def release_from(connection: str, pk: str) -> None:
    group_commit.execute(ReleaseDelivery(pk, connection))


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_decision_without_a_receipt_is_sent_by_the_next_connection(
    stream: Any, an_approver: Any, decision: str
) -> None:
    pk = answer(an_approver, decision)
    first = send(pk, "one")
    release_from("one", pk)
    assert not read_states(pk)[3]
    assert send(pk, "two") == first
    elapse()
    assert send(pk, "three") == first
    release_from("two", pk)  # it belongs to the third now
    assert send(pk, "four") is None
    confirm(pk)
    assert read_states(pk)[2]


def test_a_decision_without_a_receipt_is_judged_by_the_policy_of_its_next_sending(
    stream: Any, an_approver: Any, policy: Any
) -> None:
    pk = answer(an_approver)
    assert send(pk, "one")["decision"] == "allow"
    policy({"rules": [DENY]})
    elapse()
    assert send(pk, "two")["decision"] == "deny"


@pytest.mark.parametrize("result", [f.OutputReady("c", "done"), f.OutputPartial("c", "half")])
def test_output_of_the_call_takes_the_place_of_the_receipt(
    stream: Any, writer: HeldWriter, an_approver: Any, result: Any
) -> None:
    pk = answer(an_approver)
    send(pk, "one")
    stream.push([result])
    writer.write_all()
    elapse()
    assert send(pk, "two") is None and read_states(pk)[2:] == (True, True)


# ---------------------------------------------------------------- approvals that agents open


@pytest.fixture
def requests(writer: HeldWriter, policy: Any, source: Source) -> Callable[..., list[str]]:
    """Give `requests(protocol, *calls)`: the ids of the approvals that an agent opens about these calls."""
    policy({"default": "allow"})

    def build(protocol: str, *calls: str) -> list[str]:
        stream = writer.open(source, protocol=protocol, channel="watch")
        for call in calls:
            stream.push([
                f.InputReady(call, "bash", {"command": call}, True),
                f.ApprovalRequested(call, source_id=f"of-{call}", votable=True),
            ])  # fmt: skip
        writer.write_all()
        return [part["id"] for report in writer.reports for part in report.approvals]

    return build


def vote_on(pk: str, person: Any, decision: str, **more: Any) -> None:
    ballot = make_ballot(Approval.objects.select_related("call").get(pk=pk).call, decision)
    gate.vote(person, gate.Ballot(ballot.approval, decision, ballot.rev, ballot.args_sha256, **more))


def test_the_agents_own_question_is_answered_in_its_protocol(requests: Any, an_approver: Any) -> None:
    (pk,) = requests("native", "c")
    vote_on(pk, an_approver, "deny", reason="not now")
    decision = claim(pk)
    assert decision["decision"] == "deny" and "resume" not in decision
    assert "not now" in json.dumps(decision["reply"]) and "of-c" in json.dumps(decision["reply"])


def test_a_protocol_that_answers_together_gets_all_answers_of_the_run(requests: Any, an_approver: Any) -> None:
    first, second, _ = requests("ag-ui", "a", "b", "c")
    for pk, decision in ((first, "approve"), (second, "deny")):
        vote_on(pk, an_approver, decision)
    decision = claim(second)
    text = json.dumps(decision["resume"])
    assert (decision["decision"], "of-a" in text, "of-b" in text, "of-c" in text) == ("deny", True, True, False)
    assert claim(first)["resume"] == decision["resume"]


def test_a_protocol_that_is_not_known_any_more_gets_no_reply(requests: Any, an_approver: Any) -> None:
    (pk,) = requests("native", "c")
    vote_on(pk, an_approver, "approve")
    with allow_log_writes():
        Run.objects.update(protocol="of tomorrow")
    run_cache.clear()
    assert (decision := claim(pk))["decision"] == "allow" and decision["reply"] is None


def test_an_answer_to_a_run_that_broke_off_is_kept_for_the_next_one(
    requests: Any, writer: HeldWriter, source: Source, an_approver: Any
) -> None:
    (pk,) = requests("native", "c")
    vote_on(pk, an_approver, "approve")
    claim(pk)
    stream = writer.open(source)
    stream.push([f.RunEnded(outcome="truncated")])
    writer.write_all()
    assert ToolCall.objects.get().as_card().soft
    release(pk)
    assert claim(pk)["call_id"] == "c"


def test_what_was_sent_cannot_be_undone_once_its_connection_has_ended(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver)
    assert send(pk, "one")["decision"] == "allow"
    group_commit.execute(ReleaseDelivery(pk, "one"))  # without a receipt: the agent may have it
    with pytest.raises(TooLate):
        gate.revoke_approval(an_approver, pk)
    assert send(pk, "two")["decision"] == "allow"


def test_what_could_not_be_sent_can_be_undone(stream: Any, an_approver: Any) -> None:
    pk = answer(an_approver)
    claim(pk)
    release(pk)
    assert gate.revoke_approval(an_approver, pk).card.approval.state == "revoked"
    assert claim(pk)["decision"] == "deny"


CHANGES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda person: None,
    "switched off": lambda person: type(person).objects.filter(pk=person.pk).update(is_active=False),
    "no longer an approver": lambda person: person.groups.clear(),
    "deleted": lambda person: type(person).objects.filter(pk=person.pk).delete(),
}


def prepare(act: str, a_call: Any, ballot: Any) -> Callable[[Any], object]:
    """Return the act of a person on a call that it is possible for."""
    call = a_call("approval-requested")
    pk = Approval.objects.get().pk
    if act == "undo":
        gate.vote(get_user_model().objects.get(username="ann"), ballot(call, "approve"))
        return lambda person: gate.revoke_approval(person, pk)
    return lambda person: gate.vote(person, ballot(ToolCall.objects.get(), act))


def count_rows() -> list[int]:
    return [model.objects.count() for model in (Vote, Event, AuditRow)]


@pytest.mark.parametrize("act", ["approve", "deny", "undo"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_who_may_no_longer_vote_changes_nothing(
    change: Callable[[Any], object], act: str, a_call: Any, a_person: Any, ballot: Any, limits: Any
) -> None:
    limits(handover_seconds=60)
    perform = prepare(act, a_call, ballot)
    person = a_person("approver", "ben")
    assert person.has_perm("toolcards.vote")  # remembered by the object, as by that of a request
    change(person)
    before = count_rows()
    if change is CHANGES["nothing"]:
        perform(person)
        assert count_rows() != before
        return
    with pytest.raises(gate.NotAllowed):
        perform(person)
    assert count_rows() == before
