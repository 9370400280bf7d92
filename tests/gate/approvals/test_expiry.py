"""Approvals whose time is over."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolcards import gate
from toolcards.models import Approval, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_has_expired_cannot_be_approved(a_call: Any, an_approver: Any, ballot: Any) -> None:
    call = a_call("approval-requested")
    vote = ballot(call, "approve")
    with allow_log_writes():
        Approval.objects.update(expires_at=time.time() - 1)
    with pytest.raises(gate.TooLate):
        gate.vote(an_approver, vote)
    assert gate.sweep() == 1
    card = ToolCall.objects.get().as_card()
    assert (card.state, card.denied_by.kind) == ("output-denied", "timeout")
