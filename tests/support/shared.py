"""What the processes of one test run make once and share: databases with all tables, and copied programs."""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

VARIABLE = "TESTS_SHARED_FOLDER"  # of the environment, which the processes of a run inherit from the first one


@functools.cache
def share_folder() -> Path:
    """Return the folder of this run; the first process makes it and removes it at its end."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="toolcards-shared-")
        atexit.register(shutil.rmtree, os.environ[VARIABLE], ignore_errors=True)
    return Path(os.environ[VARIABLE])


def make_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder of that name, filled by the first process that asks for it."""
    folder = share_folder() / name
    finished = folder.with_suffix(".finished")
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            make(folder)
            finished.touch()
    return folder
