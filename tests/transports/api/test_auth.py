"""Keys at the door, while the house is busy."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import Client
from websockets.exceptions import ConnectionClosed

from tests.support.server import PATIENCE, Server
from tests.support.services import Redis, postgres
from toolcards.gate.source_usage import usage_book
from toolcards.models import AgentKey, Approval, Event, PersonalToken, Source, hash_secret
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.urls import ROUTES


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


INGEST = "/api/v1/ingest?protocol=native&run="
HOOK = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t", "cwd": "/"}


@pytest.fixture(autouse=True)
def uncounted() -> Iterator[None]:
    """Begin and end with nothing counted."""
    usage_book.clear()
    yield
    usage_book.clear()


def test_without_a_quota_nothing_is_counted(limits: Callable[..., None]) -> None:
    limits(source_quota=0)
    for _ in range(3):
        auth.charge(1, 10**12)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("small"), source_quota=1) as running:
        yield running


@pytest.mark.slow
def test_a_source_beyond_its_quota_learns_when_to_come_back_and_its_calls_are_denied(small: Server) -> None:
    text = "x" * 240_000
    frames = [
        {"type": "tool.input.available", "call_id": f"c{number}", "tool": "bash", "input": {"text": text}}
        for number in range(4)
    ]
    address = "/api/v1/ingest?protocol=native&run="
    assert small.request("POST", f"{address}first", frames)[0] == 200
    status, answer = small.request("POST", f"{address}second", frames)[:2]
    assert (status, answer["error"]["code"]) == (429, "quota_exceeded")
    assert small.request("POST", "/api/v1/calls/decide", {"run": "r", "call_id": "c", "args": {"text": text}})[0] == 429
    hook = HOOK | {"tool_input": {"command": text}}
    status, output = small.request("POST", "/api/v1/hooks/claude-code", hook)[:2]
    assert (status, output["hookSpecificOutput"]["permissionDecision"]) == (200, "deny")
    with small.socket(protocol="native", run="third", mode="observe") as agent:
        agent.send(json.dumps({"type": "run.started"}))
        assert json.loads(agent.recv())["type"]
        agent.send(json.dumps(frames[0]))
        with pytest.raises(Exception, match="4429"):
            while True:
                agent.recv()
    assert [run["run"] for run in small.get("/api/v1/runs")["runs"] if run["run"] == "second"] == []


def make_calls(count: int) -> list[dict[str, Any]]:
    """Return calls of 100 kB each."""
    text = "x" * 100_000
    return [
        {"type": "tool.input.available", "call_id": f"c{number}", "tool": "t", "input": {"text": text}}
        for number in range(count)
    ]


@pytest.mark.slow
def test_a_restart_and_a_kill_forget_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path, source_quota=1)
    for run, end in (("first", server.stop), ("second", server.kill)):
        server.start()
        assert server.request("POST", f"{INGEST}{run}", make_calls(4))[0] == 200
        end()
    with server:
        status, answer = server.request("POST", f"{INGEST}third", make_calls(4))[:2]
        assert (status, answer["error"]["code"]) == (429, "quota_exceeded")


@pytest.mark.slow
def test_of_a_body_that_is_cut_the_answer_says_how_much_is_stored(tmp_path: Path) -> None:
    with Server(tmp_path, source_quota=1) as running:
        lines = (json.dumps(frame).encode() + b"\n" for frame in make_calls(11))
        status, answer = running.request("POST", f"{INGEST}cut", lines, Content_Type="application/x-ndjson")[:2]
        assert (status, answer["error"]["code"]) == (429, "quota_exceeded")
        stored_calls = running.get("/api/v1/runs/cut/calls")["calls"]
        assert answer["error"]["detail"] == {"run": "cut", "accepted": len(stored_calls), "skipped": 0}
        assert 0 < len(stored_calls) < 11 and f"The {len(stored_calls)} frames" in answer["error"]["message"]


def test_a_source_beyond_its_quota_stores_nothing_by_new_sockets_and_what_was_taken_is_acknowledged(
    tmp_path: Path,
) -> None:
    frames = [frame | {"input": {"text": "€" * 15_000}} for frame in make_calls(30)]  # 45 kB each
    with Server(tmp_path, source_quota=1) as running:
        acked_count = 0
        for attempt in range(3):
            with running.socket(protocol="native", run=f"r{attempt}", mode="observe") as agent:
                with suppress(ConnectionClosed):
                    for frame in frames:
                        agent.send(json.dumps(frame, ensure_ascii=False))
                last_ack = 0
                with pytest.raises(ConnectionClosed, match="4429"):
                    while True:
                        message = json.loads(agent.recv(PATIENCE))
                        last_ack = message.get("frames", last_ack)
                acked_count += last_ack
        stored_count = sum(run["calls"] for run in running.get("/api/v1/runs")["runs"])
        assert stored_count == acked_count == 22


@pytest.mark.slow
def test_a_socket_counts_what_it_sent_when_it_has_ended(tmp_path: Path) -> None:
    with Server(tmp_path, source_quota=1) as running:
        for number in range(300):
            with running.socket(protocol="native", run=f"r{number % 3}", mode="observe") as agent:
                agent.send('{"type": "text.delta", "text": "x"}')
                assert json.loads(agent.recv(PATIENCE))["type"] == "ack"
        assert running.request("POST", f"{INGEST}r", make_calls(9))[0] == 200


@pytest.mark.postgres
@pytest.mark.redis
def test_two_servers_count_together(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with Redis(tmp_path) as bell, postgres(tmp_path) as database:
        shared = {"database_url": database, "redis_url": bell.url, "secret_key": "s" * 50, "source_quota": 2}
        with Server(data, **shared) as first, Server(data, **shared) as second, ThreadPoolExecutor(6) as threads:

            def send(number: int) -> int:
                server = (first, second)[number % 2]
                status: int = server.request("POST", f"{INGEST}r{number}", make_calls(1))[0]
                return status

            statuses = list(threads.map(send, range(60)))
            assert set(statuses) == {200, 429}
            accepted_count = statuses.count(200)
            assert (
                18 <= accepted_count <= 20 + 6
            )  # each request under way may be one that the other server does not know
            assert {send(number) for number in range(60, 64)} == {429}
            stored_calls = [run["calls"] for run in first.get("/api/v1/runs?limit=200")["runs"]]
            assert sum(stored_calls) == accepted_count


POSTS = [path for path, view in ROUTES.items() if view.method == "POST"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["api/v1/ingest", *POSTS])
async def test_every_route_that_stores_charges_its_source(
    path: str, call: Callable[..., Any], source: Source, limits: Callable[..., None]
) -> None:
    limits(source_quota=1, upstreams={"up": "http://127.0.0.1:9/"})
    usage_book.count(source.pk, 2_000_000)
    path = f"/{re.sub('<[a-z_]+>', 'up', path)}?protocol=native&run=r"
    status, answer, headers = await call("POST", path, HOOK)
    if path.startswith("/api/v1/hooks"):
        assert (status, answer["hookSpecificOutput"]["permissionDecision"]) == (200, "deny")
    else:
        assert (status, answer["error"]["code"]) == (429, "quota_exceeded") and int(headers["retry-after"]) > 0
    assert not await Event.objects.aexists() and not await Approval.objects.aexists()
