"""Who wants notifications: enabled webhooks and plug-ins, looked up at most every two seconds."""

from __future__ import annotations

import time

from toolcards import hooks
from toolcards.models import Webhook

CACHE_SECONDS = 2.0
_cache: tuple[float, list[Webhook]] | None = None


def clear_cache() -> None:
    """Clear the cache, after a change and in tests."""
    global _cache
    _cache = None


def list_webhooks() -> list[Webhook]:
    """Return the enabled webhooks."""
    global _cache
    if _cache is None or _cache[0] < time.monotonic():
        _cache = time.monotonic() + CACHE_SECONDS, list(Webhook.objects.live())
    return _cache[1]


def has_listeners() -> bool:
    """Return True if any webhook is enabled or any plug-in is registered."""
    return bool(list_webhooks() or hooks.list_plugins())
