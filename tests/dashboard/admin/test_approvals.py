"""Approvals in the admin: actions answer through the gate, for what the list showed."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.admin_pages import address
from toolcards.models import Approval

pytestmark = pytest.mark.django_db


def read_hidden_fields(client: Client) -> dict[str, str]:
    """What the list's hidden fields say of the waiting call."""
    row = Approval.objects.select_related("call").get(state="pending")
    page = client.get(address("approval")).content.decode()
    assert f'name="rev-{row.pk}" value="{row.call.rev}"' in page
    return {"_selected_action": row.pk, f"rev-{row.pk}": str(row.call.rev), f"sha-{row.pk}": row.args_sha256}


@pytest.mark.parametrize(("action", "state"), [("approve", "approved"), ("deny", "denied")])
def test_actions_answer_through_the_gate(admin: Client, a_call: Any, action: str, state: str) -> None:
    a_call("approval-requested", tool="Edit")
    admin.post(address("approval"), {"action": action, **read_hidden_fields(admin)})
    row = Approval.objects.get()
    assert (row.state, row.by_kind, row.by_name) == (state, "human", "a-admin")


def test_what_changed_since_the_list_was_shown_is_not_answered(admin: Client, a_call: Any) -> None:
    a_call("approval-requested", tool="Edit")
    old = read_hidden_fields(admin)
    old[f"rev-{old['_selected_action']}"] = "0"
    answer = admin.post(address("approval"), {"action": "approve", **old}, follow=True)
    assert Approval.objects.get().state == "pending"
    assert "has changed since you saw it" in answer.content.decode()
