"""Rows that cannot be read, of another release or damaged: each page shows the rest, and says what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from dashboard.cards import rendering
from toolcards import models
from toolcards.gate.writer.cache import run_cache
from toolcards.models import ToolCall
from toolcards.models.write_guard import allow_event_changes

TEXTS = ['{"type":"input.rea', '{"type":"from.a.later.release","call":"call-1"}', "null"]
LISTS = ["/", "/runs/", "/calls/", "/approvals/", "/approvals/history/", "/api/v1/runs", "/api/v1/approvals"]
CALL = ["/calls/{call}/", "/calls/{call}/why/", "/calls/{call}/rule/", "/calls/?q=ls", "/runs/run-1/"]
RUN = ["/api/v1/runs/run-1", "/api/v1/runs/run-1/calls", "/api/v1/runs/run-1/events"]
POLICY = ["/policy/", "/policy/export/", "/policy/versions/1/"]


@pytest.fixture
def admin(a_person: Callable[..., Any]) -> Client:
    """A browser whose errors are pages."""
    client = Client(raise_request_exception=False)
    client.force_login(a_person("admin", "root"))
    return client


@pytest.fixture
def spoil(transactional_db: None) -> Iterator[Callable[..., None]]:
    """Give `spoil(table, column, text, where)`: puts the text into these rows; in the end they are as before."""
    before: list[tuple[str, str, Any, int]] = []

    def overwrite(table: str, column: str, text: str, where: str = "1 = 1") -> None:
        key = "seq" if table == "toolcards_auditrow" else "id"
        with transaction.atomic(), allow_event_changes(), connection.cursor() as cursor:
            cursor.execute(f"SELECT {key}, {column} FROM {table} WHERE {where}")
            before.extend((f"UPDATE {table} SET {column} = %s WHERE {key} = %s", *row[::-1]) for row in cursor)
            cursor.execute(f"UPDATE {table} SET {column} = %s WHERE {where}", [text])
        forget()

    yield overwrite
    with transaction.atomic(), allow_event_changes(), connection.cursor() as cursor:
        for statement, *values in reversed(before):
            cursor.execute(statement, values)


def forget() -> None:
    """Drop what this process remembers, as a restart does."""
    run_cache.clear()
    rendering.card_cache.clear()
    models._shown_cards.clear()


def failures(admin: Client, call: ToolCall, paths: list[str]) -> list[tuple[str, int]]:
    """Open the paths; return those that fail, with their status."""
    answers = [(path, admin.get(path.format(call=call.public_id)).status_code) for path in paths]
    return [(path, status) for path, status in answers if status >= 500]


@pytest.fixture
def call(policy: Callable[..., Any], a_call: Callable[..., ToolCall]) -> ToolCall:
    """A call that waits in `run-1`; `run-2` has another one."""
    policy({"default": "ask"})
    a_call("output-available", call_id="call-2", run="run-2", tool="the_other_tool")
    return a_call("approval-requested")


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_a_card_that_cannot_be_read_hides_no_other(
    text: str, admin: Client, call: ToolCall, spoil: Callable[..., None]
) -> None:
    spoil("toolcards_toolcall", "card", text, f"id = {call.pk}")
    assert failures(admin, call, [*LISTS, *CALL, *RUN]) == []
    page = admin.get("/calls/").content.decode()
    assert "the_other_tool" in page and "bash" in page
    assert "cannot be read" in admin.get(f"/calls/{call.public_id}/").content.decode()


@pytest.mark.parametrize("text", TEXTS)
def test_a_log_that_cannot_be_read_hides_no_page(
    text: str, admin: Client, call: ToolCall, spoil: Callable[..., None]
) -> None:
    spoil("toolcards_event", "fact", text)
    assert failures(admin, call, [*CALL, *RUN]) == []


@pytest.mark.parametrize("text", TEXTS)
def test_counts_and_audit_rows_that_cannot_be_read_hide_no_other(
    text: str, admin: Client, call: ToolCall, spoil: Callable[..., None]
) -> None:
    spoil("toolcards_run", "counts", text)
    spoil("toolcards_auditrow", "detail", text)
    assert failures(admin, call, [*LISTS, *RUN, "/settings/audit/", "/settings/audit/export/"]) == []


@pytest.mark.parametrize("text", TEXTS)
def test_a_policy_that_cannot_be_read_is_named_and_can_be_replaced(
    text: str, admin: Client, call: ToolCall, spoil: Callable[..., None]
) -> None:
    spoil("toolcards_policyversion", "document", text)
    assert failures(admin, call, [*POLICY, *CALL, "/policy/versions/", "/"]) == []
    answer = admin.get("/policy/")
    assert answer.status_code == 409 and "Version 1 cannot be read" in answer.content.decode()
