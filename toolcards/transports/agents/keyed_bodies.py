"""Bodies with an Idempotency-Key: one request at a time reads such a body, and a repeated one continues it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from toolcards import gate
from toolcards.adapters import BadFrame
from toolcards.transports.agents.frame_intake import Intake
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.auth import Caller

log = logging.getLogger(__name__)
WAIT_SECONDS = 60.0  # seconds to wait for a request with the same key that came before
RENEW_SECONDS = 1.5  # seconds between two signs that a request still reads its body
COMMIT_SECONDS = 5.0  # seconds that a request which broke off waits for its last frames to be written
Answer = dict[str, Any]


class KeyedIntake(Intake):
    """What one keyed body sends. Frames applied by an earlier request are read and counted, but not written."""

    def __init__(self, key: gate.HeldKey, caller: Caller, adapter: Any, *, run: str, **options: Any) -> None:
        self._key = key
        super().__init__(caller, adapter, run=run or key.run, **options)
        self.since = key.since

    def take(self, text: str) -> BadFrame | None:
        """Push one frame; return what is wrong with it, if so."""
        self._key.mark(text)
        return super().take(text)

    def end(self) -> None:
        """Push the end of the body; raises KeyReuse if the body is shorter than what was applied before."""
        self._key.mark_end()
        super().end()
        assert isinstance(self.stream, gate.KeyedStream)
        self.stream.check_complete()

    def _open_stream(self, source: Any, run: str, **options: Any) -> gate.Stream:
        stream = gate.open_keyed_stream(self._key, source, run, **options)
        self._committed(stream.earlier_report)
        return stream


async def process_once(
    caller: Caller, key: str, request: dict[str, str], work: Callable[..., Awaitable[Answer]]
) -> Any:
    """Return what `work` answers, or what it answered before: status and headers follow where they are not usual.

    `work` is given how to make the intake of the body.
    """
    held = await _reserve(caller, key, request)
    if isinstance(held, str):
        return json.loads(held), 200, {"Idempotency-Replayed": "true"}
    intakes: list[Intake] = []

    def make(*given: Any, **options: Any) -> Intake:
        intakes.append(KeyedIntake(held, *given, **options))
        return intakes[0]

    renewing = asyncio.ensure_future(_renew(held))
    try:
        said = await work(make)
        await gate.astore_answer(held, json.dumps(said))
        return (said,)
    except BaseException as error:
        if isinstance(error, Exception):
            await _wait_for_commits(intakes)
        await asyncio.shield(_release(held, intakes))
        raise
    finally:
        renewing.cancel()


async def _reserve(caller: Caller, key: str, request: dict[str, str]) -> gate.HeldKey | str:
    until, pause = time.monotonic() + WAIT_SECONDS, 0.05
    while (reserved := await gate.areserve_key(caller.agent, key, request)) is None:
        if time.monotonic() > until:
            raise Problem(
                409, "in_progress", "Another request with this Idempotency-Key is still in progress.",
                headers={"Retry-After": "5"},
            )  # fmt: skip
        await asyncio.sleep(pause)
        pause = min(0.25, pause * 1.2)
    return reserved


async def _renew(held: gate.HeldKey) -> None:
    """Keep the key while its body is read; what the gate does not write under a lost key needs no help from here."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            await gate.arenew_key(held)
        except gate.RequestRefused:
            return
        except Exception as error:
            log.debug("the key is not renewed: %s", error)


async def _wait_for_commits(intakes: list[Intake]) -> None:
    """Wait for the frames that were read before the body broke off: under a key that is let go they are not written."""
    for intake in intakes:
        if intake.stream is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(COMMIT_SECONDS):
                    await intake.stream.wait_until_committed()


async def _release(held: gate.HeldKey, intakes: list[Intake]) -> None:
    """Let go of the key; a body of which nothing was applied is forgotten, so that another one may come under it."""
    used = any(intake.accepted or intake.skipped for intake in intakes)
    with contextlib.suppress(Exception):  # the database is away: the lease ends by itself
        await gate.arelease_key(held, forget=held.untouched and not used)
