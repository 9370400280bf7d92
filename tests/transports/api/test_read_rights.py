"""Event streams through a real server: each ends soon after the right of its reader, or once its reader stalls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.ag_ui_agent import build_interrupts, build_run_start, call
from tests.support.raw_connection import Wire
from tests.support.server import PATIENCE, Server, until
from toolcards.models import AgentKey
from toolcards.transports.api.auth import Caller
from toolcards.transports.api.read_rights import end_expired_rights, iterate_while_allowed, open_rights

RUN = "/api/v1/runs/r/events"
ENDINGS = {
    "signed out": "Session.objects.all().delete()",
    "switched off": "person.is_active = False; person.save()",
    "without a role": "person.groups.clear()",
    "with a new password": "person.set_password('another one entirely'); person.save()",
}
PREPARE = """
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.test import Client
from django.contrib.auth.models import Group
person, is_new = get_user_model().objects.get_or_create(username='eve')
"""
SIGN_IN = """
person.is_active = True
person.set_password('the first one entirely')
person.save()
person.groups.set(Group.objects.filter(name='viewer'))
client = Client()
client.force_login(person)
print(f"{settings.SESSION_COOKIE_NAME}={client.session.session_key}")
"""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), body_seconds=2, agui_upstreams="up=http://127.0.0.1:9/") as running:
        running.request("POST", "/api/v1/ingest?protocol=native&run=r", [{"type": "run.started"}])
        yield running


def run_code(server: Server, code: str) -> str:
    result = server.manage("shell", "-c", PREPARE + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()[-1] if result.stdout.split() else ""


def end_key(server: Server, key: str, ending: str) -> None:
    """Revoke a key, or let it expire, in another process."""
    column = "revoked_at" if ending == "revoked" else "expires_at"
    run_code(
        server,
        "from toolcards.models import AgentKey, hash_secret\nfrom django.utils import timezone\n"
        f"AgentKey.objects.filter(digest=hash_secret('{key}')).update({column}=timezone.now())",
    )


def open_stream(server: Server, head: str, path: str = RUN, small: bool = False) -> Wire:
    lines = [f"GET {path} HTTP/1.1", "Accept: text/event-stream", "Connection: close", head, "Host: 127.0.0.1", "", ""]
    request = "\r\n".join(lines).encode()
    return Wire(server, request, small=small)


def read_until(wire: Wire, text: bytes) -> bytes:
    data = b""
    while text not in data:
        piece = wire.socket.recv(1 << 16)
        assert piece, data
        data += piece
    return data


def count_streams(server: Server) -> int:
    match = re.search(r"(?m)^toolcards_event_streams\S* (\d+)", server.request("GET", "/metrics")[1])
    assert match
    return int(match[1])


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_stream_of_a_person_ends_with_the_right_to_read(own_server: Server, ending: str) -> None:
    cookie = run_code(own_server, SIGN_IN)
    with open_stream(own_server, f"Cookie: {cookie}") as wire:
        read_until(wire, b"run_started")
        run_code(own_server, ending)
        assert b"event:" not in wire.rest()
    until(lambda: count_streams(own_server) == 0)


TOKEN_ENDINGS = {
    "revoked": "PersonalToken.objects.filter(person=person).revoke()",
    "expired": "PersonalToken.objects.filter(person=person).update(expires_at=timezone.now())",
    "switched off": ENDINGS["switched off"],
    "without a role": ENDINGS["without a role"],
}
USE_TOKENS = "from toolcards.models import PersonalToken\nfrom django.utils import timezone\n"


@pytest.mark.slow
@pytest.mark.parametrize("ending", TOKEN_ENDINGS.values(), ids=TOKEN_ENDINGS)
def test_the_stream_of_a_personal_token_ends_with_it(own_server: Server, ending: str) -> None:
    run_code(own_server, SIGN_IN)
    token = own_server.manage("token", "create", "eve", "--scopes", "read").stdout.split()[-1]
    with open_stream(own_server, f"Authorization: Bearer {token}") as wire:
        read_until(wire, b"run_started")
        run_code(own_server, USE_TOKENS + ending)
        assert b"event:" not in wire.rest()
    until(lambda: count_streams(own_server) == 0)
    until(lambda: own_server.request("GET", "/api/v1/runs", key=token)[0] in (401, 403))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_the_stream_of_a_key_ends_with_it(own_server: Server, ending: str) -> None:
    key = own_server.manage("agentkey", "create", f"key-{ending}").stdout.split()[-1]
    own_server.request("POST", "/api/v1/ingest?protocol=native&run=mine", [{"type": "run.started"}], key=key)
    with open_stream(own_server, f"Authorization: Bearer {key}", "/api/v1/runs/mine/events") as wire:
        read_until(wire, b"run_started")
        end_key(own_server, key, ending)
        assert b"event:" not in wire.rest()
    until(lambda: count_streams(own_server) == 0)


POLLS = {
    "decide": ("POST", "/api/v1/calls/decide"),
    "approval": ("GET", "/api/v1/approvals/{approval}?wait=60"),
    "resume": ("GET", "/api/v1/ag-ui/up/resume?run=chat&wait=60"),
}


@pytest.mark.slow
@pytest.mark.parametrize("poll", POLLS)
@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_a_request_that_waits_ends_with_its_key(own_server: Server, ending: str, poll: str) -> None:
    key = own_server.manage("agentkey", "create", f"poll-{poll}-{ending}").stdout.split()[-1]
    question = {"run": "asked", "call_id": "c", "tool": "delete_file", "args": {"path": "x"}}
    answer = own_server.request("POST", "/api/v1/calls/decide", question, key=key)[1]
    frames = [build_run_start("chat"), *call("c"), build_interrupts("chat", "c")]
    own_server.request("POST", "/api/v1/ingest?protocol=ag-ui&run=chat&answers=poll", frames, key=key)
    assert own_server.request("GET", "/api/v1/ag-ui/up/resume?run=chat", key=key)[1]["waiting"] == 1
    method, path = POLLS[poll]
    body = question | {"call_id": "c2", "wait_ms": 60_000} if method == "POST" else None
    path = path.format(approval=answer["approval"]["id"])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(own_server.request, method, path, body, key=key)
        end_key(own_server, key, ending)
        status, error, _ = waiting.result(PATIENCE)
    assert (status, error["error"]["code"]) == (401, "unauthorized")


@pytest.mark.slow
def test_a_reader_that_takes_nothing_is_cut_off_and_one_that_is_slow_is_not(own_server: Server) -> None:
    text = "x" * 100_000
    frames = [{"type": "text.delta", "text": f"{number} {text}"} for number in range(60)]
    for start in range(0, len(frames), 20):
        own_server.request("POST", "/api/v1/ingest?protocol=native&run=r", frames[start : start + 20])
    key = f"Authorization: Bearer {own_server.key}"
    with open_stream(own_server, key, small=True) as stalled, open_stream(own_server, key) as reading:
        read_until(stalled, b"run_started")
        read_until(reading, b"59 xxx")
        until(lambda: count_streams(own_server) == 1)
        end = [{"type": "run.finished", "outcome": "success"}]
        own_server.request("POST", "/api/v1/ingest?protocol=native&run=r", end)
        read_until(reading, b"run_finished")


# ---------------------------------------------------------------- against a model

KEYS = 3
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["open", "revoke", "expire", "renew"]), st.integers(0, KEYS - 1)),
    st.tuples(st.sampled_from(["event", "check"]), st.just(0)),
)


class Reader:
    """One open stream, and what its reader got."""

    def __init__(self, caller: Caller) -> None:
        self.key, self.is_cut = caller.key, False
        self.items: list[int] = []
        self.queue: asyncio.Queue[int] = asyncio.Queue()
        self.task = asyncio.create_task(self._read(caller))

    async def _read(self, caller: Caller) -> None:
        async def items() -> AsyncIterator[int]:
            while True:
                yield await self.queue.get()

        async for item in iterate_while_allowed(caller, items()):
            self.items.append(item)


async def settle() -> None:
    """Let all readers take what is there."""
    for _ in range(10):
        await asyncio.sleep(0)


async def play(callers: list[Caller], actions: list[tuple[str, int]]) -> None:
    readers: list[Reader] = []
    sent_items: dict[Reader, list[int]] = {}
    dead: set[int] = set()
    for number, (action, index) in enumerate(actions):
        key = callers[index].key
        rows = AgentKey.objects.filter(pk=key)
        if action == "open":
            readers.append(Reader(callers[index]))
            sent_items[readers[-1]] = []
        elif action == "event":
            for reader in readers:
                reader.queue.put_nowait(number)
                sent_items[reader] += [] if reader.is_cut else [number]
        elif action == "check":
            await end_expired_rights()
            for reader in readers:
                reader.is_cut |= reader.key in dead
        elif action == "renew":
            await sync_to_async(rows.update)(revoked_at=None, expires_at=None)
            dead.discard(key)
        else:
            column = "revoked_at" if action == "revoke" else "expires_at"
            await sync_to_async(rows.update)(**{column: timezone.now() - timedelta(seconds=1)})
            dead.add(key)
        await settle()
        assert [reader.items for reader in readers] == [sent_items[reader] for reader in readers]
        assert [reader.task.done() for reader in readers] == [reader.is_cut for reader in readers]
        assert len(open_rights) == sum(not reader.is_cut for reader in readers)
    for reader in readers:
        reader.task.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)
    assert not open_rights


@pytest.mark.django_db(transaction=True)
def test_a_stream_sends_until_the_check_after_the_end_of_its_key() -> None:
    keys = [AgentKey.objects.issue(f"agent {number}")[0] for number in range(KEYS)]
    callers = [Caller(key.source, key.pk, frozenset({"read"})) for key in keys]

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(ACTIONS, max_size=25))
    def run(actions: list[Any]) -> None:
        AgentKey.objects.filter(pk__in=[key.pk for key in keys]).update(revoked_at=None, expires_at=None)
        asyncio.run(play(callers, actions))

    run()
