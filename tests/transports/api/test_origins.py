"""Other sites' pages open nothing here: the Host must be one of this server's names, an Origin must be of that host."""

from __future__ import annotations

import json
from typing import Any

import pytest
from channels.testing import HttpCommunicator, WebsocketCommunicator

from tests.support.server import PATIENCE
from toolcards.transports.api import origins
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.urls import ROUTES

HERE = b"127.0.0.1:8000"
Headers = list[tuple[bytes, bytes]]


def scope(*headers: tuple[bytes, bytes], scheme: str = "ws") -> dict[str, Any]:
    return {"scheme": scheme, "headers": list(headers)}


def outcome(payload: dict[str, Any]) -> str:
    try:
        origins.check_agent_origin(payload)
    except Problem as problem:
        return problem.code
    return ""


HOSTS = [
    ([b"127.0.0.1:8000"], ""), ([b"localhost"], ""), ([b"LOCALHOST:9"], ""), ([b"[::1]:8000"], ""),
    ([b"cards.example"], ""), ([b"cards.example:443"], ""), ([b"evil.example"], "bad_host"), ([], "bad_host"),
    ([b"127.0.0.1.evil.example"], "bad_host"),
    ([b""], "bad_host"), ([b"127.0.0.1", b"evil.example"], "bad_host"), ([b"evil.example", b"127.0.0.1"], "bad_host"),
    ([b"127.0.0.1@evil.example"], "bad_host"), ([b"127.0.0.1/evil"], "bad_host"), ([b"127.0.0.1:x"], "bad_host"),
    ([b"\xff"], "bad_host"), ([b"0.0.0.0"], "bad_host"), ([b"127.0.0.2"], "bad_host"), ([b"cards.example."], ""),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "code"), HOSTS)
def test_only_our_own_names_are_asked_for(settings: Any, hosts: list[bytes], code: str) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", "cards.example"]
    assert outcome(scope(*((b"host", host) for host in hosts))) == code


ORIGINS = [
    # an agent's own library
    ([], "ws", b"127.0.0.1:8000", ""),
    ([b"http://127.0.0.1:8000"], "ws", b"127.0.0.1:8000", ""),
    ([b"http://localhost:8000"], "ws", b"127.0.0.1:8000", ""),
    ([b"http://[::1]:8000"], "ws", b"localhost:8000", ""),
    ([b"https://cards.example"], "wss", b"cards.example", ""),
    ([b"https://cards.example"], "ws", b"cards.example", ""),  # a proxy ends https
    ([b"https://known.example:8443"], "ws", b"127.0.0.1:8000", ""),  # one of TOOLCARDS_ORIGINS
    # pages of others
    ([b"https://evil.example"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://127.0.0.1:9000"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://127.0.0.1"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://localhost:8001"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"https://localhost:8000"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://cards.example"], "wss", b"cards.example", "origin"),
    ([b"https://cards.example:444"], "wss", b"cards.example", "origin"),
    ([b"https://known.example"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"null"], "ws", b"127.0.0.1:8000", "origin"), ([b""], "ws", b"127.0.0.1:8000", "origin"),
    ([b"file://"], "ws", b"127.0.0.1:8000", "origin"), ([b"127.0.0.1:8000"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://evil@127.0.0.1:8000"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://127.0.0.1:8000/x"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://127.0.0.1:8000.evil.example"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"chrome-extension://abc"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://[::1"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"https://evil.example", b"http://127.0.0.1:8000"], "ws", b"127.0.0.1:8000", "origin"),
    ([b"http://127.0.0.1:8000", b"https://evil.example"], "ws", b"127.0.0.1:8000", "origin"),
    # DNS rebinding: page and host agree, and neither is ours
    ([b"http://evil.example:8000"], "ws", b"evil.example:8000", "bad_host"),
]  # fmt: skip


@pytest.mark.parametrize(("items", "scheme", "host", "code"), ORIGINS)
def test_an_agent_comes_without_an_origin_or_with_ours(
    settings: Any, limits: Any, items: list[bytes], scheme: str, host: bytes, code: str
) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", "cards.example"]
    limits(origins=("https://known.example:8443",))
    assert outcome(scope((b"host", host), *((b"origin", origin) for origin in items), scheme=scheme)) == code


async def _socket(headers: Headers) -> list[dict[str, Any]]:
    from dashboard.asgi import application

    wire = WebsocketCommunicator(application, "/ws/agent/?protocol=native&run=r", headers=headers)
    assert (await wire.connect(timeout=PATIENCE))[0]
    messages = []
    while not messages or messages[-1]["type"] != "websocket.close":
        messages.append(await wire.receive_output(PATIENCE))
    return messages


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("headers", "close", "code"),
    [
        ([(b"host", b"evil.example")], 4400, "bad_host"), ([], 4400, "bad_host"),
        ([(b"host", HERE), (b"origin", b"https://evil.example")], 4403, "origin"),
    ],
)  # fmt: skip
async def test_a_socket_says_why_before_it_looks_at_the_key(
    secret: str, headers: Headers, close: int, code: str
) -> None:
    for key in (secret, "tck_none"):
        result, closing = await _socket([*headers, (b"authorization", f"Bearer {key}".encode())])
        assert json.loads(result["text"])["code"] == code and closing["code"] == close


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["api/v1/ingest?protocol=native", *ROUTES])
@pytest.mark.parametrize("host", [b"evil.example", b"127.0.0.1.evil.example"])
async def test_no_address_for_machines_answers_to_another_host(secret: str, path: str, host: bytes) -> None:
    from dashboard.asgi import application

    address = "/" + path.replace("<", "").replace(">", "")
    headers = [(b"host", host), (b"authorization", f"Bearer {secret}".encode()), (b"content-type", b"application/json")]
    for method in ("GET", "POST"):
        answer = await HttpCommunicator(application, method, address, b"{}", headers).get_response(timeout=PATIENCE)
        assert (answer["status"], json.loads(answer["body"])["error"]["code"]) == (400, "bad_host")
