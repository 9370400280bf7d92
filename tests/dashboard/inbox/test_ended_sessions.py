"""A vote does not count if its session ended, or its person lost the right, while it waited to be written."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from tests.support.server import PATIENCE
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import Approval, ToolCall, Vote

pytestmark = pytest.mark.django_db(transaction=True)
CHANGES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda person: None,
    "signed out": lambda person: Session.objects.all().delete(),
    "another password": lambda person: (person.set_password("another one"), person.save()),
    "no longer an approver": lambda person: person.groups.clear(),
    "switched off": lambda person: type(person).objects.update(is_active=False),
}


class ChangeWhileOthersWait(Command):
    """Changes something once another work waits: it is committed before that work is written."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self.change, self.start_event = change, threading.Event()

    def apply(self, tx: Any) -> None:
        self.start_event.set()
        deadline = time.monotonic() + PATIENCE
        while not group_commit.WRITER._queue and time.monotonic() < deadline:
            time.sleep(0.01)
        self.change()


def send_form(client: Client, approval: str, fields: dict[str, Any]) -> int:
    return client.post(f"/approvals/{approval}/vote", fields).status_code


def send_batch(client: Client, approval: str, fields: dict[str, Any]) -> int:
    body = json.dumps({"votes": [fields | {"approval": approval}]})
    answer = client.post("/approvals/votes", body, "application/json").json()
    return int(answer["results"][0]["status"])


def send_admin_action(client: Client, approval: str, fields: dict[str, Any]) -> int:
    form = {
        "action": "approve", "_selected_action": approval, f"rev-{approval}": fields["rev"],
        f"sha-{approval}": fields["args_sha256"],
    }  # fmt: skip
    client.post("/admin/toolcards/approval/", form)  # answers with the list in any case
    return 303 if Vote.objects.exists() else 403


WAYS = {"form": send_form, "batch": send_batch, "admin": send_admin_action}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS)
def test_a_vote_that_waits_while_its_session_ends_does_not_count(
    way: str, change: str, a_call: Any, a_person: Any, client: Client
) -> None:
    call = a_call("approval-requested")
    person = a_person("admin" if way == "admin" else "approver", "ben")
    client.force_login(person)
    pk = Approval.objects.get().pk
    card = ToolCall.objects.get(pk=call.pk).as_card()
    assert card.approval is not None
    fields = {"decision": "approve", "rev": card.rev, "args_sha256": card.approval.args_sha256}
    changing = ChangeWhileOthersWait(lambda: CHANGES[change](person))
    group_commit.WRITER.enqueue(changing)
    assert changing.start_event.wait(PATIENCE)
    status = WAYS[way](client, pk, fields)
    if change == "nothing":
        assert status in (200, 303) and Vote.objects.count() == 1
    else:
        assert status == 403 and not Vote.objects.exists()
        assert Approval.objects.get().state == "pending"
