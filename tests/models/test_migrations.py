"""What migrations with SQL of their own leave behind, on both databases."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from django.db import connection

from tests.support.services import postgres

INDEXES = {"toolcards_event": {("id",), ("run_id", "seq")}, "toolcards_run": {("source_id", "name")}}


@pytest.mark.django_db
@pytest.mark.parametrize("table", INDEXES)
def test_no_index_of_the_log_begins_another_one(table: str) -> None:
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table).values()
    indexes = {tuple(each["columns"]) for each in constraints if each["index"] or each["unique"] or each["primary_key"]}
    assert indexes >= INDEXES[table]
    assert not [one for one in indexes for other in indexes if one != other and other[: len(one)] == one]


@pytest.mark.slow
def test_postgresql_keeps_an_event_in_its_table_and_two_indexes(tmp_path: Path) -> None:
    with postgres(tmp_path) as url, psycopg.connect(url) as database:
        rows = database.execute("SELECT indexname FROM pg_indexes WHERE tablename = 'toolcards_event'").fetchall()
        triggers = database.execute(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = 'toolcards_event'::regclass"
        ).fetchall()
    assert {name for (name,) in rows} == {"toolcards_event_pkey", "event_seq"}
    assert {name for (name,) in triggers} >= {"toolcards_event_update", "toolcards_event_delete"}
