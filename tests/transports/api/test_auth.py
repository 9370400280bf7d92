"""Keys at the door, while the house is busy."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import Client

from toolcards.models import AgentKey, PersonalToken, hash_secret
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem


@pytest.mark.django_db(transaction=True)
def test_a_key_opens_though_its_use_cannot_be_noted(key: AgentKey, secret: str) -> None:
    busy = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")  # another writer holds the lock
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


@pytest.mark.django_db(transaction=True)
async def test_a_revoked_key_stops_working_at_once_in_its_process(key: AgentKey, secret: str) -> None:
    header = f"Bearer {secret}"
    assert (await auth.authenticate_agent(header)).key == key.pk
    await AgentKey.objects.filter(pk=key.pk).aupdate(revoked_at="2026-01-01T00:00:00Z")
    with pytest.raises(Problem) as refusal:
        await auth.authenticate_agent(header)
    assert refusal.value.status == 401
    key.revoked_at = None
    await key.asave(update_fields=["revoked_at"])
    assert (await auth.authenticate_agent(header)).key == key.pk


@pytest.mark.django_db(transaction=True)
async def test_a_replaced_key_stops_working_when_the_new_one_is_used(key: AgentKey, secret: str) -> None:
    assert (await auth.authenticate_agent(f"Bearer {secret}")).key == key.pk
    new_key, new_secret = await sync_to_async(AgentKey.objects.rotate)(key)
    assert (await auth.authenticate_agent(f"Bearer {secret}")).key == key.pk
    assert (await auth.authenticate_agent(f"Bearer {new_secret}")).key == new_key.pk
    with pytest.raises(Problem) as refusal:
        await auth.authenticate_agent(f"Bearer {secret}")
    assert refusal.value.status == 401


@pytest.mark.django_db(transaction=True)
async def test_requests_that_come_at_once_look_a_key_up_once(
    key: AgentKey, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []
    find_caller = auth._afind_caller

    async def count_and_find(digest: str) -> auth.Caller | None:
        searches.append(digest)
        return await find_caller(digest)

    monkeypatch.setattr(auth, "_afind_caller", count_and_find)
    auth.clear_cache()
    callers = await asyncio.gather(*(auth.authenticate_agent(f"Bearer {secret}") for _ in range(20)))
    assert {caller.key for caller in callers} == {key.pk}
    assert len(searches) == 1


@pytest.mark.django_db(transaction=True)
def test_a_personal_token_reads_and_is_no_agent_key(an_approver: Any, client: Client) -> None:
    for scopes, statuses in ((["read"], (200, 403)), (["vote"], (403, 403))):
        token = PersonalToken.objects.issue(an_approver, "terminal", scopes, 1)[1]
        headers = {"Authorization": f"Bearer {token}"}
        decide = {"run": "r", "call_id": "c", "tool": "t", "args": {}}
        answers = (
            client.get("/api/v1/approvals", headers=headers),
            client.post("/api/v1/calls/decide", decide, content_type="application/json", headers=headers),
        )
        assert tuple(answer.status_code for answer in answers) == statuses
        assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 403} == {"scope"}
    assert PersonalToken.objects.filter(used_at__isnull=False).count() == 2
