"""The engine as an app of Django."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper

from toolcards.apps import ToolcardsConfig
from toolcards.models.write_guard import FUNCTION, allow_event_changes


def test_the_app_has_the_name_of_its_package_and_ids_that_never_run_out() -> None:
    config = apps.get_app_config("toolcards")
    assert isinstance(config, ToolcardsConfig) and config.default_auto_field == "django.db.models.BigAutoField"
    assert (config.name, config.verbose_name) == ("toolcards", "Toolcards")


def test_each_new_connection_knows_whether_events_may_change(django_db_blocker: Any) -> None:
    memory = {**connections.settings["default"], "NAME": ":memory:", "OPTIONS": {}}
    connection = DatabaseWrapper(memory, alias="another")
    with django_db_blocker.unblock(), contextlib.closing(connection), connection.cursor() as cursor:
        assert cursor.execute(f"SELECT {FUNCTION}()").fetchone() == (0,)
        with allow_event_changes():
            assert cursor.execute(f"SELECT {FUNCTION}()").fetchone() == (1,)
        assert cursor.execute("PRAGMA recursive_triggers").fetchone() == (1,)


def test_a_connection_of_another_program_does_not() -> None:
    database = sqlite3.connect(":memory:")
    with contextlib.closing(database), pytest.raises(sqlite3.OperationalError, match="no such function"):
        database.execute(f"SELECT {FUNCTION}()")
