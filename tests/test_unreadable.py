"""Rows that cannot be read, of an older release or of another key: every page shows the rest, and names the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client, override_settings

from toolcards import vault
from toolcards.models import Event, Run, ToolCall

BROKEN = {
    "no JSON": "this was written before anything was sealed",
    "cut": '{"type":"input.rea',
    "another shape": '{"type":"input.ready","call":7}',
    "unknown": '{"type":"from.a.later.release","call":"call-1"}',
    "nothing in it": "{}",
    "a list": '["input.ready"]',
    "null": "null",
    "a number": "12345678901234567890",
}
PLACES = {
    "toolcards_event": ["fact"], "toolcards_toolcall": ["card", "text"], "toolcards_run": ["context", "counts", "numbers"],
    "toolcards_approval": ["terms", "rules", "edited", "note"], "toolcards_policyversion": ["document"],
    "toolcards_receipt": ["answer"], "toolcards_delivery": ["payload"], "toolcards_vote": ["reason", "note"],
    "toolcards_auditrow": ["detail"], "toolcards_draft": ["head"], "toolcards_grant": ["pattern"],
    "toolcards_webhook": ["events", "sources"],
}  # fmt: skip


@pytest.fixture
def admin(a_person: Callable[..., Any]) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(a_person("admin", "root"))
    return client


@pytest.fixture
def broken(transactional_db: None) -> Iterator[Callable[[str, str, str], None]]:
    """Give `broken(table, column, text)`: the text in every row. In the end the tables are emptied."""

    def spoil(table: str, column: str, text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {column} = %s", [text])

    yield spoil
    from django.test.testcases import TransactionTestCase
    TransactionTestCase._fixture_teardown(None)


def pages(call: ToolCall, approval: str) -> list[str]:
    run, one = f"run-1/?source={call.run.source}", call.public_id
    return [
        "/", "/runs/", f"/runs/{run}", "/calls/", "/calls/?q=ls", f"/calls/{one}/", f"/calls/{one}/why/",
        f"/calls/{one}/rule/", "/approvals/", "/approvals/history/", f"/approvals/{approval}/", "/policy/",
        "/policy/try/", f"/policy/try/?call={one}", "/policy/export/", "/policy/draft/", "/policy/draft/text/",
        "/policy/versions/", "/policy/versions/1/", "/policy/grants/", "/settings/killswitch/", "/settings/breakglass/",
        "/sources/", f"/sources/{call.run.source_id}/", "/sources/unknown-frames/", "/connect/", "/settings/audit/",
        "/settings/audit/export/", "/settings/notify/", "/settings/people/", "/readyz", "/metrics",
        "/api/v1/runs", f"/api/v1/runs/run-1?source={call.run.source}", "/api/v1/runs/run-1/calls",
        "/api/v1/runs/run-1/events", "/api/v1/approvals", "/api/v1/approvals?state=waiting", "/api/v1/policy/versions",
        "/api/v1/policy/draft", "/api/v1/grants", f"/api/v1/calls/{one}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [*BROKEN, "another key"])
@pytest.mark.parametrize("place", [f"{table}.{column}" for table in PLACES for column in PLACES[table]])
def test_no_page_fails_for_a_row_that_cannot_be_read(
    place: str, name: str, admin: Client, broken: Callable[[str, str, str], None], a_call: Callable[..., ToolCall],
    policy: Callable[..., Any],
) -> None:  # fmt: skip
    policy({"default": "ask"})
    call = a_call("approval-requested")
    a_call("output-available", call_id="call-2", run="run-2")
    approval = call.as_card().approval
    assert approval is not None
    with override_settings(SECRET_KEY="a key that is lost"):
        text = BROKEN.get(name) or vault.seal(["{}"], place)[0]
    broken(*place.split("."), text)
    from toolcards.gate import memory
    from dashboard import cards
    from toolcards import models
    memory.forget_all(); cards.rendered.clear(); models._shown.clear()
    failed = [path for path in pages(call, approval.id) if admin.get(path).status_code >= 500]
    assert not failed, failed
