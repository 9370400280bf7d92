"""Keys at the door, while the house is busy."""

from __future__ import annotations

import sqlite3

import pytest
from django.db import connection

from toolcards.models import AgentKey, hash_secret
from toolcards.transports.api import auth


@pytest.mark.django_db(transaction=True)
def test_a_key_opens_though_its_use_cannot_be_noted(key: AgentKey, secret: str) -> None:
    busy = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")  # somebody writes, and goes on writing
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 20")
        caller = auth._find_caller(hash_secret(secret))
    finally:
        busy.execute("ROLLBACK")
        busy.close()
        connection.close()
    assert caller is not None and caller.key == key.pk
    assert AgentKey.objects.get().used_at is None
