"""The browsers' sockets: the whole board first, then each change, and for our own pages only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client

from dashboard.live.sockets import is_own_origin
from tests.support.browser_sockets import ORIGIN, close_code, say, socket, text_with, watching
from tests.support.server import PATIENCE
from toolcards.core.calls import facts as f
from toolcards.models import Run, ToolCall
from toolcards.transports import shutdown

pytestmark = pytest.mark.django_db(transaction=True)


async def test_the_first_push_is_the_whole_board(signed_in: Client, a_call: Callable[..., ToolCall]) -> None:
    await sync_to_async(lambda: [a_call(call_id=f"c{n}", run="a/b") for n in range(3)])()
    async with watching(signed_in, "/ws/runs/a%2Fb/") as live_socket:
        first = await live_socket.receive_from(timeout=PATIENCE)
    assert re.findall(r'data-call-id="(c\d)"', first) == ["c0", "c1", "c2"] and 'id="run-head"' in first


async def test_each_change_is_pushed_with_its_state(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    await sync_to_async(a_run)("live", f.InputStarted("c1", "Bash"))
    async with watching(signed_in, "/ws/runs/live/") as live_socket:
        await text_with(live_socket, 'data-state="input-streaming"')
        await say(source, "live", f.InputDelta("c1", '{"command": "ls"'))
        assert "{&quot;command&quot;: &quot;ls&quot;" in await text_with(live_socket, "characters so far")
        await say(source, "live", f.InputReady("c1", "Bash", {"command": "ls"}, True))
        await text_with(live_socket, 'data-state="input-available"')
        await say(source, "live", f.OutputReady("c1", 0))
        await text_with(live_socket, 'data-state="output-available"')


async def test_a_card_of_a_step_that_was_reset_goes(signed_in: Client, a_run: Callable[..., Run], source: Any) -> None:
    await sync_to_async(a_run)("again", f.StepStarted(), f.InputReady("c1", "Bash", {}, True, per_step=True))
    async with watching(signed_in, "/ws/runs/again/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        await say(source, "again", f.StepReset())
        await text_with(live_socket, "data-removed")


async def test_a_socket_of_an_unknown_run_is_closed_with_its_code(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/runs/nothing/") as live_socket:
        assert await close_code(live_socket) == 4404


@pytest.mark.parametrize("origin", [b"", ORIGIN, b"https://evil.example"])
async def test_an_unknown_socket_address_has_its_own_close_code(origin: bytes) -> None:
    live_socket = socket(None, "/ws/agents/", origin)  # mistyped: it is neither the key nor the page that is wrong
    assert (await live_socket.connect(timeout=PATIENCE))[0]
    assert await close_code(live_socket) == 4404


async def test_a_server_that_stops_asks_the_page_to_reconnect(signed_in: Client) -> None:
    async with watching(signed_in, "/ws/me/") as live_socket:
        await live_socket.receive_from(timeout=PATIENCE)
        shutdown.begin()
        assert await close_code(live_socket) == 1012


@pytest.mark.parametrize(
    ("origin", "host", "scheme", "fine"),
    [
        ("http://testserver", "testserver", "ws", True),
        ("http://testserver:80", "testserver", "ws", True),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "ws", True),
        ("http://127.0.0.1:9999", "127.0.0.1:8000", "ws", False),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", "ws", False),
        ("http://localhost:8000", "127.0.0.1:8000", "ws", False),
        ("http://evil.example", "127.0.0.1:8000", "ws", False),
        ("http://evil.example", "evil.example", "ws", False),
        ("null", "127.0.0.1:8000", "ws", False),
        ("", "127.0.0.1:8000", "ws", False),
        ("http://127.0.0.1:x", "127.0.0.1:8000", "ws", False),
        ("http://[::1]:8000", "[::1]:8000", "ws", True),
        ("https://127.0.0.1", "127.0.0.1", "wss", True),
    ],
)
def test_only_our_own_pages_open_sockets(settings: Any, origin: str, host: str, scheme: str, fine: bool) -> None:
    settings.ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost", "[::1]"]
    assert is_own_origin(origin, host, scheme) is fine


async def test_a_foreign_page_is_refused_at_the_door(signed_in: Client) -> None:
    live_socket = socket(signed_in, "/ws/me/", origin=b"http://evil.example")
    assert (await live_socket.connect(timeout=PATIENCE))[0] is False


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
