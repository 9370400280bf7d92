"""The relay: two threads that pass complete lines on, unchanged and in order."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from toolcards.acp.lines import parse_message, sift
from toolcards.acp.permission_requests import PermissionRequest, PermissionRequests
from toolcards.acp.sessions import Sessions
from toolcards.client import Toolcards
from toolcards.client.transport.child_process import close_soon, end_soon, read_descriptor, read_lines

Message = dict[str, Any]
HELD_BACK = "Toolcards blocked a message that it cannot read and that may be a permission request."
EXIT_PATIENCE = 10.0  # seconds for the agent to exit after its editor has gone


class Proxy:
    """One agent process. `gate`: its permission requests never reach the editor."""

    def __init__(
        self, cards: Toolcards, command: Sequence[str], *, gate: bool, agent: str, env: Mapping[str, str]
    ) -> None:
        self._command, self._gate, self._env = list(command), gate, dict(env)
        self._sessions = Sessions(cards, agent=agent, on_vote=self._apply_vote)
        self._requests = PermissionRequests(cards, self._sessions, self._reply)
        self._to_agent, self._to_editor, self._first = threading.Lock(), threading.Lock(), threading.Lock()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # ours, for the agent
        self._answered_ids: set[str] = set()  # requests answered at the dashboard before the editor

    def run(self, editor_in: int, editor_out: BinaryIO) -> int:
        """Relay until the agent ends; return its exit code.

        `editor_in` is a file descriptor.
        """
        self._out = editor_out
        self._agent: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - named on the command line
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._env
        )
        self._pass_signals()
        threading.Thread(target=self._from_editor, args=(editor_in,), daemon=True).start()
        threading.Thread(target=self._write_answers, daemon=True).start()
        try:
            self._from_agent()
        finally:
            self._requests.withdraw_all()
            close_soon(self._out, self._to_editor)
            self._sessions.close()
        return self._agent.wait()

    def _pass_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda signal_number, frame: self._agent.send_signal(signal_number))

    # ------------------------------------------------------------ editor to agent

    def _from_editor(self, source: int) -> None:
        for line in read_descriptor(source):
            msg = parse_message(line)
            if msg is not None and self._is_late_answer(msg):
                continue
            if msg is not None:
                self._copy(self._sessions.copy_editor_message, msg)
            self._write_agent(line)
            if msg is not None and msg.get("method") == "session/cancel":  # after the agent got the cancel
                self._requests.cancel(_get_session(msg))
        with contextlib.suppress(OSError):
            self._agent_in.close()
        end_soon(self._agent, EXIT_PATIENCE)

    def _is_late_answer(self, msg: Message) -> bool:
        """Return whether this is the editor's answer to a request already answered at the dashboard."""
        if "method" in msg or "id" not in msg:
            return False
        name = _format_id(msg["id"])
        with self._first:
            if not self._sessions.take_request(name, msg) and name in self._answered_ids:
                self._answered_ids.discard(name)
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
        for line in read_lines(self._agent):
            if self._gate:
                line, msg = self._hold_requests(line)
            else:
                msg = parse_message(line)
            if msg is not None:
                self._copy(self._sessions.copy_agent_message, msg)
            if line:
                self._write_editor(line)

    def _hold_requests(self, line: bytes) -> tuple[bytes, Message | None]:
        """Submit the permission requests of a line; return the bytes that may pass and its message."""
        sifted_line = sift(line)
        for msg in sifted_line.asks:
            self._requests.ask(msg)
        for number in sifted_line.held_back:
            error = {"code": -32600, "message": HELD_BACK}
            self._answer({"jsonrpc": "2.0", "id": number, "error": error})
            print(f"toolcards: {HELD_BACK}", file=sys.stderr, flush=True)  # noqa: T201 - the editor shows this as a log
        return sifted_line.passes, sifted_line.message

    def _copy(self, copy_message: Callable[[Message], None], msg: Message) -> None:
        """Copy a message to the server; failures do not stop the relay."""
        try:
            copy_message(msg)
        except Exception as error:
            print(f"toolcards: not mirrored: {error!r}", file=sys.stderr, flush=True)  # noqa: T201 - as above

    def _write_editor(self, line: bytes) -> None:
        with self._to_editor, contextlib.suppress(OSError, ValueError):
            self._out.write(line)
            self._out.flush()

    # ------------------------------------------------------------ our answers

    def _answer(self, message: Message) -> None:
        """Queue a message for the agent: one that writes and does not read must not stop the relay."""
        self._answers.put(json.dumps(message).encode() + b"\n")

    def _write_answers(self) -> None:
        while True:
            self._write_agent(self._answers.get())

    def _reply(self, request: PermissionRequest, result: Message) -> None:
        """Answer a permission request instead of the editor."""
        self._answer({"jsonrpc": "2.0", "id": request.id, "result": result})
        reason = result.get("_meta", {}).get("toolcards", {}).get("reason", "")
        if reason:
            print(f"toolcards: {reason}", file=sys.stderr, flush=True)  # noqa: T201 - the editor shows this as a log

    def _apply_vote(self, message: Message) -> None:
        """Apply a dashboard answer to a request that the editor also has; the first answer counts."""
        reply = message.get("reply")
        if not isinstance(reply, dict) or "id" not in reply:
            return
        name = _format_id(reply["id"])
        with self._first:
            result = self._sessions.check_vote(name, message)
            if result is None or not self._sessions.take_request(name):
                return
            self._answered_ids.add(name)
        self._answer({"jsonrpc": "2.0", "id": reply["id"], "result": result})


def _get_session(msg: Message) -> str:
    params = msg.get("params")
    return str(params.get("sessionId", "")) if isinstance(params, dict) else ""


def _format_id(number: Any) -> str:
    return json.dumps(number)


# The command line of the proxy.
ABOUT = "Run as a proxy between an editor and an agent (Agent Client Protocol)."
NOTE = "The address and key may also come from TOOLCARDS_URL and TOOLCARDS_AGENT_KEY."


def main(argv: Sequence[str], program: str = "toolcards") -> int:
    """Run the proxy until the agent ends; return the agent's exit code."""
    parser = argparse.ArgumentParser(prog=f"{program} acp", description=ABOUT, epilog=NOTE)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--gate", action="store_true", help="the gate answers permission requests (the default)")
    how.add_argument("--mirror", action="store_true", help="the editor asks too; the first answer counts")
    parser.add_argument("--url", default="", help="the server's address")
    parser.add_argument("--key", default="", help="an agent key; the environment variable is safer")
    parser.add_argument("--agent", default="", help="the agent's name on the dashboard")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- agent command")
    options = parser.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("name the agent's command after --")
    if shutil.which(command[0]) is None:
        parser.error(f"program not found: {command[0]!r}")
    try:
        cards = Toolcards(options.url, options.key)
    except ValueError as error:
        parser.error(str(error))
    name = options.agent or os.path.basename(command[0])  # noqa: PTH119 - a command, no file of ours
    env = {key: value for key, value in os.environ.items() if key != "TOOLCARDS_AGENT_KEY"}
    return Proxy(cards, command, gate=not options.mirror, agent=name, env=env).run(
        sys.stdin.fileno(), sys.stdout.buffer
    )
