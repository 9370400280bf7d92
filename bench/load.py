"""The load: many WebSockets on one epoll loop, frames built beforehand, acknowledgements read in bulk.

Frames are masked with zeros, which leaves their text as it is: building one is copying bytes.
"""

import base64
import contextlib
import os
import re
import selectors
import socket
import struct
import time

_ACK = re.compile(rb'"frames": ?(\d+)')


def frame(text: bytes) -> bytes:
    """Return one text message as a client sends it."""
    size = len(text)
    if size < 126:
        return struct.pack("!BB4x", 0x81, 0x80 | size) + text
    if size < 1 << 16:
        return struct.pack("!BBH4x", 0x81, 0x80 | 126, size) + text
    return struct.pack("!BBQ4x", 0x81, 0x80 | 127, size) + text


def opened(port: int, path: str, headers: dict[str, str] | None = None) -> socket.socket:
    """Return a connected WebSocket, ready for bytes."""
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *(f"{k}: {v}" for k, v in (headers or {}).items()),
    ]  # fmt: skip
    link.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        got = link.recv(1)
        if not got:
            raise ConnectionError(head.decode())
        head += got
    if not head.startswith(b"HTTP/1.1 101"):
        raise ConnectionError(head.decode())
    return link


def agent(port: int, key: str, run: str, mode: str = "observe") -> socket.socket:
    """Return an agent's socket."""
    path = f"/ws/agent/?protocol=native&run={run}&agent=bench&mode={mode}"
    return opened(port, path, {"Authorization": f"Bearer {key}"})


# ---------------------------------------------------------------- what agents say

WORDS = "the quick brown fox jumps over the lazy dog while it rains in the mountains and nobody looks up from work "
DELTA = 100  # characters


class Talk:
    """A run's frames, endlessly: calls of `deltas` pieces each, about 200 bytes a frame, each with its number."""

    def __init__(self, deltas: int = 97, size: int = DELTA) -> None:
        text = (WORDS * 2)[:size]
        whole = text * deltas
        pieces = [b'"type":"tool.input.started","call_id":"c%09d","tool":"write_file"']
        first, last = '{\\"path\\":\\"notes.txt\\",\\"text\\":\\"', '\\"}'
        for index in range(deltas):
            said = (first if index == 0 else "") + text + (last if index == deltas - 1 else "")
            pieces.append(b'"type":"tool.input.delta","call_id":"c%09d","delta":"' + said.encode() + b'"')
        args = ('{"path":"notes.txt","text":"' + whole + '"}').encode()
        pieces.append(b'"type":"tool.input.available","call_id":"c%09d","tool":"write_file","input":' + args)
        pieces.append(b'"type":"tool.output.available","call_id":"c%09d","output":{"written":%d}' % (0, len(whole)))
        pieces[-1] = pieces[-1].replace(b"c000000000", b"c%09d")
        self.frames = len(pieces)
        self._pieces = []
        for piece in pieces:
            # `n` has ten places, its comma included; what it leaves over is white space.
            whole_frame = frame(b'{"n":' + b"#" * 10 + piece.replace(b"%09d", b"@" * 9) + b"}")
            head, rest = whole_frame.split(b"#" * 10)
            before, after = rest.split(b"@" * 9)
            self._pieces.append((head, before, after))
        self._call = self._number = 0

    def block(self) -> bytes:
        """Return the next call's frames."""
        self._call += 1
        call, number, parts = b"%09d" % self._call, self._number, []
        for head, before, after in self._pieces:
            number += 1
            parts += (head, (b"%d," % number).ljust(10), before, call, after)
        self._number = number
        return b"".join(parts)


class Sender:
    """A socket that always has something to say, within a window of unacknowledged frames."""

    def __init__(self, link: socket.socket, talk: Talk, window: int) -> None:
        link.setblocking(False)
        self.link, self.talk, self.window = link, talk, window
        self.sent = self.acked = 0
        self._out = b""
        self._tail = b""

    def fileno(self) -> int:
        return self.link.fileno()

    def write(self) -> bool:
        """Send what fits; whether there is more to send at once."""
        if not self._out and self.sent - self.acked + self.talk.frames <= self.window:
            self._out = self.talk.block()
            self.sent += self.talk.frames
        if self._out:
            with contextlib.suppress(BlockingIOError):
                self._out = self._out[self.link.send(self._out) :]
        return bool(self._out) or self.sent - self.acked + self.talk.frames <= self.window

    def read(self) -> None:
        """Read acknowledgements: the last one counts."""
        got = self.link.recv(1 << 18)
        if not got:
            raise ConnectionError("the server closed a socket")
        text = self._tail + got
        found = _ACK.findall(text[-400:])
        if found and text[-400:].rstrip()[-1:] == b"}":
            self.acked = max(self.acked, int(found[-1]))
        elif len(found) > 1:
            self.acked = max(self.acked, int(found[-2]))
        self._tail = text[-200:]


def pump(senders: list[Sender], seconds: float, drains: list["Drain"] | None = None) -> int:
    """Keep everybody talking for so long; return how many frames were acknowledged meanwhile."""
    selector = selectors.DefaultSelector()
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    for sender in senders:
        selector.register(sender, both)
    for drain in drains or ():
        selector.register(drain, selectors.EVENT_READ)
    before, until = sum(s.acked for s in senders), time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        for key, events in selector.select(left):
            who = key.fileobj
            if events & selectors.EVENT_READ:
                who.read()
            wants = both if isinstance(who, Sender) and who.write() else selectors.EVENT_READ
            if wants != key.events:
                selector.modify(who, wants)
    selector.close()
    return sum(s.acked for s in senders) - before


def quiet(senders: list[Sender], seconds: float = 10) -> None:
    """Finish what was begun, so that the next measurement starts with an idle server."""
    until = time.perf_counter() + seconds
    for sender in senders:
        sender.window = 0
    while any(s.acked < s.sent for s in senders) and time.perf_counter() < until:
        pump(senders, 0.05)


def acknowledged(link: socket.socket, frames: int, seconds: float = 30) -> None:
    """Wait until that many frames of the connection are acknowledged."""
    link.settimeout(seconds)
    got = b""
    while not any(int(found) >= frames for found in _ACK.findall(got)):
        more = link.recv(1 << 16)
        if not more:
            raise ConnectionError("the server closed before it acknowledged")
        got = got[-100:] + more


class Drain:
    """A watcher that reads and counts bytes and frames."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self.link, self.bytes, self.frames = link, 0, 0
        self._need, self._head, self._ping = 0, b"", None

    def fileno(self) -> int:
        return self.link.fileno()

    def read(self) -> bytes:
        """Read what is there."""
        got = self.link.recv(1 << 18)
        if not got:
            raise ConnectionError("the server closed a watcher")
        self.bytes += len(got)
        self._count(got)
        return got

    def _count(self, got: bytes) -> None:
        at = 0
        while at < len(got):
            if self._need:
                step = min(self._need, len(got) - at)
                if self._ping is not None:
                    self._ping += got[at : at + step]
                self._need -= step
                at += step
                self._pong()
                continue
            self._head += got[at : at + 1]
            at += 1
            need = 2 if len(self._head) < 2 else {126: 4, 127: 10}.get(self._head[1] & 0x7F, 2)
            if len(self._head) == need and len(self._head) >= 2:
                short = self._head[1] & 0x7F
                self._need = short if short < 126 else int.from_bytes(self._head[2:], "big")
                self.frames += self._head[0] & 0x0F in (0, 1)
                self._ping = b"" if self._head[0] & 0x0F == 9 else None
                self._head = b""
                self._pong()

    def _pong(self) -> None:
        """Answer a ping that is whole: a watcher that does not is closed after some time."""
        if self._ping is not None and not self._need:
            with contextlib.suppress(BlockingIOError):
                self.link.send(struct.pack("!BB4x", 0x8A, 0x80 | len(self._ping)) + self._ping)
            self._ping = None


def drained(drains: list[Drain], seconds: float) -> None:
    """Let the watchers read for so long."""
    pump([], seconds, drains)
