"""The site with everything loaded, in a process that is forked for each program that tests start.

What the settings decide while modules are loaded is the same in all these programs, and `take_settings` asserts it. A
program whose settings differ there (another database, `TOOLCARDS_DEBUG`) starts without all this, see `forge`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

SETTINGS = "tests.support.settings"
OTHER_SITES = {"TOOLCARDS_DATABASE_URL", "TOOLCARDS_DEBUG"}  # with these variables the modules themselves may differ
STATIC = {"TOOLCARDS_STATIC": "plain"}
TAKEN_AGAIN = {"DATABASES", "LOGGING"}  # read again by `take_settings`, and by the program's own start
# The client's modules need other libraries, and these two begin a program.
LEFT_OUT = re.compile(r"^toolcards\.client\.|\.(asgi|__main__)$")
_loaded_with: dict[str, Any] = {}  # the settings that were read until everything was loaded


def fits(env: dict[str, str]) -> bool:
    """Return whether a program with this environment may be forked from this process."""
    is_usual = env.get("DJANGO_SETTINGS_MODULE") == SETTINGS and STATIC.items() <= env.items()
    return is_usual and not any(env.get(name) for name in OTHER_SITES)


def load() -> None:
    """Set up Django, and load all modules, addresses and templates. No module may read a setting of Toolcards."""
    folder = tempfile.mkdtemp(prefix="warm-site-")
    surroundings = dict(os.environ)
    os.environ.update(STATIC, DJANGO_SETTINGS_MODULE=SETTINGS, TOOLCARDS_DATA_DIR=folder)
    import django
    from django.conf import settings
    from django.core.management import get_commands
    from django.template import engines
    from django.urls import get_resolver

    django.setup()
    values, settings.TOOLCARDS = settings.TOOLCARDS, _Unreadable()
    for package in map(importlib.import_module, ("toolcards", "dashboard")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not LEFT_OUT.search(module.name):
                importlib.import_module(module.name)
    get_commands()
    get_resolver()._populate()
    for engine in engines.all():
        for root in map(Path, engine.dirs):
            for template in root.rglob("*.html"):
                engine.get_template(str(template.relative_to(root)))
    settings.TOOLCARDS = values
    _loaded_with.update((name, value) for name, value in settings.__dict__.items() if name.isupper())
    os.environ.clear()
    os.environ.update(surroundings)
    shutil.rmtree(folder)
    gc.collect()
    gc.freeze()  # so that programs share these objects


class _Unreadable:
    """Refuses to give settings of Toolcards while modules are loaded."""

    _mask_wrapped = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a module reads TOOLCARDS_{name.upper()} when it is imported")


def is_loaded() -> bool:
    """Return whether this process has loaded the site."""
    return bool(_loaded_with)


def take_settings() -> None:
    """Read the settings again, from the environment of the program that begins in this process.

    If they cannot be read, the program finds this out by itself.
    """
    from asgiref.local import Local
    from django.conf import Settings, empty, settings
    from django.core.exceptions import ImproperlyConfigured
    from django.db import connections

    for name in ("dashboard.settings", SETTINGS):
        del sys.modules[name]
    settings.__dict__.clear()
    settings._wrapped = empty
    with contextlib.suppress(ImproperlyConfigured):
        settings._wrapped = Settings(SETTINGS)
    if settings._wrapped is empty:
        return
    for name in _loaded_with.keys() - TAKEN_AGAIN:
        assert getattr(settings, name) == _loaded_with[name], f"programs of tests cannot differ in {name}"
    connections.__dict__.pop("settings")
    connections._settings = None
    connections._connections = Local(connections.thread_critical)
