"""Frames of unknown kinds are counted with their run, once, and hold nothing up."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.gate import timekeeping
from toolcards.gate.refusals import NotFound
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.command import Command
from toolcards.models import Run
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)
INGEST = "/api/v1/ingest?protocol=native&run=r"
START = {"type": "tool.input.started", "call_id": "c", "tool": "bash"}
NOTHING = {"frames": 0, "kinds": {}, "other": 0}


async def read_skipped(call: Any) -> Any:
    return (await call("GET", "/api/v1/runs/r"))[1]["skipped"]


async def test_a_run_says_how_many_frames_of_which_kinds_were_skipped(call: Any) -> None:
    await call("POST", INGEST, [START])
    assert await read_skipped(call) == NOTHING
    body = [{"type": "foo"}, START, {"type": "bar"}, {"type": "foo", "x": 1}]
    _, answer, _ = await call("POST", INGEST, body)
    assert (answer["accepted"], answer["skipped"], answer["refused"]) == (1, 3, 0)
    assert await read_skipped(call) == {"frames": 3, "kinds": {"foo": 2, "bar": 1}, "other": 0}
    assert (await call("GET", "/api/v1/runs"))[1]["runs"][0]["skipped"]["frames"] == 3


async def test_a_body_of_unknown_frames_alone_makes_a_run_that_says_so(call: Any) -> None:
    status, body, _ = await call("POST", INGEST, [{"type": "foo"}])
    assert (status, body["skipped"], body["calls"]) == (200, 1, [])
    assert await read_skipped(call) == {"frames": 1, "kinds": {"foo": 1}, "other": 0}


async def test_a_socket_counts_them_and_acks_them(agent: Any, call: Any) -> None:
    async with agent(run="r") as socket:
        await socket.say({"type": "foo"}, {"type": "foo"})
        await socket.acked(2)
        assert await read_skipped(call) == {"frames": 2, "kinds": {"foo": 2}, "other": 0}


async def test_a_frame_that_is_sent_again_is_counted_once(call: Any) -> None:
    body = [{"n": 1, "type": "foo"}, {"n": 2, "type": "tool.input.started", "call_id": "c", "tool": "bash"}]
    for _ in range(2):
        await call("POST", INGEST, body)
    for _ in range(2):
        await call("POST", INGEST, [{"type": "bar"}], idempotency_key="k")
    assert await read_skipped(call) == {"frames": 2, "kinds": {"foo": 1, "bar": 1}, "other": 0}


async def test_many_kinds_and_long_ones_are_bounded(call: Any) -> None:
    body = [{"type": f"kind-{n}-{'x' * 100_000}"} for n in range(3)] + [{"type": f"{n}"} for n in range(60)]
    await call("POST", INGEST, body)
    result = await read_skipped(call)
    assert (result["frames"], len(result["kinds"]), result["other"]) == (63, 50, 13)
    assert max(map(len, result["kinds"])) == 80


async def test_a_kind_may_be_any_text(call: Any) -> None:
    body = '[{"type":"a\\u0000b"},{"type":"\\ud83d"},{"type":"<script>"},{"type":""},{"type":"frames"}]'
    status, answer, _ = await call("POST", INGEST, body)
    assert (status, answer["skipped"]) == (200, 5)
    assert set((await read_skipped(call))["kinds"]) == {"a\ufffdb", "\ufffd", "<script>", "(empty)", "frames"}


async def test_a_secret_in_a_kind_is_masked(call: Any) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    await call("POST", INGEST, [{"type": f"foo {token}"}, {"type": f"foo {token}"}])
    result = await read_skipped(call)
    assert result["frames"] == 2 and token not in json.dumps(result)


async def test_what_another_process_counted_is_not_lost(call: Any) -> None:
    await call("POST", INGEST, [START, {"type": "foo"}])
    with allow_log_writes():
        await Run.objects.aupdate(
            skipped=5, skipped_kinds='{"foo":4,"bar":1}'
        )  # as another process writes it: no new fact
    await call("POST", INGEST, [{"type": "foo"}])
    assert await read_skipped(call) == {"frames": 6, "kinds": {"foo": 5, "bar": 1}, "other": 0}


class Refuser(Command):
    """Work that is refused at the end of its batch, after all others were written."""

    def apply(self, tx: Any) -> None:
        def refuse() -> None:
            raise NotFound("There is no such thing.")

        tx.after_write.append(refuse)


class Inline(gate.Stream):
    """A stream that only this test commits: the writer's thread would take its frames at the same time."""

    def _enqueue(self) -> None:
        """Wait for `group_commit.commit`."""


async def test_frames_of_a_batch_that_is_tried_again_are_counted_once(source: Any, call: Any) -> None:
    run_cache.clear()
    stream = Inline(source, "r", protocol="native", mode="observe", channel="http")
    stream.push([f.TextDelta(text="x")])
    stream.push(SkippedFrame("foo"))
    await asyncio.to_thread(group_commit.commit, [stream, Refuser()])
    stream.push(SkippedFrame("foo"))
    await asyncio.to_thread(group_commit.commit, [stream])
    await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)
    run = await Run.objects.aget()
    assert (run.skipped, run.skipped_kinds) == (2, '{"foo":2}')


NOTHING_WRITTEN = ["BEGIN", "SELECT", "COMMIT"]


async def test_counting_costs_no_query(source: Any) -> None:
    stream = gate.open_stream(source, "r", protocol="native")

    def queries(*frames: Any) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            timekeeping.advance_pulse()  # else a commit after five quiet seconds does, on a busy machine
            for frame in frames:
                stream.push(frame)
            with CaptureQueriesContext(connection) as captured:
                group_commit.commit([stream])
            statements = [query["sql"].split()[0] for query in captured.captured_queries]
            if statements != NOTHING_WRITTEN:
                return statements
        raise AssertionError("the writer's own thread was faster each time")

    await asyncio.to_thread(queries, [f.TextDelta(text="x")])
    plain = await asyncio.to_thread(queries, [f.TextDelta(text="x")])
    query_count = await asyncio.to_thread(queries, SkippedFrame("foo"), [f.TextDelta(text="x")])
    assert plain and query_count == plain
