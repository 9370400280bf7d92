"""The event stream: the story of a run, the same for who stayed and for who came back."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from channels.db import database_sync_to_async as in_thread
from django.utils import timezone

from tests.support.event_replays import CLONE, SECRET, replay_events
from tests.support.gate_commands import RecordFacts
from tests.support.server import PATIENCE
from toolcards import feed
from toolcards.core.calls import facts as f
from toolcards.gate.maintenance import retention
from toolcards.gate.maintenance.pace import Pace
from toolcards.gate.writer import group_commit
from toolcards.models import Run
from toolcards.transports.api import sse

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
