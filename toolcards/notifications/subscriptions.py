"""Who wants notifications: enabled webhooks, browsers and plugins, looked up at most every two seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolcards import hooks
from toolcards.models import PushBrowser, Webhook
from toolcards.models.notifications import SEVERITIES

CACHE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Subscribers:
    """The enabled webhooks, and the pk and lowest severity of each browser; `valid_until`: when to read again."""

    valid_until: float
    webhooks: list[Webhook]
    browsers: list[tuple[int, str]]


_cache: Subscribers | None = None


def clear_cache() -> None:
    """Clear the cache, after a change and in tests."""
    global _cache
    _cache = None


def list_webhooks() -> list[Webhook]:
    """Return the enabled webhooks."""
    return _load().webhooks


def list_browsers(severity: str) -> list[int]:
    """Return the pks of the browsers that show notifications of this severity."""
    rank = SEVERITIES.index(severity)
    return [pk for pk, lowest in _load().browsers if SEVERITIES.index(lowest) <= rank]


def has_listeners() -> bool:
    """Return True if there is any enabled webhook, browser or plugin."""
    subscribers = _load()
    return bool(subscribers.webhooks or subscribers.browsers or hooks.list_plugins())


def _load() -> Subscribers:
    global _cache
    if _cache is None or _cache.valid_until < time.monotonic():
        browsers = PushBrowser.objects.filter(person__is_active=True).order_by("pk").values_list("pk", "severity")
        _cache = Subscribers(time.monotonic() + CACHE_SECONDS, list(Webhook.objects.live()), list(browsers))
    return _cache
