"""A person's answer to a call that the agent's own reviewer refused: once, by who may vote, on the card as shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.gate_commands import RecordFacts
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.gate.refusals import RequestRefused
from toolcards.gate.writer import group_commit
from toolcards.models import Source, ToolCall

pytestmark = pytest.mark.django_db
HOST = f.Actor("host", "Claude Code")


@pytest.fixture
def refused_call(source: Source) -> ToolCall:
    """A call that Claude Code's own reviewer refused."""
    facts = [f.InputReady("c1", "Bash", {"command": "git push"}, True), f.OutputDenied("c1", "too risky", HOST)]
    group_commit.execute(RecordFacts(source, "r", facts))
    return ToolCall.objects.get()


def answer(person: Any, call: ToolCall, may_retry: bool = True, **more: int) -> Any:
    place = {"run": call.run_id, "ordinal": call.ordinal, "rev": call.rev} | more
    return gate.answer_refusal(person, gate.RefusalAnswer(may_retry=may_retry, **place))


@pytest.mark.parametrize(("may_retry", "state"), [(True, "granted"), (False, "dismissed")])
def test_the_answer_is_on_the_card_and_in_the_trail(
    refused_call: ToolCall, an_approver: Any, may_retry: bool, state: str
) -> None:
    card = answer(an_approver, refused_call, may_retry)
    assert (card.retry, card.retry_by, str(card.state)) == (state, f.Actor("human", "ann"), "output-denied")
    assert AuditRow.objects.get(act=f"retry.{state}").actor == "ann"
    assert answer(an_approver, refused_call, may_retry).rev == card.rev  # the same answer again
    with pytest.raises(RequestRefused):
        answer(an_approver, refused_call, not may_retry)
    assert AuditRow.objects.filter(act__startswith="retry.").count() == 1


def test_an_answer_to_another_card_than_the_one_shown_is_refused(refused_call: ToolCall, an_approver: Any) -> None:
    for more in ({"rev": refused_call.rev + 1}, {"ordinal": 99}, {"run": 99}):
        with pytest.raises(RequestRefused):
            answer(an_approver, refused_call, **more)


def test_only_who_may_vote_answers(refused_call: ToolCall, a_person: Any) -> None:
    with pytest.raises(gate.NotAllowed):
        answer(a_person("viewer"), refused_call)


def test_a_call_that_a_person_denied_is_not_tried_again(source: Source, an_approver: Any) -> None:
    facts = [f.InputReady("c1", "Bash", {}, True), f.OutputDenied("c1", "no", f.Actor("human", "bea"))]
    group_commit.execute(RecordFacts(source, "r", facts))
    with pytest.raises(RequestRefused):
        answer(an_approver, ToolCall.objects.get())


def test_the_card_names_the_refusal_and_offers_both_answers_once(
    refused_call: ToolCall, an_approver: Any, client: Client
) -> None:
    client.force_login(an_approver)
    address = f"/calls/{refused_call.public_id}"
    page = client.get(f"{address}/").content.decode()
    assert "Refused by Claude Code: too risky" in page
    assert 'name="refusal" value="retry"' in page and 'name="refusal" value="dismiss"' in page
    assert client.post(f"{address}/refusal", {"refusal": "maybe", "rev": refused_call.rev}).status_code == 422
    assert client.post(f"{address}/refusal", {"refusal": "retry", "rev": refused_call.rev + 9}).status_code == 409
    assert client.post(f"{address}/refusal", {"refusal": "retry", "rev": refused_call.rev}).status_code == 303
    page = client.get(f"{address}/").content.decode()
    assert 'name="refusal"' not in page and "ann let it try again" in page
    assert client.post("/calls/999-1/refusal", {"refusal": "retry", "rev": 1}).status_code == 404
