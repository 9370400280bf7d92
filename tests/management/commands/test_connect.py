"""Keys that `connect` makes and revokes in this computer's database, and the server that it finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from tests.support.audit_trail import acts, sql
from toolcards.connect.command import SCOPES, ConnectFailed
from toolcards.management.commands import connect as command
from toolcards.management.commands.connect import DatabaseKeys
from toolcards.models import AgentKey


def test_the_server_is_found_where_it_said_it_is(tmp_path: Path, limits: Any) -> None:
    limits(data_dir=tmp_path)
    assert command.find_server_address() == command.DEFAULT_ADDRESS
    (tmp_path / "address").write_text("http://127.0.0.1:8123")
    assert command.find_server_address() == "http://127.0.0.1:8123"
    for damaged in (b"", b" \n", b"\xff\xfe"):
        (tmp_path / "address").write_bytes(damaged)
        assert command.find_server_address() == command.DEFAULT_ADDRESS


@pytest.mark.django_db
def test_a_key_that_was_not_used_is_gone_and_a_used_one_is_revoked() -> None:
    keys = DatabaseKeys()
    first, second = keys.issue("goose"), keys.issue("goose")
    assert {key.scopes for key in AgentKey.objects.all()} == {" ".join(SCOPES)}
    keys.discard(first)
    keys.discard("unknown")
    (key,) = AgentKey.objects.all()
    keys.revoke(second, "cursor")  # a key of another program stays
    keys.revoke("unknown", "goose")
    assert AgentKey.objects.find_by_secret(second) == key
    keys.revoke(second, "goose")
    assert AgentKey.objects.find_by_secret(second) is None and "key.created" in acts()


@pytest.mark.django_db(transaction=True)
def test_without_a_database_the_reason_is_one_line() -> None:
    sql("ALTER TABLE toolcards_agentkey RENAME TO away")
    try:
        with pytest.raises(ConnectFailed):
            DatabaseKeys().issue("goose")
        with pytest.raises(ConnectFailed, match="revoke it there"):
            DatabaseKeys().revoke("a key", "goose")
    finally:
        sql("ALTER TABLE away RENAME TO toolcards_agentkey")


@pytest.mark.django_db
def test_programs_are_listed_and_an_unknown_one_is_named(run: Callable[..., str]) -> None:
    assert "claude-code" in run("connect", "list")
    with pytest.raises(CommandError, match="no-such-program"):
        run("connect", "no-such-program")
