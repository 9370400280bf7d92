"""Whether the server lives (`/healthz`), and is ready (`/readyz`)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import sync_to_async

from toolcards import __version__, hooks, outages
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.background import disk_space, readiness, worker_ends


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
    return {"status": "ready", "checks": checks, "warnings": await _warnings()}


def _list_warnings() -> list[dict[str, Any]]:
    """Return what people should look at while the process is ready all the same."""
    warnings: list[dict[str, Any]] = []
    ends = worker_ends.read_ends()
    if ends.is_recent:
        moment = datetime.fromtimestamp(ends.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        message = f"worker {ends.pid} {ends.reason}, and was replaced"
        warnings.append({"warning": "worker_restarted", "message": message, "since": moment})
    if (percentage := disk_space.find_warning()) is not None:
        message = f"{percentage} % of the disk of the data directory are in use"
        warnings.append({"warning": "disk_filling", "message": message})
    return warnings


_warnings = sync_to_async(_list_warnings, thread_sensitive=False)
_troubles = sync_to_async(hooks.list_troubles, thread_sensitive=False)


async def _guard_troubles() -> list[hooks.Status]:
    """Return the guards that are not available, within 3 seconds."""
    try:
        async with asyncio.timeout(3):
            return await _troubles()
    except TimeoutError:
        return [hooks.Status("*", guards=True, state="loading")]
