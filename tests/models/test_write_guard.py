"""The tables of the log are written by the gate only, and events stay as they are on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from tests.support.server import Server
from tests.support.services import postgres_server
from toolcards.models import Approval, Event, LogIsFinal, Run, ToolCall
from toolcards.models.write_guard import WriteRefused, allow_event_changes, allow_log_writes

MODELS = [Run, Event, ToolCall, Approval]
CHANGES = ["UPDATE toolcards_event SET fact = ''", "DELETE FROM toolcards_event"]
FRAMES = [{"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "ls"}}]


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "write",
    [
        lambda model: model.objects.create(), lambda model: model().save(), lambda model: model(pk=1).delete(),
        lambda model: model.objects.bulk_create([model()]), lambda model: model.objects.get_or_create(pk=-1),
        lambda model: model.objects.update_or_create(pk=-1), lambda model: model.objects.all().update(run=1),
        lambda model: model.objects.all().delete(), lambda model: model.objects.all()._raw_delete("default"),
        lambda model: model.objects.bulk_update([model(pk=1)], [model._meta.get_fields()[-1].name]),
    ],
)  # fmt: skip
def test_a_row_of_the_log_is_not_written_outside_of_the_gate(model: Any, write: Callable[[Any], Any]) -> None:
    with pytest.raises((WriteRefused, LogIsFinal)), transaction.atomic():
        write(model)


@pytest.mark.django_db
def test_the_writer_may_write_and_the_permission_ends_with_it(a_run: Any) -> None:
    run = a_run("r")
    with allow_log_writes():
        Run.objects.filter(pk=run.pk).update(title="a title")
    with pytest.raises(WriteRefused):
        Run.objects.filter(pk=run.pk).update(title="another title")


@pytest.mark.django_db
@pytest.mark.parametrize("statement", [*CHANGES, "REPLACE INTO toolcards_event SELECT * FROM toolcards_event"])
def test_the_database_refuses_to_change_events(a_run: Any, statement: str) -> None:
    a_run("r")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.django_db
def test_the_database_refuses_to_delete_the_events_of_a_deleted_source(a_run: Any) -> None:
    run = a_run("r")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        run.source.delete()
    assert Event.objects.filter(run=run).exists()


@pytest.mark.django_db(transaction=True)
def test_the_door_for_changes_ends_with_its_block(a_run: Any) -> None:
    a_run("r")
    with transaction.atomic(), allow_event_changes(), connection.cursor() as cursor:
        cursor.execute("UPDATE toolcards_event SET applied = applied")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE toolcards_event SET applied = applied")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", CHANGES)
def test_another_program_cannot_change_events_in_the_file(a_run: Any, statement: str) -> None:
    a_run("r")
    with (
        closing(sqlite3.connect(str(connection.settings_dict["NAME"]))) as program,
        pytest.raises(sqlite3.OperationalError, match="toolcards_event_changes"),
    ):
        program.execute(statement)


@pytest.mark.postgres
def test_postgresql_refuses_to_change_events_and_retention_deletes_them(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with (
        postgres_server(tmp_path) as postgres,
        Server(tmp_path / "data", database_url=postgres.url, retention_days=1, secrets_ttl=1) as server,
        psycopg.connect(postgres.url, autocommit=True) as program,
    ):
        assert server.request("POST", "/api/v1/ingest?protocol=native&run=r", FRAMES)[0] == 200
        for statement in [*CHANGES, "TRUNCATE toolcards_event CASCADE"]:
            with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
                program.execute(statement)
        assert _count_events(program) > 0
        program.execute("UPDATE toolcards_run SET status = 'finished', ended_at = now() - interval '9 days'")
        completed = server.manage("retention")
        assert completed.returncode == 0, completed.stderr
        assert _count_events(program) == 0
        assert server.manage("replay", "--check").returncode == 0


def _count_events(program: psycopg.Connection[Any]) -> int:
    row = program.execute("SELECT count(*) FROM toolcards_event").fetchone()
    assert row is not None
    return int(row[0])
