"""Ids for calls of programs whose hooks have none: one empty file per allowed call without a result.

The hooks before and after a tool are two processes. They find each other by session, tool and arguments; of two equal
calls, the newer one is closed first.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

LONGEST_SESSION = 7 * 86_400.0  # seconds after which the files of a session are removed


def make_id() -> str:
    """Return a new call id."""
    return f"call_{secrets.token_hex(8)}"


def open_call(session: str, tool: str, arguments: Any, call_id: str) -> None:
    """Store the id of a call that may run now."""
    folder = _find_folder(session)
    if not folder.exists():
        _remove_old_sessions(folder.parent)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{_digest(tool, arguments)}.{time.time_ns():020}.{call_id}").touch(mode=0o600)


def close_call(session: str, tool: str, arguments: Any) -> str | None:
    """Remove the open call with this tool and arguments; return its id."""
    for path in sorted(_find_folder(session).glob(f"{_digest(tool, arguments)}.*"), reverse=True):
        try:
            path.unlink()  # only one process succeeds
        except FileNotFoundError:
            continue
        return path.name.rpartition(".")[2]
    return None


def forget_session(session: str) -> None:
    """Remove the open calls of a session."""
    shutil.rmtree(_find_folder(session), ignore_errors=True)


def _find_folder(session: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "toolcards" / "hooks" / hashlib.sha256(session.encode()).hexdigest()[:32]


def _digest(tool: str, arguments: Any) -> str:
    text = json.dumps([tool, arguments], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _remove_old_sessions(root: Path) -> None:
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.stat().st_mtime < time.time() - LONGEST_SESSION:
            shutil.rmtree(folder, ignore_errors=True)
