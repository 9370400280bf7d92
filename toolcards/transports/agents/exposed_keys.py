"""Agent keys in frames: in a command, a result or a text, where the model has read them.

Such a key is marked once, and the Sources page offers to rotate it. Pieces of streamed input are not searched, as the
complete input follows.
"""

from __future__ import annotations

import asyncio
import re

import structlog
from channels.db import database_sync_to_async

from toolcards.models import AgentKey
from toolcards.models.sources import hash_secret

PREFIX = "tck_"
MAX_CHECKED = 1_000
_KEY = re.compile(r"tck_[A-Za-z0-9_-]{20,100}")
_checked_digests: dict[str, None] = {}  # digests that were looked up
_tasks: set[asyncio.Task[None]] = set()
log = structlog.get_logger(__name__)


def note_exposed_keys(text: str, run: str) -> None:
    """Mark the live keys in this text, in the background."""
    if PREFIX not in text:
        return
    digests = {hash_secret(secret) for secret in _KEY.findall(text)} - _checked_digests.keys()
    if digests:
        task = asyncio.ensure_future(_mark(digests, run))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


async def _mark(digests: set[str], run: str) -> None:
    try:
        await database_sync_to_async(AgentKey.objects.mark_exposed, thread_sensitive=False)(digests, run)
    except Exception as error:  # the next frame that holds the key tries again
        log.warning("an exposed key could not be marked", error=type(error).__name__)
        return
    _checked_digests.update(dict.fromkeys(digests))
    while len(_checked_digests) > MAX_CHECKED:
        del _checked_digests[next(iter(_checked_digests))]
