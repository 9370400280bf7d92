"""A correct small gate on loopback, over HTTP and WebSocket, in which a test can falsify single answers.

It writes raw bytes, so that broken answers are possible as well. `Gate.tamper` gets each answer before it is sent:
`tamper(stage, honest) -> Answer None`; None leaves it unchanged. Stages: `decide`, `poll`, `claim`, `result`,
`withdraw`, `end`, and `message` for decisions over a socket.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from toolcards.client.common.canonical_json import call_digest, digest

Json = dict[str, Any]
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
LINGER = 2.0  # seconds after its end in which a gate refuses requests: in them each client sends its reports again
HEAD = "HTTP/1.1 {status}\r\n{headers}\r\n\r\n"


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole answer; a header of None is left out. `content_length` and `content_type` are filled in."""
    fields = {"content_type": "application/json", "content_length": str(len(body)), **headers}
    lines = "\r\n".join(f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value is not None)
    return HEAD.format(status=status, headers=lines).encode() + body


@dataclass
class Answer:
    """What is sent: pieces with pauses between them (seconds as floats), and whether the connection then ends."""

    pieces: list[bytes | float]
    close: bool = True


def plain(value: Any, *, close: bool = False, **more: Any) -> Answer:
    """Return an answer that is well formed as HTTP."""
    return Answer([response(json.dumps(value).encode(), **more)], close)


@dataclass
class Call:
    """One (run, call id, attempt) as the gate judged it."""

    run: str
    call_id: str
    attempt: int
    tool: str
    source: str
    args: Any
    effect: str
    permit: str
    approval: str = ""
    edited: Any = None
    claim_holder: str = ""  # by the claim of this id
    schema_sha256: str = ""

    @property
    def runs(self) -> Any:
        """The arguments that may run."""
        return self.args if self.edited is None else self.edited

    @property
    def binding(self) -> Json:
        """What binds an answer to the call."""
        return {
            "run": self.run, "call_id": self.call_id, "attempt": self.attempt, "args_sha256": digest(self.runs),
            "tool": {"name": self.tool, "source": self.source},
            "call_sha256": self._digest(self.runs),
        }  # fmt: skip

    def _digest(self, args: Any) -> str:
        return call_digest(args, name=self.tool, source=self.source, schema_sha256=self.schema_sha256)

    def decision(self, effect: str = "") -> Json:
        """The decision object."""
        effect = effect or self.effect
        approval = {"id": self.approval, "state": "pending" if effect == "ask" else "approved"}
        value = self.binding
        if effect == "ask":
            value["args_sha256"] = digest(self.args)
            value["call_sha256"] = self._digest(self.args)
        return {
            "v": 1, "decision": effect, **value, "by": {"kind": "rule"},
            "reason": {"code": f"rule_{effect}", "text": f"The test says {effect}."},
            "approval": approval if self.approval else None,
            "permit": {"id": self.permit, "expires_at": None} if effect == "allow" else None,
            **({"args": self.edited} if effect == "allow" and self.edited is not None else {}),
        }  # fmt: skip

    def claim(self) -> Json:
        """The answer to a claim."""
        return {"permit": self.permit, "state": "claimed", **self.binding, "args": self.runs}


Tamper = Callable[[str, Any], "Answer | None"]


@dataclass
class Gate:
    """The server. `effects` is the policy by tool; `edited` is a person's edit of a call that requires approval."""

    effects: dict[str, str] = field(default_factory=dict)
    edited: Any = None
    tamper: Tamper = lambda stage, honest: None
    idle: Callable[[int], bool] = lambda answer_count: False  # whether to close behind the n-th answer of a connection

    def __post_init__(self) -> None:
        self.calls: list[Call] = []
        self.requests: list[tuple[str, Json]] = []  # stage and body of every request
        self.connections = 0
        self._closes_at = math.inf
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Gate:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.settimeout(LINGER / 10)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Refuse for a moment what clients still send: they would send it for minutes, to who gets this port next."""
        self._closes_at = time.monotonic() + LINGER
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def stages(self) -> list[str]:
        """Return the stages of all requests, in order."""
        return [stage for stage, _ in self.requests]

    # ------------------------------------------------------------ connections

    def _accept(self) -> None:
        with self._listener:
            while time.monotonic() < self._closes_at:
                try:
                    connection, _ = self._listener.accept()
                except TimeoutError:
                    continue
                if self._closes_at < math.inf:
                    threading.Thread(target=_refuse, args=(connection,), daemon=True).start()
                else:
                    self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        self._open.append(connection)
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        file = connection.makefile("rb")
        answer_count = 0
        with contextlib.suppress(OSError, ValueError):
            while head := file.readline():
                method, path, _ = head.decode().split(" ", 2)
                headers = {}
                while (line := file.readline().decode().strip()) != "":
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                if "upgrade" in headers.get("connection", "").lower():
                    _Talk(self, connection, file, path, headers).serve()
                    break
                body = _body(file, headers)
                answer = self._answer(method, path, body)
                _send(connection, answer)
                answer_count += 1
                if answer.close or self.idle(answer_count) or headers.get("connection", "").lower() == "close":
                    break
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _answer(self, method: str, path: str, raw: bytes) -> Answer:
        body = json.loads(raw) if raw else {}
        parts = urlsplit(path).path
        if parts.endswith("/hooks/claude-code"):
            stage, honest = "hook", self._hook(body, raw)
        else:
            stage, honest = self._honest(method, parts, body)
        self.requests.append((stage, body))
        status = {"missing": "404 Not Found", "claim": "410 Gone"}[stage] if "error" in honest else "200 OK"
        return self.tamper(stage, honest) or plain(honest, status=status)

    def _honest(self, method: str, path: str, body: Any) -> tuple[str, Any]:
        parts = [unquote(part) for part in path.split("/")[3:]]
        with self._lock:
            match parts:
                case ["calls", "decide"]:
                    return "decide", self.judge(body).decision()
                case ["approvals", name, "withdraw"]:
                    return "withdraw", self._approval(name).decision("deny")
                case ["approvals", name]:
                    return "poll", self._approval(name).decision("allow")
                case ["permits", name, "claim"]:
                    call = next(call for call in self.calls if call.permit == name)
                    claim_id = body.get("claim_id") or "none"
                    if call.claim_holder not in {"", claim_id}:
                        return "claim", {"error": {"code": "used", "message": "This permit was already used."}}
                    call.claim_holder = claim_id
                    return "claim", call.claim()
                case ["calls", name, "result"]:
                    return "result", {"call_id": name, "state": "output-available"}
                case ["ingest"]:
                    return "ingest", {"run": "", "accepted": 1, "skipped": 0, "anomalies": 0, "seq": 1, "calls": []}
                case ["runs", name, "end"]:
                    return "end", {"run": name, "status": "finished", "seq": 1}
        return "missing", {"error": {"code": "not_found", "message": "no such address"}}

    def _hook(self, value: Json, raw: bytes) -> Json:
        """The output of a hook, with what it answers; a call that is asked about was edited, or approved as it is."""
        event = value["hook_event_name"]
        if event not in {"PreToolUse", "PermissionRequest"}:
            return {"toolcards": {"answers": hashlib.sha256(raw).hexdigest()}}
        fields = {"run": value["session_id"], "call_id": value.get("tool_use_id", ""), "args": value["tool_input"]}
        call = self.judge(fields | {"tool": value["tool_name"]})
        changed = {"updatedInput": call.edited} if call.edited is not None else {}
        effect = "deny" if call.effect == "deny" else "allow"
        payload: Json = {
            "permissionDecision": effect,
            "permissionDecisionReason": f"The test says {effect}.",
            **changed,
        }
        if event == "PermissionRequest":
            payload = {"decision": {"behavior": effect, **({"message": "No."} if effect == "deny" else changed)}}
        binding = {"answers": hashlib.sha256(raw).hexdigest(), **call.binding}
        silent = call.effect == "default"
        output = {} if silent else {"hookSpecificOutput": {"hookEventName": event, **payload}}
        return output | {"toolcards": binding}

    def _approval(self, name: str) -> Call:
        return next(call for call in self.calls if call.approval == name)

    def judge(self, body: Json) -> Call:
        """Return the call of a question, judged by its tool's name; the same question gets the same answer."""
        value = body["tool"]
        tool, source = (value, "") if isinstance(value, str) else (value["name"], value.get("source", ""))
        attempt = body.get("attempt", 1)
        for call in self.calls:
            if (call.run, call.call_id, call.attempt, call.tool) == (body["run"], body["call_id"], attempt, tool):
                return call
        number, effect = len(self.calls) + 1, self.effects.get(tool, "allow")
        call = Call(body["run"], body["call_id"], attempt, tool, source, body.get("args", {}), effect, f"prm_{number}")
        call.schema_sha256 = "" if isinstance(value, str) else value.get("schema_sha256", "")
        if effect == "ask":
            call.approval, call.edited = f"apr_{number}", self.edited
        self.calls.append(call)
        return call


class _Talk:
    """One agent socket: acks everything, decides each input that is whole, and answers what a person is asked."""

    def __init__(self, gate: Gate, connection: socket.socket, file: Any, path: str, headers: dict[str, str]) -> None:
        self.gate, self.connection, self.file, self.headers = gate, connection, file, headers
        query = dict(pair.split("=", 1) for pair in urlsplit(path).query.split("&"))
        self.run, self.frames = unquote(query["run"].replace("+", " ")), 0

    def serve(self) -> None:
        key = self.headers["sec-websocket-key"]
        accept = base64.b64encode(hashlib.sha1(f"{key}{GUID}".encode()).digest()).decode()
        upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}"
        self.connection.sendall(HEAD.format(status="101 Switching Protocols", headers=upgrade).encode())
        while (text := self._message()) is not None:
            said_frames = json.loads(text)
            for frame in said_frames if isinstance(said_frames, list) else [said_frames]:
                self.gate.requests.append((frame.get("type", "frame"), frame))
                self.frames += 1
                self.say(json.dumps({"type": "ack", "seq": self.frames, "frames": self.frames}))
                if frame.get("type") in {"tool.input.available", "tool.input.repaired"}:
                    self._decide(frame)

    def _decide(self, frame: Json) -> None:
        with self.gate._lock:
            call = self.gate.judge({**frame, "run": self.run, "args": frame["input"]})
        effects = ["ask", "allow"] if call.effect == "ask" else [call.effect]
        for effect in effects:
            honest = {"type": "decision", **call.decision(effect)}
            honest["permit"] = None
            answer = self.gate.tamper("message", honest)
            if answer is None:
                self.say(json.dumps(honest))
                continue
            _send(self.connection, answer)
            if answer.close:
                raise OSError

    def say(self, text: str) -> None:
        self.connection.sendall(frame(text.encode()))

    def _message(self) -> str | None:
        while True:
            head = self.file.read(2)
            if len(head) < 2:
                return None
            opcode, length = head[0] & 15, head[1] & 127
            if length == 126:
                (length,) = struct.unpack("!H", self.file.read(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self.file.read(8))
            mask = self.file.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.file.read(length)))
            if opcode == 8:
                with contextlib.suppress(OSError):
                    self.connection.sendall(b"\x88" + bytes([len(data)]) + data)
                return None
            if opcode == 9:
                self.connection.sendall(b"\x8a" + bytes([len(data)]) + data)
            elif opcode == 1:
                return data.decode()


def frame(payload: bytes, opcode: int = 1) -> bytes:
    """Return one whole frame as a server sends it."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x80 | opcode, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", 0x80 | opcode, 126, size) + payload
    return struct.pack("!BBQ", 0x80 | opcode, 127, size) + payload


def _refuse(connection: socket.socket) -> None:
    """Answer one request as a server that wants no such request again."""
    with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as file:
        headers = {}
        while line := file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        _body(file, headers)
        _send(connection, plain({"error": {"code": "gone", "message": "This gate is gone."}}, status="410 Gone"))


def _body(file: Any, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return bytes(file.read(int(headers.get("content-length", 0))))
    body = b""
    while size := int(file.readline(), 16):
        body += file.read(size)
        file.readline()
    file.readline()
    return body


def _send(connection: socket.socket, answer: Answer) -> None:
    for piece in answer.pieces:
        if isinstance(piece, float):
            time.sleep(piece)
        else:
            connection.sendall(piece)


AWAY = plain({"error": {"code": "away", "message": "later"}}, status="503 Away")


def answer_in_order(*answers: Answer | None, stage: str = "poll") -> Callable[[str, Any], Answer | None]:
    """Return a `Gate.tamper` with these answers at this stage, then the last one; None is the honest one."""
    remaining = list(answers)

    def tamper(now: str, honest: Any) -> Answer | None:
        return None if now != stage else remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return tamper
