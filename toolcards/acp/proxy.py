"""The relay: two threads that pass lines on, each line whole, as it came, and in its order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from toolcards.acp.lines import read, sift
from toolcards.acp.questions import Question, Questions
from toolcards.acp.sessions import Sessions
from toolcards.client import Toolcards

Said = dict[str, Any]
REFUSED = "Toolcards held back a message that may be a permission request, and that it cannot read."
PARTING = 10.0  # seconds that an agent has to end once its editor is gone


class Proxy:
    """One agent process. `gate`: its permission requests never reach the editor."""

    def __init__(
        self, cards: Toolcards, command: Sequence[str], *, gate: bool, agent: str, env: Mapping[str, str]
    ) -> None:
        self._command, self._gate, self._env = list(command), gate, dict(env)
        self._sessions = Sessions(cards, agent=agent, heard=self._voted)
        self._questions = Questions(cards, self._sessions, self._reply)
        self._to_agent, self._to_editor, self._first = threading.Lock(), threading.Lock(), threading.Lock()
        self._answered: set[str] = set()  # requests that a person at the dashboard answered before the editor

    def run(self, editor_in: int, editor_out: BinaryIO) -> int:
        """Relay until the agent ends; return its exit code. `editor_in` is a file descriptor."""
        self._out = editor_out
        self._agent: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - named on the command line
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._env
        )
        self._pass_signals()
        threading.Thread(target=self._from_editor, args=(editor_in,), daemon=True).start()
        try:
            self._from_agent()
        finally:
            self._questions.withdraw_all()
            self._sessions.close()
        return self._agent.wait()

    def _pass_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda got, frame: self._agent.send_signal(got))

    # ------------------------------------------------------------ editor to agent

    def _from_editor(self, source: int) -> None:
        for line in _lines(source):
            msg = read(line)
            if msg is not None and self._swallows(msg):
                continue
            if msg is not None:
                self._copied(self._sessions.editor_said, msg)
            self._write_agent(line)
            if msg is not None and msg.get("method") == "session/cancel":  # the agent hears of the cancel first
                self._questions.cancel(_session(msg))
        with contextlib.suppress(OSError):
            self._agent_in.close()
        threading.Timer(PARTING, self._agent.terminate).start()

    def _swallows(self, msg: Said) -> bool:
        """An editor's answer to a question that somebody at the dashboard has answered."""
        if "method" in msg or "id" not in msg:
            return False
        name = _name(msg["id"])
        with self._first:
            if not self._sessions.answered(name, msg) and name in self._answered:
                self._answered.discard(name)
                return True
        return False

    @property
    def _agent_in(self) -> Any:
        return self._agent.stdin

    def _write_agent(self, line: bytes) -> None:
        with self._to_agent, contextlib.suppress(OSError, ValueError):
            self._agent_in.write(line)
            self._agent_in.flush()

    # ------------------------------------------------------------ agent to editor

    def _from_agent(self) -> None:
        assert self._agent.stdout is not None
        for line in iter(self._agent.stdout.readline, b""):
            if self._gate:
                line, msg = self._sifted(line)
            else:
                msg = read(line)
            if msg is not None:
                self._copied(self._sessions.agent_said, msg)
            if line:
                self._write_editor(line)

    def _sifted(self, line: bytes) -> tuple[bytes, Said | None]:
        """Ask the gate about the permission requests of a line; return what of it may pass, and its message."""
        sifted = sift(line)
        for msg in sifted.asks:
            self._questions.ask(msg)
        for number in sifted.refused:
            error = {"code": -32600, "message": REFUSED}
            self._write_agent(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n")
            print(f"toolcards: {REFUSED}", file=sys.stderr, flush=True)  # noqa: T201 - the editor shows this as a log
        return sifted.passes, sifted.message

    def _copied(self, copy: Callable[[Said], None], msg: Said) -> None:
        """Whatever cannot be copied to the server passes all the same."""
        try:
            copy(msg)
        except Exception as error:
            print(f"toolcards: not copied: {error!r}", file=sys.stderr, flush=True)  # noqa: T201 - as above

    def _write_editor(self, line: bytes) -> None:
        with self._to_editor, contextlib.suppress(OSError, ValueError):
            self._out.write(line)
            self._out.flush()

    # ------------------------------------------------------------ answers of ours

    def _reply(self, question: Question, result: Said) -> None:
        """Answer a permission request in the editor's place."""
        self._write_agent(json.dumps({"jsonrpc": "2.0", "id": question.id, "result": result}).encode() + b"\n")
        told = result.get("_meta", {}).get("toolcards", {}).get("reason", "")
        if told:
            print(f"toolcards: {told}", file=sys.stderr, flush=True)  # noqa: T201 - the editor shows this as a log

    def _voted(self, said: Said) -> None:
        """A person at the dashboard answered a question that the editor was asked too: the first answer counts."""
        reply = said.get("reply")
        if not isinstance(reply, dict) or "id" not in reply:
            return
        name = _name(reply["id"])
        with self._first:
            result = self._sessions.voted(name, said)
            if result is None or not self._sessions.answered(name):
                return
            self._answered.add(name)
        answer = {"jsonrpc": "2.0", "id": reply["id"], "result": result}
        self._write_agent(json.dumps(answer).encode() + b"\n")


def _lines(source: int) -> Iterator[bytes]:
    """The lines of a file descriptor. Not of a file: a thread that waits in one may not be left behind."""
    rest = b""
    while chunk := os.read(source, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _session(msg: Said) -> str:
    told = msg.get("params")
    return str(told.get("sessionId", "")) if isinstance(told, dict) else ""


def _name(number: Any) -> str:
    return json.dumps(number)
