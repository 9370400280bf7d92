"""Senders: sockets with and without numbers, and HTTP bodies with and without a key."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection

from tests.chaos.clients import CONNECTION_ERRORS, Http
from tests.chaos.ledger import Book
from tests.chaos.load import Client

WINDOW = 300  # frames without an acknowledgement, at most
BATCH, PAUSE = 4, 0.04  # frames at once, and the seconds between: about 100 frames a second
BROKEN = (*CONNECTION_ERRORS, WebSocketException)


def _text(mark: str) -> dict[str, Any]:
    return {"type": "text.delta", "text": f"[{mark}]"}


class Streamer(Client):
    """A socket whose frames have no numbers: what had no acknowledgement is not sent again."""

    mode = "observe"

    def work(self) -> None:
        """Send until the load ends, on one socket after the other."""
        book, created = self.ledger.book(self.run), 0
        while self.goes_on():
            outstanding: deque[str] = deque()
            acked = 0
            try:
                with self.connect() as socket:
                    while self.goes_on() or (outstanding and self.may_finish()):
                        for _ in range(BATCH if self.goes_on() and len(outstanding) < WINDOW else 0):
                            created += 1
                            outstanding.append(f"{self.tag}k{created}")
                            socket.send(json.dumps(_text(outstanding[-1])))
                        for message in self.receive_messages(socket):
                            for _ in range(message["frames"] - acked if message["type"] == "ack" else 0):
                                book.acked.append(outstanding.popleft())
                                acked += 1
                                self.succeed()
            except BROKEN as error:
                self.refuse(error)
            book.unknown += outstanding

    def connect(self) -> ClientConnection:
        """Open the run's socket."""
        return self.server.socket(protocol="native", run=self.run, agent=self.kind, mode=self.mode)

    def receive_messages(self, socket: ClientConnection) -> Iterator[dict[str, Any]]:
        """Yield what the server says within a moment; a refused frame ends the connection."""
        end = time.monotonic() + PAUSE
        while (seconds := end - time.monotonic()) > 0:
            try:
                message = json.loads(socket.recv(timeout=seconds))
            except TimeoutError:
                return
            if message["type"] == "error":
                self.ledger.refuse(f"{self.kind}: {message.get('code')}")
                raise ConnectionError(message.get("code"))
            yield message


class NumberedStreamer(Streamer):
    """A socket whose frames have numbers: what had no acknowledgement is sent again on the next socket."""

    def work(self) -> None:
        """Send until everything is acknowledged."""
        book = self.ledger.book(self.run)
        frames: list[str] = []
        first = 0  # frames that are acknowledged
        while self.goes_on() or (first < len(frames) and self.may_finish()):
            base = following = first
            try:
                with self.connect() as socket:
                    while self.goes_on() or (first < len(frames) and self.may_finish()):
                        if self.goes_on() and len(frames) - first < WINDOW:
                            frames += [self._frame(len(frames) + step) for step in range(1, BATCH + 1)]
                        for frame in frames[following:]:
                            socket.send(frame)
                        following = len(frames)
                        for message in self.receive_messages(socket):
                            if message["type"] == "ack":
                                self._note(book, first, base + message["frames"])
                                first = base + message["frames"]
                                self.succeed()
            except BROKEN as error:
                self.refuse(error)
        book.unknown += [f"{self.tag}k{n}" for n in range(first + 1, len(frames) + 1) if n % 10 > 5 or n % 10 == 0]

    def _frame(self, n: int) -> str:
        """Return frame n. Of each ten, five make a call with its result; the others are text."""
        call_id = f"c{n - n % 10}"
        frames: dict[int, dict[str, Any]] = {
            1: {"type": "tool.input.started", "call_id": call_id, "tool": "read_file"},
            2: {"type": "tool.input.delta", "call_id": call_id, "delta": '{"path":'},
            3: {"type": "tool.input.delta", "call_id": call_id, "delta": f'"{call_id}"}}'},
            4: {"type": "tool.input.available", "call_id": call_id, "tool": "read_file", "input": {"path": call_id}},
            5: {"type": "tool.output.available", "call_id": call_id, "output": f"out {call_id}"},
        }
        return json.dumps({"n": n} | frames.get(n % 10, _text(f"{self.tag}k{n}")))

    def _note(self, book: Book, first: int, last: int) -> None:
        for n in range(first + 1, last + 1):
            if n % 10 > 5 or n % 10 == 0:
                book.acked.append(f"{self.tag}k{n}")
            elif n % 10 == 5:
                book.calls[f"c{n - 5}"] = {"input": {"path": f"c{n - 5}"}, "output": f"out c{n - 5}"}


class Poster(Client):
    """HTTP bodies without a key: what had no answer is not sent again."""

    keyed = slow = False

    def work(self) -> None:
        """Post one body after the other until the load ends."""
        agent, book, created = Http(self.server), self.ledger.book(self.run), 0
        while self.goes_on():
            marks = [f"{self.tag}k{created + step}" for step in range(8)]
            created += 8
            accepted = self._post(agent, marks)
            (book.acked if accepted else book.unknown).extend(marks)
            self.stop.wait(PAUSE)
        agent.close()

    def _post(self, agent: Http, marks: list[str]) -> bool:
        """Send one body, with a key until it is accepted; returns whether it was."""
        path = f"/api/v1/ingest?protocol=native&run={quote(self.run)}&agent={self.kind}"
        headers = {"Content_Type": "application/x-ndjson"}
        if self.keyed:
            headers["Idempotency_Key"] = uuid.uuid4().hex
        while True:
            try:
                status, result = agent.send("POST", path, self._body(marks), **headers)
                if status == 200:
                    self.succeed()
                    return True
                self.refuse(f"{status} {result['error']['code'] if isinstance(result, dict) else ''}")
            except CONNECTION_ERRORS as error:
                self.refuse(error)
            if not self.keyed or not self.may_finish():
                return False
            time.sleep(0.3)

    def _body(self, marks: list[str]) -> Any:
        lines = [json.dumps(_text(mark)).encode() + b"\n" for mark in marks]
        return self._slowly(lines) if self.slow else b"".join(lines)

    @staticmethod
    def _slowly(lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            yield line
            time.sleep(0.1)


class KeyedPoster(Poster):
    """HTTP bodies with an idempotency key, which are sent again until they are accepted."""

    keyed = True


class SlowKeyedPoster(KeyedPoster):
    """The same, with bodies that take most of a second, so that faults cut them."""

    slow = True
