"""Event streams through a real server: each ends soon after the right of its reader, or once its reader stalls."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.raw_connection import Wire
from tests.support.server import Server, until

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
    with Server(tmp_path_factory.mktemp("server"), body_seconds=2) as running:
        running.request("POST", "/api/v1/ingest?protocol=native&run=r", [{"type": "run.started"}])
        yield running


def run_code(server: Server, code: str) -> str:
    result = server.manage("shell", "-c", PREPARE + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()[-1] if result.stdout.split() else ""


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


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_stream_of_a_person_ends_with_the_right_to_read(own_server: Server, ending: str) -> None:
    cookie = run_code(own_server, SIGN_IN)
    with open_stream(own_server, f"Cookie: {cookie}") as wire:
        read_until(wire, b"run_started")
        run_code(own_server, ending)
        assert b"event:" not in wire.rest()
    until(lambda: count_streams(own_server) == 0)


@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_the_stream_of_a_key_ends_with_it(own_server: Server, ending: str) -> None:
    key = own_server.manage("agentkey", "create", f"key-{ending}").stdout.split()[-1]
    own_server.request("POST", "/api/v1/ingest?protocol=native&run=mine", [{"type": "run.started"}], key=key)
    with open_stream(own_server, f"Authorization: Bearer {key}", "/api/v1/runs/mine/events") as wire:
        read_until(wire, b"run_started")
        column = "revoked_at" if ending == "revoked" else "expires_at"
        run_code(
            own_server,
            "from toolcards.models import AgentKey, hash_secret\nfrom django.utils import timezone\n"
            f"AgentKey.objects.filter(digest=hash_secret('{key}')).update({column}=timezone.now())",
        )
        assert b"event:" not in wire.rest()
    until(lambda: count_streams(own_server) == 0)


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
