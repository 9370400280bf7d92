"""Whether the server lives (`/healthz`), and is ready (`/readyz`)."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async

from toolcards import __version__, hooks, outages
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.background import readiness


@endpoint("GET", anybody=True)
async def healthz(request: Any, caller: None) -> Any:
    """Return the version; that the process answers is the health check."""
    return {"status": "ok", "version": __version__}


# What `/readyz` calls the parts of this process.
CHECKS = {
    "database": outages.READING, "writing": outages.WRITING, "sending": outages.SENDING, "channel_layer": outages.BELL,
    "connections": outages.CONNECTING,
}  # fmt: skip


@endpoint("GET", anybody=True)
async def readyz(request: Any, caller: None) -> Any:
    """Answer whether this process can serve requests.

    Every part must have worked recently, and all guards must be available.
    """
    troubles, faults = await asyncio.gather(_guard_troubles(), readiness.list_reasons())
    checks = {check: part not in faults for check, part in CHECKS.items()} | {"plugins": not troubles}
    if not all(checks.values()):
        reasons = [{"check": check} | faults[part] for check, part in CHECKS.items() if part in faults]
        reasons += [{"check": "plugins", "plugin": trouble.name, "reason": trouble.state} for trouble in troubles]
        raise Problem(503, "not_ready", "Not ready.", headers={"Retry-After": "5"}, **checks, reasons=reasons)
    return {"status": "ready", "checks": checks}


_troubles = sync_to_async(hooks.list_troubles, thread_sensitive=False)


async def _guard_troubles() -> list[hooks.Status]:
    """Return the guards that are not available, within 3 seconds."""
    try:
        async with asyncio.timeout(3):
            return await _troubles()
    except TimeoutError:
        return [hooks.Status("*", guards=True, state="loading")]
