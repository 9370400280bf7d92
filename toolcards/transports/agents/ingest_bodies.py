"""The bodies of /api/v1/ingest: split into frames piece by piece, and read once if they have an Idempotency-Key."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from django.conf import settings

from toolcards import gate
from toolcards.adapters import BadFrame
from toolcards.adapters.sse import EventSplitter, LineSplitter
from toolcards.transports.agents.frame_intake import Intake, iterate_frames
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.auth import Caller

log = logging.getLogger(__name__)
WAIT_SECONDS = 60.0  # seconds to wait for a request with the same key that came before
RENEW_SECONDS = 1.5  # seconds between two signs that a request still reads its body
COMMIT_SECONDS = 5.0  # seconds that a request which broke off waits for its last frames to be written
Answer = dict[str, Any]


class JsonBodySplitter:
    """The frames of an application/json body: one object, or an array of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[str]:
        """Add the piece; raises BadFrame with code too_large."""
        self._size += len(data)
        if self._size > self._limit:
            raise BadFrame(f"a JSON body must have at most {self._limit} bytes; stream it as NDJSON", "too_large")
        self._pieces.append(data)
        return []

    def end(self) -> Iterator[str]:
        """Yield the frames.

        Raises BadFrame, perhaps only at the end of an array.
        """
        try:
            text = b"".join(self._pieces).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadFrame("not JSON: not UTF-8", "not_json") from None
        return iterate_frames(text.strip())


class SseBodySplitter(EventSplitter):
    """Splits server-sent events; refuses a body without a single SSE line."""

    FIELDS = ("data", "event", "id", "retry", ":")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._has_field = False
        self._has_text = False

    def _frames(self, lines: list[str]) -> list[str]:
        for line in lines if not self._has_field else ():
            self._has_text = self._has_text or bool(line.strip())
            self._has_field = self._has_field or line.startswith(self.FIELDS)
        return super()._frames(lines)

    def end(self) -> list[str]:
        """Return the last frames.

        Raises BadFrame if there was no event at all.
        """
        frames = super().end()
        if self._has_text and not self._has_field:
            raise BadFrame("no server-sent events in this body", "not_sse")
        return frames


def build_splitter(content_type: str) -> Any:
    """Return the splitter for a Content-Type; raises Problem 415."""
    env, kind = settings.TOOLCARDS, content_type.partition(";")[0].strip().lower()
    splitters: dict[str, Callable[[], Any]] = {
        "text/event-stream": lambda: SseBodySplitter(env.max_frame),
        "application/x-ndjson": lambda: LineSplitter(env.max_frame),
        "application/json": lambda: JsonBodySplitter(env.max_body),
    }
    if kind not in splitters:
        raise Problem(415, "unsupported_media_type", f"Content-Type must be one of: {', '.join(sorted(splitters))}.")
    return splitters[kind]()


class KeyedIntake(Intake):
    """The frames of a keyed body. Frames of an earlier request are counted, but not written again."""

    def __init__(self, key: gate.HeldKey, caller: Caller, adapter: Any, *, run: str, **options: Any) -> None:
        self._key, self._read_size = key, 0
        super().__init__(caller, adapter, run=run or key.run, **options)
        self.earlier_start = key.created_at

    @property
    def covered_size(self) -> int:
        """Return how many of the following bytes an earlier request counted."""
        return max(0, self._key.charged_size - self._read_size)

    async def charge(self, size: int, follow_up: int = 0) -> None:
        """Count a piece of the body, unless an earlier request did."""
        if not self.covered_size:
            await super().charge(size, follow_up)
            self._key.charged_size += size
        self._read_size += size

    def give_back(self) -> None:
        """Uncount bytes without a stored frame: the next request counts them."""
        auth.give_back(self.caller.agent.pk, self._key.charged_size - self._key.recorded_size)

    def take(self, text: str) -> BadFrame | None:
        """Push one frame; return its error, if any."""
        self._key.mark(text)
        return super().take(text)

    def end(self) -> None:
        """Push the end of the body.

        Raises KeyReuse if an earlier body was longer.
        """
        self._key.mark_end()
        super().end()
        assert isinstance(self.stream, gate.KeyedStream)
        self.stream.check_complete()

    def _open_stream(self, source: Any, run: str, **options: Any) -> gate.Stream:
        stream = gate.open_keyed_stream(self._key, source, run, **options)
        self._committed(stream.earlier_report)
        return stream


async def process_once(
    caller: Caller,
    key: str,
    request: dict[str, str],
    work: Callable[..., Awaitable[Answer]],
    frames: AsyncIterator[str],
) -> tuple[Answer, dict[str, str]]:
    """Return the answer of `work`, or the stored answer, with its headers.

    `work` gets the function that makes the intake of the body. `frames` are those of the body, for a body that was
    answered before; raises KeyReuse if it is another one.
    """
    reservation = await _reserve(caller, key, request)
    if isinstance(reservation, gate.StoredAnswer):
        await _check_same_body(reservation, frames)
        return json.loads(reservation.text), {"Idempotency-Replayed": "true"}
    intakes: list[KeyedIntake] = []

    def make(*args: Any, **options: Any) -> Intake:
        intakes.append(KeyedIntake(reservation, *args, **options))
        return intakes[0]

    renewing = asyncio.ensure_future(_renew(reservation))
    try:
        answer = await work(make)
        await gate.astore_answer(reservation, json.dumps(answer))
        return answer, {}
    except BaseException as error:
        if isinstance(error, Exception):
            await _wait_for_commits(intakes)
            for intake in intakes:
                intake.give_back()
        await asyncio.shield(_release(reservation, intakes))
        raise
    finally:
        renewing.cancel()


async def _check_same_body(answer: gate.StoredAnswer, frames: AsyncIterator[str]) -> None:
    digest, is_same = gate.BodyDigest(), not answer.digest
    async for text in frames:
        is_same |= digest.add(text) == answer.digest  # earlier versions left out the end
    if not is_same and digest.add_end() != answer.digest:
        raise gate.KeyReuse("The body differs from the one that was answered under this Idempotency-Key.")


async def _reserve(caller: Caller, key: str, request: dict[str, str]) -> gate.HeldKey | gate.StoredAnswer:
    deadline, pause = time.monotonic() + WAIT_SECONDS, 0.05
    while (reservation := await gate.areserve_key(caller.agent, key, request)) is None:
        if time.monotonic() > deadline:
            raise Problem(
                409, "in_progress", "Another request with this Idempotency-Key is still in progress.",
                headers={"Retry-After": "5"},
            )  # fmt: skip
        await asyncio.sleep(pause)
        pause = min(0.25, pause * 1.2)
    return reservation


async def _renew(key: gate.HeldKey) -> None:
    """Renew the key while its body is read. The gate writes nothing under a lost key."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            await gate.arenew_key(key)
        except gate.RequestRefused:
            return
        except Exception as error:
            log.debug("the key is not renewed: %s", error)


async def _wait_for_commits(intakes: Sequence[Intake]) -> None:
    """Wait until the frames read so far are committed: they are not written under a released key."""
    for intake in intakes:
        if intake.stream is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(COMMIT_SECONDS):
                    await intake.stream.wait_until_committed()


async def _release(key: gate.HeldKey, intakes: Sequence[Intake]) -> None:
    """Release the key; if no frame was applied, let another body use the key."""
    has_frames = any(intake.accepted_count or intake.skipped_count for intake in intakes)
    with contextlib.suppress(Exception):  # the database is unavailable: the lease ends by itself
        await gate.arelease_key(key, forget=key.untouched and not has_frames)
