"""Readiness and the banner: ready means that work gets done, and what fails is named to probes and to people."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import re
import resource
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.test import Client

from dashboard.live.base_board import BoardNews
from dashboard.live.boards import StatusBoard
from tests.support.server import KEY, PASSWORD, PATIENCE, Server, until
from toolcards import outages
from toolcards.audit import anchor
from toolcards.audit.trail import Act, write_acts
from toolcards.gate.writer import group_commit
from toolcards.outages import ANCHORING, BELL, READING, SENDING, WRITING
from toolcards.transports.background import readiness

pytestmark = pytest.mark.django_db(transaction=True)
FULL = OSError(errno.ENOSPC, "No space left on /srv/secret-path")


async def reasons(call: Any) -> dict[str, Any]:
    """Return by check why the server is not ready, {} if it is."""
    status, body, _ = await call("GET", "/readyz", key=None)
    if status == 200:
        return {}
    assert (status, body["error"]["code"]) == (503, "not_ready")
    return {reason["check"]: reason for reason in body["error"]["detail"]["reasons"]}


@pytest.fixture
async def stuck_writer() -> AsyncIterator[None]:
    """Keep every writer of this process waiting."""
    hold_event, release = threading.Event(), threading.Event()

    def hold() -> None:
        with group_commit._commit_lock:
            hold_event.set()
            release.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    await asyncio.to_thread(hold_event.wait)
    yield
    release.set()
    await asyncio.to_thread(thread.join)
    assert await asyncio.to_thread(group_commit.WRITER.drain, PATIENCE)


@pytest.mark.parametrize("part", [READING, WRITING, SENDING, BELL])
async def test_a_part_that_fails_makes_the_server_not_ready_at_once(
    part: str, call: Any, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_is_in_doubt", lambda part: False)  # no probe that could end it
    check = {READING: "database", BELL: "channel_layer"}.get(part, part)
    assert await reasons(call) == {}
    outages.report_failure(part, FULL if part != READING else ConnectionResetError(errno.ECONNRESET, "reset"))
    reason = (await reasons(call))[check]
    assert reason["reason"] == ("unreachable" if part == READING else "disk_full")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", reason["since"]) and reason["seconds"] >= 0
    assert "secret" not in str(reason)
    outages.report_success(part)
    assert await reasons(call) == {}


async def test_without_traffic_a_real_write_ends_an_outage(call: Any, key: Any) -> None:
    outages.report_failure(WRITING, FULL)
    assert await reasons(call) == {} and outages.get_idle_seconds(WRITING) < PATIENCE


async def test_a_writer_that_is_stuck_is_probed_once_however_many_ask(
    stuck_writer: None, call: Any, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "PROBE_SECONDS", 0.2)
    for answers in [await asyncio.gather(*(reasons(call) for _ in range(10))) for _ in range(3)]:
        assert all(answer["writing"]["reason"] == "no_answer" for answer in answers)
    assert len(group_commit.WRITER._queue) + group_commit.WRITER._busy == 1


async def test_a_writer_whose_work_waits_for_a_minute_is_not_ready(
    call: Any, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_is_in_doubt", lambda part: False)
    monkeypatch.setattr(group_commit.WRITER, "_waits_since", time.monotonic() - readiness.STUCK - 1)
    assert (await reasons(call))["writing"]["reason"] == "stuck"


async def test_an_outbox_without_a_worker_is_not_ready(call: Any, key: Any) -> None:
    outages.report_success(SENDING)
    outages._last_success[SENDING] -= readiness.STUCK + 1
    assert (await reasons(call))["sending"]["reason"] == "stuck"


# ---------------------------------------------------------------- the banner


def test_every_page_says_what_does_not_work(client: Client, a_person: Any) -> None:
    client.force_login(a_person("viewer", "vera"))
    outages.report_failure(WRITING, FULL)
    for page in ("/", "/runs/", "/policy/"):
        html = client.get(page).content.decode()
        assert 'data-outage="writing"' in html and "Nothing can be saved: the disk is full." in html
        assert "secret-path" not in html
    outages.report_success(WRITING)
    assert "data-outage" not in client.get("/").content.decode()


def test_open_pages_show_an_outage_and_its_end() -> None:
    board = StatusBoard()
    board.render_all()
    for happen, is_shown in (
        (lambda: outages.report_failure(WRITING, FULL), True),
        (lambda: outages.report_success(WRITING), False),
    ):
        happen()
        board._checked_at = 0.0
        assert ('data-outage="writing"' in board.render_changes(BoardNews()).parts["banner"]) is is_shown


# ---------------------------------------------------------------- the anchor's file


def test_the_anchor_follows_by_itself_once_there_is_room_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_acts(Act("one"))
    anchor.write()
    before, replace = anchor.get_path().read_text(), anchor._replace
    monkeypatch.setattr(anchor, "RETRY_SECONDS", 0.02)

    def full(created: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(anchor, "_replace", full)
    write_acts(Act("two"))
    anchor._write_until_it_works()
    outage = outages.get_outage(ANCHORING)
    assert outage is not None and outage.cause.code == "disk_full"
    until(lambda: outage.tries > 2)
    assert anchor.get_path().read_text() == before and caplog.text.count("No space left") == 1
    monkeypatch.setattr(anchor, "_replace", replace)
    until(lambda: outages.get_outage(ANCHORING) is None)
    current = anchor.read()
    assert current is not None and current.seq == 2


# ---------------------------------------------------------------- a real server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("ready"), database_url="", redis_url="", max_unauthenticated=1000) as running:
        yield running


def sign_in(server: Server) -> str:
    """Return the cookie of a signed-in admin."""
    connection = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=PATIENCE)
    connection.request("GET", "/login/")
    page = connection.getresponse()
    csrf = _cookies(page)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.read().decode())
    assert token is not None
    form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
    headers = {"Cookie": csrf, "Content-Type": "application/x-www-form-urlencoded", "Referer": f"{server.base}/login/"}
    connection.request("POST", "/login/", urlencode(form), headers)
    answer = connection.getresponse()
    assert answer.status == 302
    connection.close()
    return _cookies(answer)


def _cookies(answer: http.client.HTTPResponse) -> str:
    return "; ".join(value.partition(";")[0] for value in answer.headers.get_all("Set-Cookie") or ())


@pytest.mark.slow
def test_behind_a_lock_nothing_is_allowed_pages_read_and_all_is_well_soon_after(server: Server) -> None:
    cookie = sign_in(server)
    database = Path(server.data) / "toolcards.sqlite3"
    with contextlib.closing(sqlite3.connect(database, timeout=PATIENCE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        question = {"run": "r", "call_id": "c", "tool": "bash", "args": {"command": "ls"}}
        status, decision, headers = server.request("POST", "/api/v1/calls/decide", question)
        assert (status, decision["error"]["code"]) == (503, "unavailable") and headers["retry-after"]
        status, decision, _ = server.request("GET", "/readyz", key=None)
        assert status == 503 and decision["error"]["detail"]["writing"] is False
        assert {one["check"]: one["reason"] for one in decision["error"]["detail"]["reasons"]}["writing"] == "locked"
        status, page, _ = server.request("GET", "/runs/", key=None, Cookie=cookie)
        assert status == 200 and 'data-outage="writing"' in page and "another program holds a lock" in page
        other.execute("ROLLBACK")
    end = time.monotonic()
    until(lambda: server.request("GET", "/readyz", key=None)[0] == 200)
    assert server.request("POST", "/api/v1/calls/decide", question)[0] == 200
    assert time.monotonic() - end < PATIENCE / 2
    assert "data-outage" not in server.request("GET", "/runs/", key=None, Cookie=cookie)[1]


@pytest.mark.slow
def test_pages_leave_no_connection_to_the_database_open(server: Server) -> None:
    assert server.process is not None
    cookie = sign_in(server)
    for _ in range(40):
        assert server.request("GET", "/runs/", key=None, Cookie=cookie)[0] == 200
    pid = server.process.pid
    until(lambda: sum(file.endswith("sqlite3-wal") for file in files_of(pid)) < 20)


def files_of(pid: int) -> Iterator[str]:
    """Name what the process has open now."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield str(entry.readlink())


@pytest.mark.slow
def test_connections_beyond_the_descriptors_are_refused_and_pages_still_open(server: Server) -> None:
    assert server.process is not None
    pid, cookie = server.process.pid, sign_in(server)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
    limit = 2 * highest + 40
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    address = (urlsplit(server.base).hostname, urlsplit(server.base).port)
    with contextlib.ExitStack() as stack:
        try:
            kept_connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
            stack.callback(kept_connection.close)
            answers = []
            request = f"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
            while not answers or not answers[-1].startswith(b"HTTP/1.1 503"):
                one = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
                one.sendall(request)
                answers.append(one.recv(4096))
                if len(answers) == 1:
                    kept_connection.request("GET", "/runs/", headers={"Cookie": cookie})
                    kept_connection.getresponse().read()
                assert len(answers) < limit
            assert b'"unavailable"' in answers[-1] and b"retry-after" in answers[-1]
            kept_connection.request("GET", "/runs/", headers={"Cookie": cookie})
            page = kept_connection.getresponse()
            assert page.status == 200 and b'data-outage="connecting"' in page.read()
            for _ in range(50):  # more than are reserved: each is closed after its answer
                status, metrics, headers = server.request("GET", "/metrics", key=None)
                assert status == 200 and headers["connection"] == "close"
                assert f'toolcards_outage{{part="connecting",process="{pid}"}} 1.0' in metrics
            status, readiness, _ = server.request("GET", "/readyz?x=1", key=None)
            (reason,) = readiness["error"]["detail"]["reasons"]
            assert (status, reason["check"], reason["reason"]) == (503, "connections", "no_descriptors")
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    until(lambda: server.request("GET", "/readyz", key=None)[0] == 200)
