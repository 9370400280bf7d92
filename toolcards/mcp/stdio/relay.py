"""The gateway over stdio: starts the server, and connects its streams with the client's."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from toolcards.client.transport.child_process import close_soon, end_soon, read_descriptor, read_lines
from toolcards.mcp.messages import (
    CALL,
    CANCELLED,
    INVALID_REQUEST,
    LIST,
    PARSE_ERROR,
    Message,
    find_key,
    format_id,
    get_object,
    is_request,
    is_response,
    make_error,
    make_progress,
    make_similar_id,
    parse,
    serialize,
)
from toolcards.mcp.session import DUPLICATE, HeldCall, Session
from toolcards.mcp.stdio.forms import PROGRESS, StdioForms

EXIT_PATIENCE = 10.0  # seconds for the server to exit after its client has gone
LIST_PATIENCE = 5.0  # seconds for the server to list its tools before a call
LIST_PAGES = 100


@dataclass
class OwnRequest:
    """A request of the gateway itself, whose response the client does not see."""

    is_answered: threading.Event = field(default_factory=threading.Event)
    result: Message = field(default_factory=dict)


class StdioRelay:
    """One server process and its client."""

    def __init__(self, session: Session, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._session, self._command, self._env = session, list(command), dict(env)
        self._to_server, self._to_client = threading.Lock(), threading.Lock()
        self._own_requests: dict[str, OwnRequest] = {}
        self._forms = StdioForms(session, self._write_server, self._write_client)

    def run(self, client_in: int, client_out: BinaryIO) -> int:
        """Relay until the server ends; return its exit code.

        `client_in` is a file descriptor.
        """
        self._client_out = client_out
        self._server = subprocess.Popen(  # noqa: S603 - named on the command line
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._env
        )
        self._pass_signals()
        threading.Thread(target=self._read_client, args=(client_in,), daemon=True).start()
        try:
            self._read_server()
        finally:
            self._session.end()
            close_soon(self._client_out, self._to_client)
        return self._server.wait()

    def _pass_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, lambda signal_number, frame: self._server.send_signal(signal_number))

    # ------------------------------------------------------------ client to server

    def _read_client(self, source: int) -> None:
        for line in read_descriptor(source):
            if line.strip():
                self._receive(line)
        with contextlib.suppress(OSError):
            self._server_in.close()
        end_soon(self._server, EXIT_PATIENCE)

    def _receive(self, line: bytes) -> None:
        try:
            message = parse(line)
            if not isinstance(message, (dict, list)):
                raise ValueError("A message must be a JSON object.")
        except ValueError as error:
            self._write_client(make_error(None, PARSE_ERROR, f"Toolcards cannot read this message: {error}"))
            return
        if isinstance(message, list):
            self._receive_batch(message)
        elif self._is_own_id(message):
            self._write_client(make_error(message["id"], INVALID_REQUEST, DUPLICATE))
        elif is_request(message, CALL):
            self._hold(message)
        elif isinstance(message, dict) and message.get("method") == CALL:
            return  # a call without an id cannot be answered, so it cannot be judged
        elif isinstance(message, dict) and message.get("method") == CANCELLED:
            if self._session.cancel(get_object(message, "params").get("requestId")):
                self._write_server(self._forms.cancel(message))
        else:
            if is_request(message):
                self._session.note_request(message)
            self._write_server(self._forms.declare(message))

    def _receive_batch(self, batch: list[Any]) -> None:
        """Forward a batch (protocol 2025-03-26) without its calls, which are answered one by one."""
        other_messages: list[Message] = []
        for each in batch:
            method = each.get("method") if isinstance(each, dict) else CALL
            if self._is_own_id(each):
                self._write_client(make_error(each["id"], INVALID_REQUEST, DUPLICATE))
            elif is_request(each, CALL):
                self._hold(each)
            elif method == CANCELLED:
                if self._session.cancel(get_object(each, "params").get("requestId")):
                    other_messages.append(self._forms.cancel(each))
            elif method != CALL:
                if is_request(each):
                    self._session.note_request(each)
                other_messages.append(each)
        if other_messages:
            self._write_server(other_messages)

    def _is_own_id(self, message: Any) -> bool:
        """Return whether a request of the client has the id of an open one of the gateway."""
        if not is_request(message):
            return False
        has_own_request = find_key(self._own_requests, message["id"]) in self._own_requests
        return has_own_request or self._forms.owns(message["id"])

    def _hold(self, request: Message) -> None:
        """Submit the call in a thread; other messages pass meanwhile."""
        call = self._session.begin_call(request)
        if call is None:
            self._write_client(make_error(request["id"], INVALID_REQUEST, DUPLICATE))
            return
        threading.Thread(target=self._decide, args=(call, request), daemon=True).start()

    def _decide(self, call: HeldCall, request: Message) -> None:
        self._fetch_tools(request)
        is_decided = threading.Event()
        token = get_object(get_object(request, "params"), "_meta").get("progressToken")
        if token is not None:
            threading.Thread(target=self._show_progress, args=(token, call, is_decided), daemon=True).start()
        try:
            verdict = self._session.decide(call, request)
        finally:
            is_decided.set()
        if verdict.answer is not None:
            self._write_client(verdict.answer)
        if verdict.request is not None and not self._write_server(self._forms.declare(verdict.request)):
            self._session.abandon(call, "The MCP server has exited.")

    def _show_progress(self, token: Any, call: HeldCall, is_decided: threading.Event) -> None:
        for count in itertools.count(1):
            if is_decided.wait(PROGRESS) or call.is_cancelled:
                return
            self._write_client(make_progress(token, count))

    def _fetch_tools(self, request: Message) -> None:
        """List the server's tools before a call if no current list is known."""
        if not self._session.tools.is_stale:
            return
        meta = get_object(get_object(request, "params"), "_meta")
        params: Message = {"_meta": {key: value for key, value in meta.items() if key != "progressToken"}}
        for _ in range(LIST_PAGES):
            number, own = make_similar_id(request["id"]), OwnRequest()
            own_request = {"jsonrpc": "2.0", "id": number, "method": LIST, "params": params}
            self._own_requests[format_id(number)] = own
            if not self._write_server(own_request) or not own.is_answered.wait(LIST_PATIENCE):
                return
            if not own.result.get("nextCursor"):
                return
            params = params | {"cursor": own.result["nextCursor"]}

    # ------------------------------------------------------------ server to client

    def _read_server(self) -> None:
        for line in read_lines(self._server):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):  # a server that prints something else: the client decides
                message = None
            own = self._own_requests.pop(format_id(message["id"]), None) if is_response(message) else None
            if own is None:
                self._pass_to_client(message, line)
            else:
                own.result = get_object(message, "result")
                self._session.tools.add_own_page(own.result)
                own.is_answered.set()

    def _pass_to_client(self, message: Any, line: bytes) -> None:
        """Forward the message unless it is a form for the gateway."""
        original = self._forms.restore_id(message)
        if not self._forms.take(original):
            self._session.note_message(original)
            self._write_client_bytes(line if original is message else serialize(original) + b"\n")

    # ------------------------------------------------------------ writing

    @property
    def _server_in(self) -> Any:
        return self._server.stdin

    def _write_server(self, message: Any) -> bool:
        """Write to the server; return False if it has ended."""
        with self._to_server:
            try:
                self._server_in.write(serialize(message) + b"\n")
                self._server_in.flush()
            except (OSError, ValueError):
                return False
        return True

    def _write_client(self, message: Message) -> None:
        self._write_client_bytes(serialize(message) + b"\n")

    def _write_client_bytes(self, line: bytes) -> None:
        with self._to_client, contextlib.suppress(OSError, ValueError):
            self._client_out.write(line)
            self._client_out.flush()
