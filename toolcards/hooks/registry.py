"""Who is plugged in: by entry point, or registered in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

log = logging.getLogger(__name__)
GROUP = "toolcards.hooks"
LIMIT = 2.0  # seconds that a plug-in has for one call


class Veto(Exception):
    """A plug-in's no: the call is denied for this reason. Anything else that it raises is a crash."""

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
        """Return the method for the event (`before` or `tool.execute.before`), None if it has none."""
        method = getattr(self.target, event.rpartition(".")[2], None)
        return method if callable(method) else None


_lock = threading.Lock()
_registered: dict[str, Plugin] = {}
_loaded = False


def register(target: Any, name: str = "") -> Callable[[], None]:
    """Plug the object in; return what unplugs it. A name that is taken is replaced."""
    plugin = Plugin((name or type(target).__name__)[:200], target)
    with _lock:
        _registered[plugin.name] = plugin

    def unplug() -> None:
        with _lock:
            if _registered.get(plugin.name) is plugin:
                del _registered[plugin.name]

    return unplug


def plugins(event: str = "") -> list[Plugin]:
    """Return the plug-ins, those that hear the event if one is given, in the order of their names."""
    _load()
    found = sorted(_registered.values(), key=lambda plugin: plugin.name)
    return [plugin for plugin in found if plugin.hears(event)] if event else found


def clear() -> None:
    """Unplug everything (tests)."""
    with _lock:
        _registered.clear()


def _load() -> None:
    """Load the installed plug-ins, once; one that cannot be loaded is told in the log and left out."""
    global _loaded
    if _loaded:
        return
    with _lock:
        if _loaded:
            return
        _loaded = True
        for entry in entry_points(group=GROUP):
            try:
                found = entry.load()
                target = found() if isinstance(found, type) else found
                _registered.setdefault(entry.name, Plugin(entry.name, target))
            except Exception:
                log.exception("hooks: the plug-in %s cannot be loaded", entry.name)
