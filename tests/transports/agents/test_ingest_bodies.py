"""Bodies with an Idempotency-Key: however often one breaks off, its frames are in the log once and in order."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.transaction import atomic
from django.utils import timezone
from hypothesis import HealthCheck, example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from tests.support.server import PATIENCE
from toolcards import gate, hooks
from toolcards.clocks import Clock
from toolcards.core.calls import facts as f
from toolcards.gate import source_usage
from toolcards.gate.agents import ingest
from toolcards.gate.agents.idempotency import HeldKey, KeyTakenOver
from toolcards.gate.writer import group_commit, transaction
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.command import Command
from toolcards.models import AgentKey, Event, Receipt, ReceiptPart, Run, Source, SourceUsage
from toolcards.notifications import subscriptions
from toolcards.transports.agents import ingest_bodies
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)
INGEST, NDJSON = "/api/v1/ingest", "application/x-ndjson"
POLICY = {
    "default": "allow",
    "rules": [
        {"id": "no", "effect": "deny", "match": {"tool": ["wipe"]}},
        {"id": "who", "effect": "ask", "match": {"tool": ["mail"]}},
    ],
}
FRAME = {"type": "text.delta", "text": "x"}
FINISHED = {"type": "run.finished", "outcome": "success"}


class Body:
    """One POST of a body to the real application, piece by piece."""

    def __init__(self, secret: str, key: str = "", *, length: int = 0, **query: str) -> None:
        from dashboard.asgi import application

        query = {"protocol": "native", "run": "r", "agent": "bot"} | query
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {secret}", "content-type": NDJSON}
        headers |= {"content-length": str(length)} if length else {"transfer-encoding": "chunked"}
        headers |= {"idempotency-key": key} if key else {}
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "path": INGEST, "raw_path": INGEST.encode(),
            "query_string": urlencode(query).encode(), "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        self._wire: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._messages: list[dict[str, Any]] = []
        self._task = asyncio.ensure_future(application(scope, self._wire.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self._messages.append(message)

    def say(self, data: bytes, *, more: bool = True) -> None:
        self._wire.put_nowait({"type": "http.request", "body": data, "more_body": more})

    async def read(self) -> None:
        """Wait until what was said is read, which it is under the key only."""
        async with asyncio.timeout(PATIENCE):
            while not self._wire.empty() and not self._task.done():
                await asyncio.sleep(0.001)

    async def await_written(self) -> None:
        """Wait until what was said is read and written."""
        await self.read()
        assert await asyncio.to_thread(gate.drain, PATIENCE)

    @property
    def has_answer(self) -> bool:
        """Whether it is answered."""
        return bool(self._messages)

    @property
    def is_over(self) -> bool:
        """Whether it is answered, or broken off."""
        return self._task.done() or bool(self._messages)

    def hang_up(self) -> asyncio.Future[Any]:
        self._wire.put_nowait({"type": "http.disconnect"})
        return self._task

    async def answer(self) -> tuple[int, Any]:
        await asyncio.wait_for(self._task, PATIENCE)
        body = b"".join(message.get("body", b"") for message in self._messages[1:])
        self.headers = {name.decode(): value.decode() for name, value in self._messages[0]["headers"]}
        return self._messages[0]["status"], json.loads(body)


async def post(secret: str, body: bytes, key: str = "", **query: str) -> tuple[int, Any]:
    """Send a whole body; return status and JSON of the answer."""
    request = Body(secret, key, **query)
    request.say(body, more=False)
    return await request.answer()


@sync_to_async
def end_lease(key: str) -> None:
    """Leave the key as a process does that took it over and died: its lease is over, and no memory is left."""
    gate.drain(PATIENCE)
    run_cache.clear()
    Receipt.objects.filter(key=key).exclude(holder="").update(holder="another process", held_until=0)


def lines(*frames: Any) -> bytes:
    return "".join(f"{frame if isinstance(frame, str) else json.dumps(frame)}\n" for frame in frames).encode()


def log_of(run: str) -> list[dict[str, Any]]:
    """Return the run's facts without what no two runs share; neighbouring pieces of one input are one."""
    facts: list[dict[str, Any]] = []
    for event in Event.objects.filter(run__name=run).order_by("seq"):
        fact = {
            name: value
            for name, value in json.loads(event.fact).items()
            if name not in {"at", "id", "expires_at", "moment"}
        }
        before = facts[-1] if facts else {}
        if fact["type"] == before.get("type") == "input-delta" and fact["call_id"] == before["call_id"]:
            before["text"] += fact["text"]
        else:
            facts.append(fact)
    return facts


def essence(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an ingest answer without the names and numbers of its run."""
    rest = {name: value for name, value in answer.items() if name not in {"run", "seq", "asked"}}
    for decision in rest.get("decisions", ()):
        for name in ("run", "decision_id", "approval"):
            decision[name] = bool(decision[name])
    return rest | {"asked": [question["source_id"] for question in answer.get("asked", ())]}


CALLS = st.sampled_from(["a", "b", "c"])
TOOLS = st.sampled_from(["bash", "wipe", "mail"])
FRAMES = st.one_of(
    st.builds(lambda text: {"type": "text.delta", "text": text}, st.sampled_from(["x", "ü", "\ud800"])),
    st.builds(lambda call, tool: {"type": "tool.input.started", "call_id": call, "tool": tool}, CALLS, TOOLS),
    st.builds(lambda call: {"type": "tool.input.delta", "call_id": call, "delta": "1"}, CALLS),
    st.builds(
        lambda call, tool, a: {"type": "tool.input.available", "call_id": call, "tool": tool, "input": {"a": a}},
        CALLS, TOOLS, st.integers(0, 1),
    ),
    st.builds(lambda call: {"type": "tool.output.available", "call_id": call, "output": 1}, CALLS),
    st.builds(lambda call: {"type": "approval.requested", "call_id": call, "approval_id": f"of-{call}"}, CALLS),
    st.builds(lambda number: {"n": number, "type": "text.delta", "text": f"n{number}"}, st.integers(1, 9)),
    st.sampled_from(["{broken", '{"type": "of.tomorrow"}', '{"type": "text.delta"}', FINISHED]),
)  # fmt: skip
BREAKS = st.tuples(
    st.sampled_from(["hang-up", "paused", "overtaken"]), st.floats(0, 1), st.booleans(), st.integers(1, 4)
)
_runs = iter(range(10**9))


class Quick:
    """A plugin without an opinion: a gating stream waits for it all the same."""

    def before(self, call: dict[str, Any]) -> None:
        return None


@pytest.fixture(autouse=True)
def _set_up_policy(policy: Any, an_approver: Any) -> Iterator[None]:
    policy(POLICY)
    subscriptions.clear_cache()
    yield
    hooks.clear()
    subscriptions.clear_cache()


@pytest.mark.slow
@effort(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    frames=st.lists(FRAMES, min_size=1, max_size=25).filter(  # without a usable frame, there is no run
        lambda frames: any(isinstance(frame, dict) and frame != FINISHED for frame in frames)
    ),
    breaks=st.lists(BREAKS, max_size=4),
    gating=st.booleans(), plugged=st.booleans(), has_name=st.booleans(), share=st.sampled_from([0, 1, 2]),
)  # fmt: skip
def test_a_body_that_breaks_off_and_comes_again_is_applied_once(
    secret: str, frames: list[Any], breaks: list[Any], gating: bool, plugged: bool, has_name: bool, share: int
) -> None:
    with limit_share(share):
        compare_with_whole(secret, frames, breaks, gating, plugged, has_name)


@contextmanager
def limit_share(frames: int) -> Iterator[None]:
    """Let a commit take so many frames of a stream, as if it took long; 0: as usual."""
    with pytest.MonkeyPatch.context() as patch:
        if frames:
            patch.setattr(transaction, "LONG", -1)
            patch.setattr(transaction, "SHARE", frames)
            patch.setattr(ingest, "SHARE", frames)
        yield


async def test_a_frame_behind_a_call_that_plugins_judged_is_applied_once_in_short_commits(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.register(Quick(), "quick")
    call = {"type": "tool.input.available", "call_id": "a", "tool": "bash", "input": {}}
    body = lines(FRAME, call, *({"type": "text.delta", "text": f"{number}"} for number in range(5)))
    query = {"mode": "gate", "answers": "poll"}
    await post(secret, body, run="whole", **query)
    commits, count = [], HeldKey.count

    def count_until_taken_over(key: HeldKey, *args: Any, **progress: Any) -> None:
        if len(commits) == 4:
            raise KeyTakenOver
        count(key, *args, **progress)
        commits.append((progress["frames"], progress["facts_left"]))

    with limit_share(1), monkeypatch.context() as patch:
        patch.setattr(HeldKey, "count", count_until_taken_over)
        assert (await post(secret, body, "k", **query))[0] == 409
    assert commits == [(1, None), (1, 0), (2, None), (3, None)]
    await end_lease("k")
    assert (await post(secret, body, "k", **query))[0] == 200
    assert await sync_to_async(log_of)("r") == await sync_to_async(log_of)("whole")


def compare_with_whole(
    secret: str, frames: list[Any], breaks: list[Any], gating: bool, plugged: bool, has_name: bool
) -> None:
    """Compare the log of a body that broke off with that of the whole body."""
    hooks.clear()
    subscriptions.clear_cache()
    if plugged:
        hooks.register(Quick(), "quick")
    name = f"k{next(_runs)}"
    query = {"mode": "gate" if gating else "observe", "answers": "poll"}
    (status, whole), (again, answer) = asyncio.run(
        play(secret, name, lines(*frames), breaks, {"run": f"{name}-broken"} if has_name else {"run": ""}, query)
    )
    assert again == status, answer
    if status == 200:
        assert essence(answer) == essence(whole)
        assert answer["seq"] == Event.objects.filter(run__name=answer["run"]).count()
        assert log_of(answer["run"]) == log_of(whole["run"])
        assert Run.objects.get(name=answer["run"]).skipped == Run.objects.get(name=whole["run"]).skipped
        assert not ReceiptPart.objects.filter(receipt__key=name).exists()


async def play(
    secret: str, name: str, body: bytes, breaks: list[Any], run: dict[str, str], query: dict[str, str]
) -> tuple[tuple[int, Any], tuple[int, Any]]:
    """Send the body whole without a key, and under a key in tries that break off; return both answers."""
    whole = await post(secret, body, run=f"{name}-whole", **query)
    paused: list[tuple[Body, bytes]] = []
    for how, part, settle, pieces in breaks:
        cut = round(part * len(body))
        request = Body(secret, name, **run, **query)
        step = cut // pieces + 1
        request.say(b"")
        for start in range(0, cut, step):
            request.say(body[start : min(cut, start + step)])
        if settle:
            await request.await_written()
        if how == "hang-up":
            await asyncio.wait_for(request.hang_up(), PATIENCE)
        elif how == "paused":
            await request.read()
            await end_lease(name)
            connections._senders.clear()  # the connections of another process are not counted in this one
            paused.append((request, body[cut:]))
        else:  # the next try is under way before this one has gone
            other = Body(secret, name, **run, **query)
            other.say(body[:cut])
            await asyncio.sleep(0.002)
            await asyncio.wait_for(asyncio.gather(request.hang_up(), other.hang_up()), PATIENCE)
    answer = await post(secret, body, name, **run, **query)
    for request, rest in paused:
        request.say(rest, more=False)
        late, decision = await request.answer()
        # Its process was away while another took over; or it only now comes to ask for the key.
        assert (late, decision) == answer or (late, decision["error"]["code"]) == (409, "in_progress")
    assert await post(secret, body, name, **run, **query) == answer or answer[0] != 200
    return whole, answer


# ------------------------------------------------------------ the quota of its source


@pytest.mark.slow
@effort(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@example(sizes=[1, 299, 300, 300, 300, 300], breaks=[], first_size=499_930)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    breaks=st.lists(st.tuples(st.floats(0, 0.99), st.integers(1, 4)), max_size=4),
    first_size=st.integers(1, 1_000_000),
)
def test_a_body_that_is_cut_counts_once_and_fits_after_the_announced_wait(
    secret: str, source: Source, sizes: list[int], breaks: list[Any], first_size: int
) -> None:
    now, name, book = 1_000_000.0, f"k{next(_runs)}", source_usage.usage_book
    body = lines(*(FRAME | {"text": "x" * 1_000 * size} for size in sizes))

    def store() -> float:
        with atomic():
            book.store()
        return float(SourceUsage.objects.get().level)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_usage, "clock", Clock(lambda: now, lambda: now))
        patch.setattr(settings, "TOOLCARDS", settings.TOOLCARDS.model_copy(update={"source_quota": 1}))
        SourceUsage.objects.all().delete()
        book.clear()
        assert not book.count(source.pk, first_size)
        status, added_size, waits, level = 0, 0.0, 0, store()
        while status != 200:
            part, pieces = breaks.pop() if breaks else (1.0, 3)
            status, answer, wait = asyncio.run(send_part(secret, name, body, part, pieces))
            added_size, level = added_size + store() - level, store()
            if status == 429:
                stored_count = Event.objects.of_type("text-delta").filter(run__name=name).count()
                assert answer["error"].get("detail", {}).get("accepted", 0) == stored_count
                now, waits = now + wait, waits + (part == 1.0)
                level = max(0.0, level - wait * 1_000_000 / 3_600)
        assert added_size == pytest.approx(len(body), abs=10) and answer["accepted"] == len(sizes)
        assert waits <= 1 + len(body) // 700_000  # of each quota, less than a frame of 300 kB is left
    book.clear()


async def send_part(secret: str, key: str, body: bytes, part: float, pieces: int) -> tuple[int, Any, int]:
    """Send a part of a body in so many pieces and hang up, or all of it; return status, answer and Retry-After."""
    request = Body(secret, key, length=len(body), run=key)
    end = round(part * len(body))
    step = end // pieces + 1
    for start in range(0, end, step):
        request.say(body[start : min(end, start + step)], more=start + step < len(body))
    if part < 1:
        await request.read()
        await asyncio.wait_for(request.hang_up(), PATIENCE)
        if not request.has_answer:
            return 0, None, 0
    status, answer = await request.answer()
    return status, answer, int(request.headers.get("retry-after", 0))


# ------------------------------------------------------------ what does not continue a body

BODY_START = lines(FRAME, FRAME | {"text": "y"}, FRAME | {"text": "z"})


async def broken(secret: str, body: bytes, key: str = "k", **query: str) -> None:
    """Send a body that breaks off once all of it is written."""
    request = Body(secret, key, **query)
    request.say(body)
    await request.await_written()
    await asyncio.wait_for(request.hang_up(), PATIENCE)


@pytest.mark.parametrize(("body", "query"), [
    (lines(FRAME, FRAME, FRAME), {}), (lines(FRAME | {"text": "other"}), {}), (lines(FRAME), {}),
    (BODY_START, {"run": "another"}), (BODY_START, {"protocol": "opencode"}), (BODY_START, {"mode": "gate"}),
])  # fmt: skip
async def test_another_body_under_a_key_is_refused_and_the_first_can_still_be_continued(
    secret: str, body: bytes, query: dict[str, str]
) -> None:
    await broken(secret, BODY_START)
    status, result = await post(secret, body, "k", **query)
    assert (status, result["error"]["code"]) == (409, "key_reuse")
    status, result = await post(secret, BODY_START + lines(FRAME), "k")
    assert (status, result["accepted"]) == (200, 4)
    texts = [fact["text"] async for fact in _texts("r")]
    assert texts == ["x", "y", "z", "x"] and await Run.objects.acount() == 1


async def _texts(run: str) -> Any:
    for fact in await sync_to_async(log_of)(run):
        if fact["type"] == "text-delta":
            yield fact


async def test_a_finished_key_is_not_taken_for_another_run(secret: str) -> None:
    assert (await post(secret, BODY_START, "k"))[0] == 200
    status, result = await post(secret, BODY_START, "k", run="another")
    assert (status, result["error"]["code"]) == (409, "key_reuse")


@pytest.mark.parametrize("protocol", ["native", "claude-code"])  # of one a body is a stream, of the other not
async def test_a_finished_key_answers_the_same_body_only(secret: str, protocol: str) -> None:
    hook = {"session_id": "r", "hook_event_name": "UserPromptSubmit", "prompt": "hello"}
    first, other = (FRAME, FINISHED) if protocol == "native" else (hook, hook | {"prompt": "other"})
    status, answer = await post(secret, lines(first), "k", protocol=protocol)
    count = await Event.objects.acount()
    assert status == 200
    for body in (lines(other), lines(first, first), lines(first, other), b"\n"):
        status, refusal = await post(secret, body, "k", protocol=protocol)
        assert (status, refusal["error"]["code"]) == (409, "key_reuse")
    assert await post(secret, lines(first), "k", protocol=protocol) == (200, answer)
    assert await Event.objects.acount() == count


async def test_a_finished_key_of_an_earlier_version_answers_its_body(secret: str) -> None:
    hook = {"session_id": "r", "hook_event_name": "UserPromptSubmit", "prompt": "hello"}
    answer = await post(secret, lines(hook), "k", protocol="claude-code")
    digest = gate.BodyDigest()
    await Receipt.objects.aupdate(digest=digest.add(json.dumps(hook)))
    assert await post(secret, lines(hook), "k", protocol="claude-code") == answer
    await Receipt.objects.aupdate(digest="")
    assert await post(secret, lines(hook), "k", protocol="claude-code") == answer


async def test_the_end_of_a_body_counts_too(secret: str) -> None:
    """The process dies after the last frame is written, and before the answer is."""
    assert (await post(secret, BODY_START, "k"))[0] == 200
    before = await Event.objects.acount()
    await Receipt.objects.aupdate(answer="", holder="a process", held_until=0)
    status, result = await post(secret, BODY_START, "k")
    assert (status, result["accepted"], result["seq"]) == (200, 3, before) == (200, 3, await Event.objects.acount())
    await Receipt.objects.aupdate(answer="")
    status, result = await post(secret, BODY_START + lines(FRAME), "k")
    assert (status, result["error"]["code"]) == (409, "key_reuse")


async def test_a_body_that_is_still_read_holds_its_key(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_bodies, "WAIT_SECONDS", 0.1)
    first = Body(secret, "k")
    first.say(BODY_START)
    await first.await_written()
    second = Body(secret, "k")
    second.say(BODY_START, more=False)
    status, decision = await second.answer()
    assert (status, decision["error"]["code"]) == (409, "in_progress") and second.headers["retry-after"] == "5"
    first.say(b"", more=False)
    assert (await first.answer())[0] == 200


async def test_a_paused_process_writes_no_more_once_another_took_its_key_over(secret: str) -> None:
    first = Body(secret, "k")
    first.say(BODY_START)
    await first.await_written()
    await end_lease("k")
    second = Body(secret, "k")
    second.say(BODY_START)
    await second.await_written()
    first.say(lines(FRAME), more=False)
    status, decision = await first.answer()
    assert (status, decision["error"]["code"]) == (409, "in_progress")
    second.say(lines(FRAME), more=False)
    assert (await second.answer())[0] == 200
    assert [fact["text"] async for fact in _texts("r")] == ["x", "y", "z", "x"]


@pytest.mark.parametrize("seconds", [-1, 3600])
async def test_a_lease_that_is_over_or_ends_later_than_any_could_holds_no_key(secret: str, seconds: float) -> None:
    await broken(secret, BODY_START)
    await Receipt.objects.aupdate(holder="a process", held_until=time.time() + seconds)
    assert (await asyncio.wait_for(post(secret, BODY_START, "k"), PATIENCE))[0] == 200


# ------------------------------------------------------------ while plugins are asked


class Slow:
    """A plugin that answers once it is allowed to."""

    def __init__(self) -> None:
        self.start, self.release, self.times = threading.Event(), threading.Event(), 0

    def before(self, call: dict[str, Any]) -> None:
        self.times += 1
        self.start.set()
        assert self.release.wait(PATIENCE)


CALL = {"type": "tool.input.available", "call_id": "c", "tool": "wipe", "input": {}}


async def test_a_call_whose_process_died_while_plug_ins_were_asked_is_decided_once(secret: str) -> None:
    slow = Slow()
    hooks.register(slow, "slow")
    first = Body(secret, "k", mode="gate")
    first.say(lines(FRAME, CALL, FRAME))
    assert await asyncio.to_thread(slow.start.wait, PATIENCE)
    await first.await_written()
    await end_lease("k")
    second = Body(secret, "k", mode="gate")
    second.say(lines(FRAME, CALL, FRAME), more=False)
    await second.read()
    slow.release.set()
    status, body = await second.answer()
    assert status == 200 and [decision["decision"] for decision in body["decisions"]] == ["deny"]
    first.say(b"", more=False)
    assert (await first.answer())[0] == 409
    kinds = [fact["type"] for fact in await sync_to_async(log_of)("r")]
    assert [kinds.count(kind) for kind in ("input-ready", "decided", "text-delta")] == [1, 1, 2]


async def test_frames_that_come_while_a_call_is_judged_are_written_once(source: Any) -> None:
    """They are queued before the stream is held, and so come to the writer while it is."""
    slow = Slow()
    hooks.register(slow, "slow")
    stream = gate.open_stream(source, "r", protocol="native", mode="gate")

    class Pusher(Command):
        def apply(self, tx: Any) -> None:
            stream.push([f.TextDelta(text="during")])

    stream.push([f.InputReady("c", "bash", {}, True)])
    stream.push([f.TextDelta(text="after")])
    group_commit.WRITER.enqueue(Pusher())
    assert await asyncio.to_thread(gate.drain, PATIENCE)
    slow.release.set()
    await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)
    entries = [fact["text"] async for fact in _texts("r")]
    assert entries == ["after", "during"] and slow.times == 1


@pytest.mark.slow
@pytest.mark.parametrize("idempotency_key", ["", "k"])
async def test_an_open_body_ends_once_its_key_is_revoked(secret: str, key: AgentKey, idempotency_key: str) -> None:
    body = Body(secret, idempotency_key)
    body.say(lines(FRAME))
    await body.await_written()
    await sync_to_async(AgentKey.objects.filter(pk=key.pk).update)(revoked_at=timezone.now())
    async with asyncio.timeout(PATIENCE):
        while not body.is_over:
            await connections.check_connections()  # as the clock does
            await asyncio.sleep(0.05)
    body.say(lines(FRAME))
    status, answer = await body.answer()
    assert (status, answer["error"]) == (401, {"code": "unauthorized", "message": "This key was revoked."})
    assert await asyncio.to_thread(gate.drain, PATIENCE)
    assert [fact["type"] for fact in await sync_to_async(log_of)("r")] == ["run-started", "text-delta"]
