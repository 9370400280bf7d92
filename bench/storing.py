"""An application that only stores what is posted: the least that a program in Python must do for the same promise.

It parses a body, seals it, writes an event, a call and a run as Toolcards' tables have them, and answers after the
commit, which all posts that wait share. It checks nothing: no key, no policy, no repetition, no state, no page.
"""

import asyncio
import json
import os
import queue
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TABLES = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000;
CREATE TABLE event (
    id INTEGER PRIMARY KEY, seq bigint, at real, ordinal integer, fact text, applied bool, run_id bigint,
    UNIQUE (run_id, seq)
);
CREATE TABLE call (
    id INTEGER PRIMARY KEY, ordinal integer, call_id text, tool text, state text, seq bigint, card text, run_id bigint,
    UNIQUE (run_id, ordinal)
);
CREATE INDEX call_state ON call (state);
CREATE INDEX call_run_seq ON call (run_id, seq);
CREATE INDEX call_call_id ON call (call_id);
CREATE INDEX call_tool ON call (tool);
CREATE TABLE run (id INTEGER PRIMARY KEY, name text UNIQUE, status text, updated_at real, seq bigint, calls integer);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_updated_at ON run (updated_at);
"""
EVENT = "INSERT INTO event (seq, at, ordinal, fact, applied, run_id) VALUES (?, ?, ?, ?, 1, ?)"
NEW_CALL = "INSERT INTO call (ordinal, call_id, tool, state, seq, card, run_id) VALUES (?, ?, ?, ?, ?, ?, ?)"
CHANGED_CALL = "UPDATE call SET state = ?, seq = ?, card = ? WHERE run_id = ? AND ordinal = ?"
NEW_RUN = "INSERT INTO run (id, name, status, updated_at, seq, calls) VALUES (?, ?, 'running', 0, 0, 0)"
CHANGED_RUN = "UPDATE run SET updated_at = ?, seq = ?, calls = ? WHERE id = ?"


class PostStore:
    """A thread that writes what waits in one commit. Hooks before a call and after it alternate in each run."""

    def __init__(self, path: str) -> None:
        self._posts: queue.SimpleQueue[tuple[str, dict[str, Any], Callable[[], None]]] = queue.SimpleQueue()
        self._runs: dict[str, list[int]] = {}  # id, seq, count of calls
        self._cipher = AESGCM(AESGCM.generate_key(256))
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.executescript(TABLES)
        threading.Thread(target=self._work, daemon=True).start()

    def add(self, run: str, hook: dict[str, Any], answer: Callable[[], None]) -> None:
        """Write the hook input to this run; call `answer` after the commit."""
        self._posts.put((run, hook, answer))

    def _work(self) -> None:
        while True:
            posts = [self._posts.get()]
            while not self._posts.empty():
                posts.append(self._posts.get())
            self._write([(run, hook) for run, hook, _ in posts])
            for _, _, answer in posts:
                answer()

    def _write(self, posts: list[tuple[str, dict[str, Any]]]) -> None:
        events, new_calls, changed_calls, new_runs = [], [], [], []
        for name, hook in posts:
            run = self._runs.get(name)
            if run is None:
                run = self._runs[name] = [len(self._runs) + 1, 0, 0]
                new_runs.append((run[0], name))
            pk = run[0]
            run[1] += 1
            card = self._seal(hook)
            if hook["hook_event_name"] == "PreToolUse":
                run[2] += 1
                new_calls.append((run[2], hook["tool_use_id"], hook["tool_name"], "input-available", run[1], card, pk))
            else:
                changed_calls.append(("output-available", run[1], card, pk, run[2]))
            events.append((run[1], 0.0, run[2], self._seal(hook), pk))
        runs = {name: self._runs[name] for name, _ in posts}.values()
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        database.executemany(NEW_RUN, new_runs)
        database.executemany(EVENT, events)
        database.executemany(NEW_CALL, new_calls)
        database.executemany(CHANGED_CALL, changed_calls)
        database.executemany(CHANGED_RUN, [(0.0, seq, calls, pk) for pk, seq, calls in runs])
        database.execute("COMMIT")

    def _seal(self, value: dict[str, Any]) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, json.dumps(value).encode(), None)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Store a posted hook input, and answer."""
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    loop = asyncio.get_running_loop()
    commit = loop.create_future()
    run = parse_qs(scope["query_string"].decode())["run"][0]
    store.add(run, json.loads(b"".join(pieces)), lambda: loop.call_soon_threadsafe(commit.set_result, None))
    await commit
    headers = [(b"content-type", b"application/json"), (b"content-length", b"11")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"ok":true}'})


if __name__ == "__main__":
    import uvicorn

    store = PostStore(sys.argv[2])
    uvicorn.run(
        application, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", lifespan="off",
        log_level="error", access_log=False,
    )  # fmt: skip
