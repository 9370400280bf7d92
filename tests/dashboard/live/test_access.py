"""Who may watch: people with a role, and only as long as they have it."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client

from tests.support.browser_sockets import close_code, watching
from tests.support.server import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_socket_without_a_sign_in_is_closed_with_its_code() -> None:
    async with watching(None, "/ws/me/") as live_socket:
        assert await close_code(live_socket) == 4401


async def test_who_has_no_role_may_not_watch(django_user_model: Any) -> None:
    client = Client()
    nobody = await sync_to_async(django_user_model.objects.create_user)("nobody", password="x")
    await sync_to_async(client.force_login)(nobody)
    async with watching(client, "/ws/me/") as live_socket:
        assert await close_code(live_socket) == 4403


@pytest.mark.usefixtures("frequent_checks")
@pytest.mark.parametrize("ending", ["sign out", "switch off", "new password", "lose the role"])
async def test_a_socket_ends_soon_after_its_right(signed_in: Client, ending: str) -> None:
    def end() -> None:
        person = get_user_model().objects.get(username="eve")
        if ending == "sign out":
            signed_in.post("/logout/")
        elif ending == "switch off":
            get_user_model().objects.filter(pk=person.pk).update(is_active=False)
        elif ending == "new password":
            person.set_password("another one entirely")
            person.save()
        else:
            person.groups.clear()

    path = "/ws/me/"
    async with watching(signed_in, path) as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        await sync_to_async(end)()
        assert await close_code(live_socket) == (4403 if ending == "lose the role" else 4401)
