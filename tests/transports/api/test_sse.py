"""The event stream: the story of a run, the same for who stayed and for who came back."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async as in_thread
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.ag_ui_agent import build_interrupts, build_run_start, call
from tests.support.event_replays import CLONE, SECRET, replay_events
from tests.support.gate_commands import RecordFacts
from tests.support.raw_connection import Wire
from tests.support.server import PATIENCE, Server, until
from toolcards import feed
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import retention
from toolcards.gate.maintenance.pace import Pace
from toolcards.gate.writer import group_commit
from toolcards.models import AgentKey, Run
from toolcards.transports.api import sse
from toolcards.transports.api.auth import Caller
from toolcards.transports.api.sse import end_expired_rights, iterate_while_allowed, open_rights

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_id_is_sent_only_after_all_events_of_its_position(a_call: Any) -> None:
    a_call("output-denied", run="r")
    frames = "".join(sse._format_frames(replay_events()))
    decision, completed = frames.strip().split("\n\n")[-2:]
    assert "\nid:" not in decision
    assert f"\nid: {replay_events()[-1].seq}\n" in completed


async def test_the_list_has_pages_that_lose_nothing(call: Any, a_call: Any) -> None:
    from channels.db import database_sync_to_async as in_thread

    await in_thread(a_call)("output-denied", run="r")
    whole = (await call("GET", "/api/v1/runs/r/events?limit=200"))[1]["events"]
    runs, cursor = [], ""
    while cursor is not None:
        _, page, _ = await call("GET", f"/api/v1/runs/r/events?limit=1&cursor={cursor}")
        assert len(page["events"]) <= 1
        runs += page["events"]
        cursor = page["next"]
    assert runs == whole


class Reader:
    def __init__(self, server: Any, run: str, **headers: str) -> None:
        self.wire = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=PATIENCE)
        all_headers = {"Authorization": f"Bearer {server.key}", "Accept": "text/event-stream"} | headers
        self.wire.request("GET", f"/api/v1/runs/{run}/events", headers=all_headers)
        self.answer = self.wire.getresponse()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        event: dict[str, Any] = {}
        while True:
            name, _, value = self.answer.readline().decode().rstrip("\n").partition(": ")
            if name:
                event[name] = value
            elif "data" in event:
                yield {"event": event["event"], "id": event.get("id"), **json.loads(event["data"])}
                event = {}

    def until(self, name: str) -> list[dict[str, Any]]:
        events = []
        for event in self:
            events.append(event)
            if event["event"] == name:
                self.wire.close()
                return events
        raise AssertionError("the stream ended")


def test_a_resumed_stream_misses_nothing_and_repeats_nothing(server: Any) -> None:
    frames = [
        {"type": "run.started"},
        {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {}},
        {"type": "tool.output.available", "call_id": "c", "output": 1},
        {"type": "run.finished", "outcome": "success"},
    ]
    assert server.request("POST", "/api/v1/ingest?protocol=native&run=resumed", frames)[0] == 200
    reader = Reader(server, "resumed")
    assert reader.answer.headers["Content-Type"].startswith("text/event-stream")
    whole = reader.until("run_finished")
    assert [event["event"] for event in whole if event["event"] != "hook"] == [
        "run_started", "tool_call_started", "tool_call_completed", "run_finished"
    ]  # fmt: skip
    last = max(place for place, event in enumerate(whole[:-1]) if event["id"] and event["seq"] < whole[-2]["seq"])
    rest = Reader(server, "resumed", **{"Last-Event-ID": whole[last]["id"]}).until("run_finished")
    assert rest == whole[last + 1 :]


def test_a_stream_is_live_and_stays_open_after_the_end(server: Any) -> None:
    with server.socket(protocol="native", run="live", mode="observe") as agent:
        agent.send('{"type":"run.started"}')
        agent.recv()
        events = (event for event in Reader(server, "live") if event["event"] != "hook")
        assert next(events)["event"] == "run_started"
        agent.send('{"type":"tool.input.available","call_id":"c","tool":"bash","input":{}}')
        assert next(events)["event"] == "tool_call_started"
        agent.send('{"type":"tool.output.available","call_id":"c","output":1}')
        assert next(events)["event"] == "tool_call_completed"
        agent.send('{"type":"run.finished","outcome":"success"}')
        assert next(events)["event"] == "run_finished"
        agent.send('{"type":"run.started","title":"once more"}')
        assert next(events)["event"] == "run_started"


def test_a_stream_after_an_id_of_another_log_begins_at_the_beginning(server: Any) -> None:
    """The log of a restored backup is shorter than what a reader has seen; a deleted run can come again."""
    frames = [{"type": "run.started"}, {"type": "run.finished", "outcome": "success"}]
    server.request("POST", "/api/v1/ingest?protocol=native&run=restored", frames)
    whole = Reader(server, "restored").until("run_finished")
    assert Reader(server, "restored", **{"Last-Event-ID": str(whole[-1]["seq"] + 1)}).until("run_finished") == whole


async def test_a_stream_ends_once_its_run_is_deleted(a_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE", 0.0)
    run = await in_thread(a_run)("r", f.RunEnded())
    pieces: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for piece in sse.stream_frames(run, 0):
            pieces.append(piece)
            if b"run_finished" in piece:
                await in_thread(retention._delete_run)(run.pk, timezone.now() + timedelta(days=1), Pace())
    assert b"run_finished" in b"".join(pieces) and not await Run.objects.aexists()


@pytest.mark.slow
async def test_a_reader_who_comes_back_while_facts_arrive_gets_each_event_once_and_in_order(
    a_run: Any, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reader has the position that it asked for, and commits come before, between and after its reads."""
    chance = random.Random(20)
    monkeypatch.setattr(feed, "FIRST", 3)
    monkeypatch.setattr(feed, "PAGE", 5)
    run = await in_thread(a_run)("r", *[f.TextDelta(text=f"[{number}]") for number in range(10)])
    last = 60

    async def read(after: int) -> list[int]:
        positions: list[int] = []
        stored_run = await Run.objects.aget(pk=run.pk)
        async for piece in sse.stream_frames(stored_run, after):
            positions += [int(line[4:]) for line in piece.decode().split("\n") if line.startswith("id: ")]
            if positions and positions[-1] >= last:
                break
        return positions

    afters = [chance.randint(0, 10) for _ in range(8)]
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        readers = [group.create_task(read(after)) for after in afters]
        count = 10
        while count < last:
            facts = [f.TextDelta(text="x") for _ in range(min(last - count, chance.randint(1, 9)))]
            count += len(facts)
            await in_thread(group_commit.execute)(RecordFacts(source, "r", facts))
            afters.append(chance.randint(0, count))
            readers.append(group.create_task(read(afters[-1])))
    for after, reader in zip(afters, readers, strict=True):
        assert reader.result() == list(range(after + 1, last + 1)) or after == last


@pytest.mark.parametrize("event_id", ["x", "-1", "1.5", "9" * 30])
def test_an_invalid_id_is_refused(server: Any, event_id: str) -> None:
    server.request("POST", "/api/v1/ingest?protocol=native&run=invalid-id", {"type": "run.started"})
    assert Reader(server, "invalid-id", **{"Last-Event-ID": event_id}).answer.status == 400


async def test_a_reader_who_comes_back_or_turns_pages_gets_the_same_texts(a_run: Any) -> None:
    from asgiref.sync import sync_to_async

    pieces = [CLONE[at : at + 5] for at in range(0, len(CLONE), 5)]
    run = await sync_to_async(a_run)("r", *(f.TextDelta(text=piece) for piece in pieces), f.RunEnded())
    stayed = [one.data["text"] for one in await sync_to_async(replay_events)() if one.name == "text"]
    page_texts: list[str] = []
    cursor: tuple[float, ...] | None = None
    while True:
        page = await sse.read_page(run, cursor, 2)
        page_texts += [event["text"] for event in page["events"] if event["event"] == "text"]
        if not page["next"]:
            break
        cursor = tuple(map(float, page["next"].split(".")))
    assert page_texts == stayed and SECRET not in "".join(stayed)


@pytest.mark.parametrize("seed", range(8))
async def test_pages_show_what_was_stored_before_the_first_one_once_and_in_order(
    seed: int, a_run: Any, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(feed, "MAX_BATCH", chance.choice([1, 3_000, 20_000]))
    monkeypatch.setattr(sse, "BATCH", chance.choice([feed.FIRST, 30, 500]))
    numbers: list[int] = []

    def write() -> list[Any]:
        """Return new facts; the model knows which ones are stored."""
        numbers.extend(range(len(numbers), len(numbers) + chance.randrange(40)))
        return [f.TextDelta(text=f"[{number}]" + " x" * chance.choice([0, 0, 10, 2_000])) for number in numbers[count:]]

    count, facts = 0, [f.TextDelta(text="[start]"), *[f.TextDelta(text=f"[{-number}]") for number in range(1, 60)]]
    run = await in_thread(a_run)("r", *facts)
    texts: list[str] = []
    cursor: tuple[float, ...] | None = None
    for page_number in range(1_000):
        page = await sse.read_page(run, cursor, chance.randint(1, 50))
        texts += [event["text"].partition("]")[0][1:] for event in page["events"] if event["event"] == "text"]
        if page["next"] is None:
            break
        cursor = tuple(int(part) for part in page["next"].split("."))
        if page_number < 20 and chance.random() < 0.7:
            new_facts = write()
            await in_thread(group_commit.execute)(RecordFacts(source, "r", new_facts))
            count = len(numbers)
    expected = ["start", *[str(-number) for number in range(1, 60)], *map(str, numbers)]
    assert texts == expected


def parse(cursor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in cursor.split("."))


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_a_next_page_continues_where_the_last_one_ended_and_is_as_one_read_from_the_first_event(
    limit: int, a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [f.TextDelta(text="no secret "), f.InputReady("c", "bash", {"command": "ls"}, True)]
    facts += [f.TextDelta(text=f"[{number}]") for number in range(20)]
    facts += [f.OutputReady("c", {"ok": True}), f.TextDelta(text="after"), f.RunEnded()]
    run = await in_thread(a_run)("r", *facts)
    whole = (await sse.read_page(run, None, 1_000))["events"]
    positions: list[int] = []
    read_events = feed.read_events

    async def note_position(run: int, after: int, most: int) -> list[Any]:
        positions.append(after)
        return await read_events(run, after, most)

    monkeypatch.setattr(feed, "read_events", note_position)
    turned_pages, fresh_pages = [], []
    cursor: tuple[int, ...] | None = None
    while True:
        page = await sse.read_page(run, cursor, limit)
        readers = dict(sse._waiting_readers)
        sse._waiting_readers.clear()
        fresh_pages += (await sse.read_page(run, cursor, limit))["events"]  # from the first event on
        sse._waiting_readers.clear()
        sse._waiting_readers.update(readers)
        turned_pages += page["events"]
        if page["next"] is None:
            break
        cursor = parse(page["next"])
        positions.clear()
        assert len(sse._waiting_readers) == 1
    assert turned_pages == fresh_pages == whole
    assert positions[0] > 1  # the last page began late in the log


async def test_few_readers_wait_for_their_next_page_and_not_for_long(
    a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await in_thread(a_run)("r", *[f.TextDelta(text=f"[{number}]") for number in range(30)])
    for limit in range(1, sse.MAX_READERS + 5):
        await sse.read_page(run, None, limit)
    assert len(sse._waiting_readers) == sse.MAX_READERS
    monkeypatch.setattr(sse, "READER_SECONDS", -1.0)
    await sse.read_page(run, None, 1)
    assert not sse._waiting_readers
    monkeypatch.setattr(sse, "READER_SECONDS", 0.01)
    await sse.read_page(run, None, 1)
    assert sse._waiting_readers
    async with asyncio.timeout(PATIENCE):
        while sse._waiting_readers:  # also without another request
            await asyncio.sleep(0.01)


async def test_a_page_that_is_asked_for_twice_at_once_or_again_after_a_failure_is_the_same(
    a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = [f.InputReady("c", "bash", {"command": "ls"}, True)]
    run = await in_thread(a_run)("r", *facts, *[f.TextDelta(text=f"[{number}]") for number in range(40)])
    whole = (await sse.read_page(run, None, 1_000))["events"]
    first = await sse.read_page(run, None, 5)
    cursor = parse(first["next"])
    pages = await asyncio.gather(*[sse.read_page(run, cursor, 7) for _ in range(3)])
    assert [page["events"] for page in pages] == [whole[5:12]] * 3
    cursor = parse(pages[0]["next"])

    async def fail(*arguments: Any) -> Any:
        raise OSError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(feed, "read_events", fail)
        with pytest.raises(OSError, match="away"):
            await sse.read_page(run, cursor, 7)
    reading = asyncio.create_task(sse.read_page(run, cursor, 7))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    assert (await sse.read_page(run, cursor, 7))["events"] == whole[12:19]


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
        assert len(stalled.rest()) < 1 << 20  # of 6 MB: the system took no more for it
        end = [{"type": "run.finished", "outcome": "success"}]
        own_server.request("POST", "/api/v1/ingest?protocol=native&run=r", end)
        read_until(reading, b"run_finished")


# ---------------------------------------------------------------- against a model

KEYS = 3
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["open", "revoke", "expire", "renew"]), st.integers(0, KEYS - 1)),
    st.tuples(st.sampled_from(["event", "check"]), st.just(0)),
)


class ReadRightsReader:
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
    readers: list[ReadRightsReader] = []
    sent_items: dict[ReadRightsReader, list[int]] = {}
    dead: set[int] = set()
    for number, (action, index) in enumerate(actions):
        key = callers[index].key
        rows = AgentKey.objects.filter(pk=key)
        if action == "open":
            readers.append(ReadRightsReader(callers[index]))
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
