"""Views for machines: what their head must be, what their errors become, and when a disconnect ends them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpResponse, StreamingHttpResponse

from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards.adapters import BadFrame
from toolcards.gate import RequestRefused
from toolcards.transports.api import asgi_views
from toolcards.transports.api.admission import LINE
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_views import DirectView, MachineHeaders, MachineRequest, endpoint

HOST = (b"host", b"127.0.0.1")
Headers = tuple[tuple[bytes, bytes], ...]


def make_scope(method: str = "GET", query: bytes = b"", headers: Headers = (HOST,), **rest: Any) -> dict[str, Any]:
    return {"type": "http", "method": method, "path": "/x", "query_string": query, "headers": list(headers)} | rest


class Peer:
    """A client: it sends these pieces of a body, then stays until it leaves."""

    def __init__(self, *pieces: bytes) -> None:
        self._messages = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces or (b"",), 1)
        ]
        self._has_left = asyncio.Event()
        self.answers: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop(0)
        await self._has_left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.answers.append(message)

    def leave(self) -> None:
        self._has_left.set()

    @property
    def status(self) -> int:
        return int(self.answers[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.answers[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.answers[1:])

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


async def ask(view: Any, scope: dict[str, Any] | None = None, body: bytes = b"", **parts: str) -> Peer:
    """Return the peer once it has its answer."""
    peer = Peer(body)
    await DirectView(view)(scope or make_scope(view.method), peer.receive, peer.send, parts)
    return peer


def make_view(
    act: Callable[[Any], Awaitable[Any]] | None = None, method: str = "GET", error: Exception | None = None
) -> Any:
    """Return a view that needs no key, whose function awaits `act(request)` or raises the error."""

    @endpoint(method, anybody=True)
    async def view(request: Any, caller: None, **parts: str) -> Any:
        if error is not None:
            raise error
        return await act(request) if act else {"parts": parts}

    return view


# ---------------------------------------------------------------- the head of a request


async def test_a_view_takes_its_own_method_and_head_for_get() -> None:
    get, post = make_view(), make_view(method="POST")
    assert (await ask(get)).status == (await ask(get, make_scope("HEAD"))).status == 200
    assert (await ask(post)).status == 200
    for view, method in ((get, "POST"), (post, "GET"), (post, "HEAD"), (get, "PUT")):
        peer = await ask(view, make_scope(method))
        assert (peer.status, peer.code, peer.headers[b"allow"]) == (405, "method_not_allowed", view.method.encode())


@pytest.mark.parametrize("headers", [(), ((b"host", b"evil.example"),), (HOST, (b"host", b"evil.example"))])
async def test_a_host_that_is_not_served_is_turned_away_before_the_key(headers: Headers, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]

    @endpoint("GET")
    async def view(request: Any, caller: Any) -> None: ...

    peer = await ask(view, make_scope(headers=headers, server=("evil.example", 80)))
    assert (peer.status, peer.code) == (400, "bad_host")


async def test_without_a_key_the_function_is_not_run() -> None:
    @endpoint("GET", "read")
    async def view(request: Any, caller: Any) -> None:
        pytest.fail("it ran")

    peer = await ask(view)
    assert (peer.status, peer.code, peer.headers[b"connection"]) == (401, "unauthorized", b"close")


@pytest.mark.django_db(transaction=True)
async def test_the_line_of_a_caller_with_a_key_is_admitted_and_no_other(secret: str) -> None:
    class Line:
        admissions = 0

        def admit(self, *, streams: bool) -> None:
            self.admissions += 1

    @endpoint("GET", "read")
    async def view(request: Any, caller: Any) -> Any:
        return {"source": caller.source.name}

    line, key = Line(), (b"authorization", f"Bearer {secret}".encode())
    assert (await ask(make_view(), make_scope(**{LINE: (line,)}))).status == 200 and line.admissions == 0
    assert (await ask(view, make_scope(headers=(HOST, key), **{LINE: (line,)}))).status == 200
    assert line.admissions == 1


@loop_over(
    "query, status",
    [
        (b"a=%00", 400), (b"a=b&c=%00", 400), (b"a=%ff", 400), (b"%ff=a", 400), (b"\xff=a", 400),
        (b"&".join([b"a"] * 1001), 400), (b"&".join([b"a"] * 1000), 200), (b"a=%C3%A4", 200), (b"&&&", 200),
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_read_is_the_senders_fault(query: bytes, status: int) -> None:
    peer = asyncio.run(ask(make_view(), make_scope(query=query)))
    assert peer.status == status and (status == 200 or peer.code == "bad_query")


async def test_a_query_that_cannot_be_read_writes_nothing_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    await ask(make_view(), make_scope(query=b"a&" * 2000))
    assert not caplog.records


async def test_parts_of_the_path_are_decoded_once_and_must_be_text() -> None:
    assert json.loads((await ask(make_view(), run="a%252Fb%20c")).body) == {"parts": {"run": "a%2Fb c"}}
    for part in ("%ff", "a%00b"):
        peer = await ask(make_view(), run=part)
        assert (peer.status, peer.code) == (404, "not_found")


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Problem(409, "gone", "Gone."), 409, "gone"),
        (RequestRefused("No.", code="stale_rev", status=412), 412, "stale_rev"),
        (BadFrame("Too large.", "too_large"), 413, "too_large"),
        (ValueError("a secret"), 500, "internal"),
    ],
)
async def test_every_error_of_a_view_is_an_answer(error: Exception, status: int, code: str) -> None:
    peer = await ask(make_view(error=error))
    assert (peer.status, peer.code) == (status, code) and b"secret" not in peer.body


async def test_a_fault_is_logged_with_the_request_and_a_refusal_is_not(caplog: pytest.LogCaptureFixture) -> None:
    await ask(make_view(error=RequestRefused("No.")))
    assert not caplog.records
    await ask(make_view(error=ValueError("a fault")))
    assert [record.getMessage() for record in caplog.records] == ["GET /x failed"] and "a fault" in caplog.text


async def test_a_view_may_say_itself_what_an_outage_is() -> None:
    view = make_view(error=OperationalError("unable to open database file"))
    assert (await ask(view)).status == 503
    view.unavailable = lambda request, outage: HttpResponse(outage.code.encode(), status=200)
    peer = await ask(view)
    assert (peer.status, peer.body) == (200, b"unavailable")


# ---------------------------------------------------------------- bodies and answers


async def test_only_a_view_that_reads_gets_the_body() -> None:
    async def measure(request: Any) -> int:
        return len(request.body)

    assert (await ask(make_view(measure, "POST"), body=b"12345")).body == b"5"
    assert (await ask(make_view(measure), body=b"12345")).body == b"0"


async def test_a_body_that_is_too_large_may_be_answered_by_its_view(limits: Any) -> None:
    limits(max_body=1024)
    view = make_view(method="POST")
    peer = await ask(view, body=b"x" * 1025)
    assert (peer.status, peer.code) == (413, "too_large")

    async def answer(request: Any, problem: Problem) -> HttpResponse:
        return HttpResponse(request.body[:5], status=problem.status)

    view.too_large = answer
    peer, length = Peer(b"begin" + b"x" * 1020), (b"content-length", b"1025")
    peer.leave()  # once its body is sent
    await DirectView(view)(make_scope("POST", headers=(HOST, length)), peer.receive, peer.send, {})
    assert (peer.status, peer.body) == (413, b"begin")


async def test_a_stream_whose_client_is_gone_is_closed() -> None:
    closures: list[bool] = []

    async def produce() -> AsyncIterator[bytes]:
        yield b"one"

    async def stream(request: Any) -> StreamingHttpResponse:
        response = StreamingHttpResponse(produce())
        response._resource_closers.append(lambda: closures.append(True))
        return response

    async def send(message: dict[str, Any]) -> None:
        raise OSError("the client is gone")

    view = make_view(stream)
    peer = await ask(view)
    assert peer.body == b"one" and closures == [True]
    await DirectView(view)(make_scope(), Peer().receive, send, {})
    assert closures == [True, True]


async def test_a_disconnect_ends_a_view_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_views, "WATCH_DELAY", 0.0)
    began, peer = asyncio.Event(), Peer()
    ends: list[str] = []

    async def wait(request: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("canceled")
            raise

    async with asyncio.timeout(PATIENCE):
        work = asyncio.create_task(DirectView(make_view(wait))(make_scope(), peer.receive, peer.send, {}))
        await began.wait()
        peer.leave()
        await work
    assert ends == ["canceled"] and not peer.answers


async def test_a_cancellation_by_the_server_reaches_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_views, "WATCH_DELAY", 0.0)
    began = asyncio.Event()

    async def wait(request: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    peer = Peer()
    work = asyncio.create_task(DirectView(make_view(wait))(make_scope(), peer.receive, peer.send, {}))
    await began.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


# ---------------------------------------------------------------- what a view reads of a request


def test_a_header_that_is_sent_twice_is_joined_as_django_joins_it() -> None:
    headers = MachineHeaders(
        {"headers": [(b"a", b"1"), (b"cookie", b"x=1"), (b"a", b"\xe4"), (b"cookie", b"y=2"), (b"empty", b"")]}
    )
    assert headers.get("A") == "1,\xe4" and headers.get("Cookie") == "x=1; y=2"
    assert headers.get("empty", "other") == "" and headers.get("missing", "other") == "other"
    assert dict(headers.items()) == {"a": "1,\xe4", "cookie": "x=1; y=2", "empty": ""}


def test_a_request_knows_its_peer_query_and_cookies() -> None:
    request = MachineRequest(
        make_scope(query=b"a=1&a=2&b=", headers=((b"cookie", b"s=1; t=2"),), client=("10.0.0.1", 7))
    )
    assert request.GET.getlist("a") == ["1", "2"] and request.GET["b"] == ""
    assert request.COOKIES == {"s": "1", "t": "2"} and request.META == {"REMOTE_ADDR": "10.0.0.1", "REMOTE_PORT": 7}
    local = MachineRequest(make_scope(client=None))
    assert local.META["REMOTE_ADDR"] == "" and not local.GET and not local.COOKIES
