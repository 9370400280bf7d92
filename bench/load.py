"""The load: many WebSockets on one epoll loop, frames built beforehand, acknowledgements read in bulk.

Frames are masked with zeros, so their text stays as it is and building one only copies bytes.
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


def open_socket(port: int, path: str, headers: dict[str, str] | None = None) -> socket.socket:
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
        piece = link.recv(1)
        if not piece:
            raise ConnectionError(head.decode())
        head += piece
    if not head.startswith(b"HTTP/1.1 101"):
        raise ConnectionError(head.decode())
    return link


def agent(port: int, key: str, run: str, mode: str = "observe") -> socket.socket:
    """Return an agent's socket."""
    path = f"/ws/agent/?protocol=native&run={run}&agent=bench&mode={mode}"
    return open_socket(port, path, {"Authorization": f"Bearer {key}"})


# ---------------------------------------------------------------- frames of agents

WORDS = "the quick brown fox jumps over the lazy dog while it rains in the mountains, no one looks up from work "
DELTA = 100  # characters


class Talk:
    """An endless source of a run's frames: calls of `deltas` pieces each, about 200 bytes a frame, numbered."""

    def __init__(self, deltas: int = 97, size: int = DELTA) -> None:
        text = (WORDS * 2)[:size]
        full_text = text * deltas
        pieces = [b'"type":"tool.input.started","call_id":"c%09d","tool":"write_file"']
        first, last = '{\\"path\\":\\"notes.txt\\",\\"text\\":\\"', '\\"}'
        for index in range(deltas):
            piece_text = (first if index == 0 else "") + text + (last if index == deltas - 1 else "")
            pieces.append(b'"type":"tool.input.delta","call_id":"c%09d","delta":"' + piece_text.encode() + b'"')
        args = ('{"path":"notes.txt","text":"' + full_text + '"}').encode()
        pieces.append(b'"type":"tool.input.available","call_id":"c%09d","tool":"write_file","input":' + args)
        pieces.append(b'"type":"tool.output.available","call_id":"c%09d","output":{"written":%d}' % (0, len(full_text)))
        pieces[-1] = pieces[-1].replace(b"c000000000", b"c%09d")
        self.frames = len(pieces)
        self._pieces = []
        for piece in pieces:
            # `n` has ten places including its comma, filled up with spaces.
            whole_frame = frame(b'{"n":' + b"#" * 10 + piece.replace(b"%09d", b"@" * 9) + b"}")
            head, remainder = whole_frame.split(b"#" * 10)
            before, after = remainder.split(b"@" * 9)
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
    """A socket that always has frames to send, within a window of unacknowledged frames."""

    def __init__(self, link: socket.socket, talk: Talk, window: int) -> None:
        link.setblocking(False)
        self.link, self.talk, self.window = link, talk, window
        self.sent_count = self.acked_count = 0
        self._out = b""
        self._tail = b""

    def fileno(self) -> int:
        return self.link.fileno()

    def write(self) -> bool:
        """Send what fits; return whether there is more to send at once."""
        if not self._out and self.sent_count - self.acked_count + self.talk.frames <= self.window:
            self._out = self.talk.block()
            self.sent_count += self.talk.frames
        if self._out:
            with contextlib.suppress(BlockingIOError):
                self._out = self._out[self.link.send(self._out) :]
        return bool(self._out) or self.sent_count - self.acked_count + self.talk.frames <= self.window

    def read(self) -> None:
        """Read acknowledgements; the last one has the total."""
        piece = self.link.recv(1 << 18)
        if not piece:
            raise ConnectionError("the server closed a socket")
        text = self._tail + piece
        counts = _ACK.findall(text[-400:])
        if counts and text[-400:].rstrip()[-1:] == b"}":
            self.acked_count = max(self.acked_count, int(counts[-1]))
        elif len(counts) > 1:
            self.acked_count = max(self.acked_count, int(counts[-2]))
        self._tail = text[-200:]


def pump(senders: list[Sender], seconds: float, drains: list["Drain"] | None = None) -> int:
    """Keep all senders sending; return the number of frames acknowledged."""
    selector = selectors.DefaultSelector()
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    for sender in senders:
        selector.register(sender, both)
    for drain in drains or ():
        selector.register(drain, selectors.EVENT_READ)
    before, deadline = sum(s.acked_count for s in senders), time.perf_counter() + seconds
    while (seconds_left := deadline - time.perf_counter()) > 0:
        for key, events in selector.select(seconds_left):
            peer = key.fileobj
            if events & selectors.EVENT_READ:
                peer.read()
            wants = both if isinstance(peer, Sender) and peer.write() else selectors.EVENT_READ
            if wants != key.events:
                selector.modify(peer, wants)
    selector.close()
    return sum(s.acked_count for s in senders) - before


def wait_until_idle(senders: list[Sender], seconds: float = 10) -> None:
    """Wait until all sent frames are acknowledged and the server is idle."""
    deadline = time.perf_counter() + seconds
    for sender in senders:
        sender.window = 0
    while any(s.acked_count < s.sent_count for s in senders) and time.perf_counter() < deadline:
        pump(senders, 0.05)


def acknowledged(link: socket.socket, frames: int, seconds: float = 30) -> None:
    """Wait until that many frames of the connection are acknowledged."""
    link.settimeout(seconds)
    text = b""
    while not any(int(count) >= frames for count in _ACK.findall(text)):
        more = link.recv(1 << 16)
        if not more:
            raise ConnectionError("the server closed the connection before it acknowledged")
        text = text[-100:] + more


class Drain:
    """A watcher that reads and counts bytes and frames."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self.link, self.bytes, self.frames = link, 0, 0
        self._need, self._head, self._ping = 0, b"", None

    def fileno(self) -> int:
        return self.link.fileno()

    def read(self) -> bytes:
        """Read and count what has arrived."""
        piece = self.link.recv(1 << 18)
        if not piece:
            raise ConnectionError("the server closed a watcher")
        self.bytes += len(piece)
        self._count(piece)
        return piece

    def _count(self, piece: bytes) -> None:
        position = 0
        while position < len(piece):
            if self._need:
                step = min(self._need, len(piece) - position)
                if self._ping is not None:
                    self._ping += piece[position : position + step]
                self._need -= step
                position += step
                self._pong()
                continue
            self._head += piece[position : position + 1]
            position += 1
            need = 2 if len(self._head) < 2 else {126: 4, 127: 10}.get(self._head[1] & 0x7F, 2)
            if len(self._head) == need and len(self._head) >= 2:
                short = self._head[1] & 0x7F
                self._need = short if short < 126 else int.from_bytes(self._head[2:], "big")
                self.frames += self._head[0] & 0x0F in (0, 1)
                self._ping = b"" if self._head[0] & 0x0F == 9 else None
                self._head = b""
                self._pong()

    def _pong(self) -> None:
        """Answer a complete ping; the server closes watchers that do not answer."""
        if self._ping is not None and not self._need:
            with contextlib.suppress(BlockingIOError):
                self.link.send(struct.pack("!BB4x", 0x8A, 0x80 | len(self._ping)) + self._ping)
            self._ping = None


def drain(drains: list[Drain], seconds: float) -> None:
    """Let the watchers read for that many seconds."""
    pump([], seconds, drains)
