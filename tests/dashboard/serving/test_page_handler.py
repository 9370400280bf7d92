"""Pages run in one hop, on a thread that stays."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from asgiref.testing import ApplicationCommunicator
from django.db import connection, connections
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path

from dashboard.accounts.access import allow_anyone
from dashboard.serving import page_handler
from dashboard.serving.page_handler import PageHandler
from tests.support.server import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)
threads: list[int] = []
request_connections: list[Any] = []  # the connections of requests, as Django's objects
raw: list[Any] = []  # the same, as the driver's
entered = threading.Event()
release = threading.Event()


@allow_anyone
def blocking(request: Any) -> HttpResponse:
    threads.append(threading.get_ident())
    return HttpResponse(f"{request.user.is_authenticated}")


@allow_anyone
async def on_the_loop(request: Any) -> HttpResponse:
    await asyncio.sleep(0)
    threads.append(threading.get_ident())
    return HttpResponse("async")


@allow_anyone
def slow(request: Any) -> HttpResponse:
    entered.set()
    release.wait(PATIENCE)
    return HttpResponse("slow")


@allow_anyone
def broken(request: Any) -> HttpResponse:
    raise RuntimeError("broken")


@allow_anyone
def streaming(request: Any) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter(["a", "b"]))


@allow_anyone
def reading(request: Any) -> HttpResponse:
    connection.ensure_connection()
    request_connections.append(connections[connection.alias])
    raw.append(connection.connection)
    return HttpResponse("read")


urlpatterns = [
    path("blocking/", blocking), path("async/", on_the_loop), path("slow/", slow), path("broken/", broken),
    path("streaming/", streaming), path("reading/", reading),
]  # fmt: skip


@pytest.fixture(autouse=True)
def urls(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    threads.clear()
    request_connections.clear()
    raw.clear()
    entered.clear()
    release.clear()


async def get(handler: PageHandler, page: str) -> tuple[int, dict[bytes, bytes], bytes]:
    communicator = await start(handler, page)
    head = await communicator.receive_output(PATIENCE)
    body = b""
    while True:
        message = await communicator.receive_output(PATIENCE)
        body += message.get("body", b"")
        if not message.get("more_body"):
            await communicator.wait(PATIENCE)
            return head["status"], dict(head["headers"]), body


async def start(handler: PageHandler, page: str) -> ApplicationCommunicator:
    scope = {
        "type": "http", "method": "GET", "path": page, "query_string": b"", "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 80), "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    communicator = ApplicationCommunicator(handler, scope)
    await communicator.send_input({"type": "http.request", "body": b""})
    return communicator


async def test_requests_one_after_another_share_a_thread_of_their_own() -> None:
    handler = PageHandler()
    for _ in range(3):
        assert (await get(handler, "/blocking/"))[::2] == (200, b"False")
    assert len(set(threads)) == 1 and threading.get_ident() not in threads


async def test_requests_on_one_thread_share_its_connection_to_sqlite() -> None:
    handler = PageHandler()
    for _ in range(3):
        assert (await get(handler, "/reading/"))[2] == b"read"
    if connection.vendor == "sqlite":
        assert raw[0] is raw[1] is raw[2]
    else:  # it goes back to those that all threads share
        assert request_connections[0].connection is None


async def test_a_thread_that_ends_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_handler, "KEPT_THREADS", 0)
    assert (await get(PageHandler(), "/reading/"))[0] == 200
    for _ in range(1_000):
        if request_connections[0].connection is None:
            break
        await asyncio.sleep(0.01)
    assert request_connections[0].connection is None


async def test_the_middleware_and_the_view_of_a_request_take_one_hop(monkeypatch: pytest.MonkeyPatch) -> None:
    hops: list[str] = []
    call = SyncToAsync.__call__

    async def count(self: Any, *args: Any, **kwargs: Any) -> Any:
        hops.append(getattr(self.func, "__qualname__", repr(self.func)))
        return await call(self, *args, **kwargs)

    handler = PageHandler()
    await get(handler, "/blocking/")
    monkeypatch.setattr(SyncToAsync, "__call__", count)
    await get(handler, "/blocking/")
    # The request, the signals around it, and the middleware outside of the static files; with Django's handler 20.
    assert len(hops) <= 6, hops


async def test_requests_at_the_same_time_have_threads_of_their_own() -> None:
    handler = PageHandler()
    waiting = await start(handler, "/slow/")
    await asyncio.to_thread(entered.wait, PATIENCE)
    assert (await get(handler, "/blocking/"))[0] == 200
    release.set()
    assert (await waiting.receive_output(PATIENCE))["status"] == 200
    await waiting.receive_output(PATIENCE)
    await waiting.wait(PATIENCE)


async def test_async_views_streams_and_failures_answer_as_with_django(settings: Any) -> None:
    handler = PageHandler()
    assert (await get(handler, "/async/"))[::2] == (200, b"async") and threads == [threading.get_ident()]
    assert (await get(handler, "/streaming/"))[::2] == (200, b"ab")
    settings.DEBUG_PROPAGATE_EXCEPTIONS = False
    status, headers, _ = await get(handler, "/broken/")
    assert status == 500 and headers[b"Cross-Origin-Resource-Policy"] == b"same-origin"
    assert (await get(handler, "/missing/"))[0] == 404


async def test_a_thread_is_not_used_again_while_the_view_of_a_client_that_left_runs_on() -> None:
    handler = PageHandler()
    left_request = await start(handler, "/slow/")
    await asyncio.to_thread(entered.wait, PATIENCE)
    await left_request.send_input({"type": "http.disconnect"})
    await asyncio.sleep(0.1)
    assert (await asyncio.wait_for(get(handler, "/blocking/"), PATIENCE / 2))[0] == 200
    release.set()
    await left_request.wait(PATIENCE)
