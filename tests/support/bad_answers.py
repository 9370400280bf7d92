"""One table of answers on which nothing may run. Every client is tested against all of it.

A row has the stages at which it is given (`decide`: an allow at once; `poll`: after a question; `claim`; `message`:
over a socket) and makes the bad answer out of the honest one. `sooner` rows are for clients with a short time limit.
"""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.fake_gate import Answer, Json, frame, plain, response

HTTP = ("decide", "poll", "claim")
ALL = (*HTTP, "message")
VERDICTS = ("decide", "poll", "message")
OTHER = {"command": "rm -rf /"}
BIG = 3 << 20  # bytes: more than any client reads


@dataclass(frozen=True)
class BadAnswer:
    """One row."""

    name: str
    stages: tuple[str, ...]
    make: Callable[[Json], Answer]
    sooner: bool = False

    def __str__(self) -> str:
        return self.name


def _wrong(name: str, stages: tuple[str, ...], **fields: Any) -> BadAnswer:
    """The honest answer with other fields; a field of `...` is left out."""

    def make(honest: Json) -> Answer:
        result = copy.deepcopy(honest)
        for field, value in fields.items():
            if value is ...:
                result.pop(field, None)
            else:
                result[field] = value
        return _as_sent(result)

    return BadAnswer(name, stages, make)


def _as_sent(value: Any) -> Answer:
    """As a WebSocket frame where it is a message, else as an HTTP answer."""
    if isinstance(value, dict) and value.get("type") == "decision":
        return Answer([frame(json.dumps(value).encode())], close=False)
    return plain(value)


def _text(name: str, stages: tuple[str, ...], change: Callable[[str], str]) -> BadAnswer:
    """The honest answer's JSON text, changed."""

    def make(honest: Json) -> Answer:
        data = change(json.dumps(honest)).encode("utf-8", "surrogatepass")
        return Answer([frame(data)], close=False) if honest.get("type") == "decision" else Answer([response(data)])

    return BadAnswer(name, stages, make)


def _http(name: str, make: Callable[[bytes], list[bytes | float]], *, sooner: bool = False) -> BadAnswer:
    """The honest answer's body in a bad envelope."""
    return BadAnswer(name, HTTP, lambda honest: Answer(make(json.dumps(honest).encode())), sooner)


def _status(status: str) -> BadAnswer:
    return _http(f"status {status}", lambda body: [response(body, status)])


def _chunked(body: bytes, end: bytes = b"0\r\n\r\n", **headers: str) -> bytes:
    head = response(b"", content_length=None, transfer_encoding="chunked", **headers)  # type: ignore[arg-type]
    return head + f"{len(body):x}\r\n".encode() + body + b"\r\n" + end


def _padded(body: bytes) -> bytes:
    """The same JSON with more white space than anybody reads."""
    return body[:-1] + b" " * BIG + body[-1:]


# Another call, other arguments, another digest.
WRONG = [
    _wrong("another call", ALL, call_id="c2"),
    _wrong("another run", ("decide", "poll", "message"), run="another run"),
    _wrong("a claim of another run", ("claim",), run="another run"),
    _wrong("another attempt", ALL, attempt=2),
    _wrong("no attempt", VERDICTS, attempt=...),
    _wrong("an attempt that is no number", ALL, attempt="1"),
    _wrong("an attempt that is true", ALL, attempt=True),
    _wrong("no call", ALL, call_id=...),
    _wrong("no run", VERDICTS, run=...),
    _wrong("no digest", ALL, args_sha256=...),
    _wrong("an empty digest", ALL, args_sha256=""),
    _wrong("another digest", ALL, args_sha256="0" * 64),
    _wrong("a digest in capitals", ALL, args_sha256="A" * 64),
    _wrong("another digest of the call", ALL, call_sha256="0" * 64),
    _wrong("other arguments under the old digest", ALL, args=OTHER),
    _wrong("no arguments to claim", ("claim",), args=...),
    _wrong("arguments that have no canonical form", ALL, args={"n": 2**60}),
    _wrong("another tool", VERDICTS, tool={"name": "wipe", "source": ""}),
    _wrong("a claim for another tool", ("claim",), tool={"name": "wipe", "source": ""}),
    _wrong("a claim for another tool, by name", ("claim",), tool="wipe"),
    _wrong("a tool that is none", ALL, tool=7),
    _wrong("a tool by its name alone", ALL, tool="bash"),
    _wrong("a tool without its server", ALL, tool={"name": "bash"}),
    _wrong("a tool of another server", ALL, tool={"name": "bash", "source": "elsewhere"}),
    _wrong("another permit was claimed", ("claim",), permit="prm_other"),
    _wrong("another approval was answered", ("poll",), approval={"id": "apr_other", "state": "approved"}),
    _wrong("no decision", VERDICTS, decision=...),
    _wrong("an unknown decision", VERDICTS, decision="approve"),
    _wrong("a decision in capitals", VERDICTS, decision="ALLOW"),
    _wrong("a decision that is true", VERDICTS, decision=True),
    _wrong("a decision in a list", VERDICTS, decision=["allow"]),
    _wrong("a deny", VERDICTS, decision="deny"),
    _wrong("a question without a place to wait", VERDICTS, decision="ask", approval=None),
    _wrong("no permit", ("decide", "poll"), permit=None),
    _wrong("a permit without a name", ("decide", "poll"), permit={"id": ""}),
    _wrong("a permit that is a text", ("decide", "poll"), permit="prm_1"),
    _wrong("a claim that is not claimed", ("claim",), state="approved"),
    _wrong("a claim that says nothing", ("claim",), state=...),
]  # fmt: skip

# Good answers: what they leave out, servers need not say.
BRIEF = [
    _wrong("no digest of the call", ALL, call_sha256=...),
    _wrong("no tool", ALL, tool=...),
    _wrong("neither tool nor digest of the call", ALL, call_sha256=..., tool=...),
    _wrong("a claim of no run", ("claim",), run=..., attempt=...),
]

# Not one JSON object, in one reading.
UNREADABLE = [
    _text("an empty body", HTTP, lambda text: ""),
    _text("no JSON", HTTP, lambda text: "<html>allow</html>"),
    _text("half of it", ALL, lambda text: text[: len(text) // 2]),
    _text("two objects", ALL, lambda text: text + text),
    _text("a list", ALL, lambda text: f"[{text}]"),
    _text("null", ALL, lambda text: "null"),
    _text("a key twice", ALL, lambda text: text[:-1] + ', "call_id": "c1"}'),
    _text("the decision twice", VERDICTS, lambda text: text.replace("{", '{"decision": "deny", ', 1)),
    _text("NaN", ALL, lambda text: text[:-1] + ', "n": NaN}'),
    _text("a number out of range", ALL, lambda text: text[:-1] + ', "n": 1e999}'),
    _text("half a surrogate pair", ALL, lambda text: text[:-1] + ', "n": "\\ud800"}'),
    _text("a byte order mark", HTTP, lambda text: "\ufeff" + text),
    _text("nested too deep", ALL, lambda text: text[:-1] + f', "n": {"[" * 200_000}{"]" * 200_000}}}'),
    _http("bytes that are not UTF-8", lambda body: [response(body[:-1] + b', "n": "\xff"}')]),
    _http("UTF-16", lambda body: [response(body.decode().encode("utf-16"))]),
]  # fmt: skip

# Statuses and heads.
ENVELOPES = [
    *map(_status, (
        "201 Created", "202 Accepted", "203 Non-Authoritative", "204 No Content", "205 Reset Content",
        "206 Partial Content", "207 Multi", "299 What", "300 Choices", "304 Not Modified", "400 Bad Request",
        "401 Unauthorized", "403 Forbidden", "404 Not Found", "410 Gone", "412 Precondition Failed",
        "418 Teapot", "429 Slow Down", "500 Error", "503 Away", "600 Odd",
    )),
    *[
        _http(f"a redirect {code}", lambda body, code=code: [response(body, f"{code} There", location="/elsewhere")])
        for code in (301, 302, 303, 307, 308)
    ],
    _http("HTML", lambda body: [response(body, content_type="text/html")]),
    _http("plain text", lambda body: [response(body, content_type="text/plain")]),
    _http("nearly JSON", lambda body: [response(body, content_type="application/jsonx")]),
    _http("no content type", lambda body: [response(body, content_type=None)]),  # type: ignore[arg-type]
    _http("another charset", lambda body: [response(body, content_type="application/json; charset=utf-16")]),
    _http("compressed though nobody asked", lambda body: [
        response(gzip.compress(body), content_encoding="gzip")]),
    _http("a bomb", lambda body: [response(gzip.compress(_padded(body)), content_encoding="gzip")]),
    _http("a coding nobody knows", lambda body: [response(body, content_encoding="rot13")]),
    _http("too long", lambda body: [response(_padded(body))]),
    _http("too long in chunks", lambda body: [_chunked(_padded(body))]),
    _http("a head without end", lambda body: [b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 300_000]),
    _http("a length that is none", lambda body: [response(body, content_length="some")]),
    _http("a length below nothing", lambda body: [response(body, content_length="-1")]),
    _http("cut off", lambda body: [response(body + b" " * 50, content_length=str(len(body) + 50))[:-50]]),
    _http("cut off in the middle", lambda body: [response(body)[: -len(body) // 2]]),
    _http("cut off in the head", lambda body: [response(body)[:25]]),
    _http("a chunk without an end", lambda body: [_chunked(body, end=b"")]),
    _http("a chunk that is cut off", lambda body: [_chunked(body, end=b"40\r\nand")]),
    _http("nothing at all", lambda body: []),
    _http("garbage", lambda body: [b"\x00\x16\x03allow\r\n\r\n" + body]),
    _http("only 100 Continue", lambda body: [b"HTTP/1.1 100 Continue\r\n\r\n" * 3]),
    _http("garbage behind 100 Continue", lambda body: [b"HTTP/1.1 100 Continue\r\n\r\nallow\r\n\r\n" + body]),
    _http("100 Continue without end", lambda body: [b"HTTP/1.1 100 Continue\r\n\r\n" * 150_000]),
    _http("101 Switching Protocols", lambda body: [response(body, "101 Switching Protocols")]),
    _http("silence", lambda body: [8.0], sooner=True),
    _http("half a head, then silence", lambda body: [response(body)[:30], 8.0], sooner=True),
    _http("half a body, then silence", lambda body: [response(body)[: -len(body) // 2], 8.0], sooner=True),
    _http("a byte now and then", lambda body: [
        part for byte in response(body)[:40] for part in (bytes([byte]), 0.2)], sooner=True),
]  # fmt: skip


def _framed(name: str, make: Callable[[bytes], bytes], *, close: bool = False) -> BadAnswer:
    """The honest decision in bad WebSocket frames."""
    return BadAnswer(name, ("message",), lambda honest: Answer([make(json.dumps(honest).encode())], close))


FRAMES = [
    _framed("a binary message", lambda data: frame(data, 2)),
    _framed("a continuation of nothing", lambda data: frame(data, 0)),
    _framed("a message that does not end", lambda data: bytes([0x01, *frame(data)[1:]])),
    _framed("a message too long", lambda data: frame(data[:-1] + b" " * BIG + data[-1:])),
    _framed("more parts than anybody joins", lambda data: (
        b"\x01\x00" + b"\x00\x00" * 5_000 + bytes([0x80, *frame(data)[1:]]))),
    _framed("a masked frame", lambda data: bytes([0x81, 0x80 | 125]) + b"\0\0\0\0" + data),
    _framed("a compressed frame", lambda data: bytes([0xC1, *frame(data)[1:]])),
    _framed("half a frame, then the end", lambda data: frame(data)[: len(data) // 2], close=True),
    _framed("a frame that is not UTF-8", lambda data: frame(data[:-1] + b', "n": "\xff"}')),
]  # fmt: skip

TABLE = [*WRONG, *UNREADABLE, *ENVELOPES, *FRAMES]


def rows(*stages: str, sooner: bool = False, table: Sequence[BadAnswer] = TABLE) -> list[tuple[BadAnswer, str]]:
    """Return every row with each of these stages that it has."""
    return [(row, stage) for row in table if row.sooner == sooner for stage in stages if stage in row.stages]


def make_tamper(row: BadAnswer | None, stage: str) -> Callable[[str, Any], Answer | None]:
    """Return a `Gate.tamper` that gives this bad answer at this stage, every time."""
    return lambda now, honest: row.make(honest) if row is not None and now == stage else None
