"""Plugins by entry point or registration, and the guards that are missing.

A guard is a plugin that handles `before`. A guard that cannot be loaded, or that TOOLCARDS_REQUIRED_PLUGINS names and
that is missing, denies every gated call until it is back. An entry point that cannot be loaded counts as a guard,
because its events are unknown.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from django.conf import settings

log = logging.getLogger(__name__)
GROUP = "toolcards.hooks"
LIMIT = 2.0  # seconds that a plugin has for one call
LOAD_LIMIT = 10.0  # seconds that all plugins have to be loaded; a later one is plugged in when it is ready


class Veto(Exception):
    """A plugin's denial with its reason. Any other exception is a crash."""

    toolcards_code = "plugin_veto"

    def __init__(self, reason: str = "", suggest: str = "") -> None:
        super().__init__(reason)
        self.reason, self.suggest = reason, suggest


@dataclass(frozen=True, slots=True)
class Plugin:
    """An object with some of the methods before, after, error, settled and corrected."""

    name: str
    target: Any

    def hears(self, event: str) -> Callable[[dict[str, Any]], Any] | None:
        """Return the plugin's method for the event, or None.

        The method is named `before` or `tool.execute.before`, for example.
        """
        method = getattr(self.target, event.rpartition(".")[2], None)
        return method if callable(method) else None


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one plugin: ready, loading, broken, missing or hanging."""

    name: str
    guards: bool
    state: str = "ready"
    why: str = ""


_lock = threading.Lock()  # of the four below
_loading = threading.Lock()  # held while the installed plugins are loaded
_registered: dict[str, Plugin] = {}
_absent: dict[str, Status] = {}  # installed, but not loaded
_hanging: Counter[str] = Counter()  # guards that exceeded their limit and have not returned
_is_loaded = False


def register(target: Any, name: str = "") -> Callable[[], None]:
    """Register the plugin.

    Return a function that removes it. An existing one of that name is replaced.
    """
    plugin = Plugin((name or type(target).__name__)[:200], target)
    with _lock:
        _registered[plugin.name] = plugin

    def unplug() -> None:
        with _lock:
            if _registered.get(plugin.name) is plugin:
                del _registered[plugin.name]

    return unplug


def list_plugins(event: str = "") -> list[Plugin]:
    """Return the plugins that handle the event, by name.

    `event`: "" for all plugins.
    """
    if not _is_loaded:
        _load()
    if not _registered:
        return []
    with _lock:
        plugins = sorted(_registered.values(), key=lambda plugin: plugin.name)
    return [plugin for plugin in plugins if plugin.hears(event)] if event else plugins


def clear() -> None:
    """Remove all plugins (tests)."""
    with _lock:
        _registered.clear()
        _absent.clear()
        _hanging.clear()


# ---------------------------------------------------------------- guards


def has_guards() -> bool:
    """Return whether guards must be consulted before calls."""
    return bool(list_plugins("before") or list_absent_guards())


def list_absent_guards() -> list[Status]:
    """Return the unavailable guards; each denies every gated call."""
    if not _is_loaded:
        _load()
    if not _absent and not settings.TOOLCARDS.required_plugins:
        return []
    with _lock:
        absent, present = dict(_absent), dict(_registered)
    for name in settings.TOOLCARDS.required_plugins:
        if name in present and not present[name].hears("before"):
            absent[name] = Status(name, True, "missing", "It is required as a guard, but has no `before`.")
        elif name not in present and name not in absent:
            absent[name] = Status(name, True, "missing", "It is required, but not installed.")
    return [absent[name] for name in sorted(absent)]


def list_statuses() -> list[Status]:
    """Return the states of all plugins, faulty ones first."""
    absent = list_absent_guards()
    absent_names = {status.name for status in absent}
    with _lock:
        hanging = {name for name, count in _hanging.items() if count > 0}
    present = [
        _build_status(plugin, is_hanging=plugin.name in hanging)
        for plugin in list_plugins()
        if plugin.name not in absent_names
    ]
    return [*absent, *sorted(present, key=lambda status: (status.state == "ready", status.name))]


def _build_status(plugin: Plugin, *, is_hanging: bool) -> Status:
    if is_hanging:
        return Status(plugin.name, True, "hanging", "It has not answered within its time limit.")
    return Status(plugin.name, bool(plugin.hears("before")))


def list_troubles() -> list[Status]:
    """Return the guards that are not in force or do not answer."""
    return [status for status in list_statuses() if status.guards and status.state != "ready"]


def count_hanging(name: str, change: int) -> None:
    """Change the number of a guard's late calls.

    1 for one more, -1 when one returns.
    """
    with _lock:
        _hanging[name] += change


# ---------------------------------------------------------------- loading


def _load() -> None:
    """Load the installed plugins once.

    Each loads in its own thread, so an import that hangs delays the others by LOAD_LIMIT at most.
    """
    global _is_loaded
    if _is_loaded:
        return
    with _loading:
        if _is_loaded:
            return  # type: ignore[unreachable]  # another thread was faster
        threads = [threading.Thread(target=_load_one, args=entry, daemon=True) for entry in _list_entry_points()]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + LOAD_LIMIT
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        _is_loaded = True


def _list_entry_points() -> list[tuple[str, EntryPoint]]:
    """Return the entry points by unique name and mark them as loading."""
    entries: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        name, number = entry.name, 2
        while name in entries:  # two packages may use one name
            name, number = f"{entry.name}-{number}", number + 1
        entries[name] = entry
    with _lock:
        _absent.update({name: Status(name, True, "loading", "It is still loading.") for name in entries})
    return list(entries.items())


def _load_one(name: str, entry: EntryPoint) -> None:
    try:
        target = entry.load()
        plugin = Plugin(name, target() if isinstance(target, type) else target)
    except BaseException as error:  # after any exception, it is not a guard
        log.exception("hooks: the plugin %s cannot be loaded; gated calls are denied", name)
        why = f"It cannot be loaded ({type(error).__name__})."
        with _lock:
            _absent[name] = Status(name, True, "broken", why)
        return
    with _lock:
        _absent.pop(name, None)
        _registered.setdefault(name, plugin)
