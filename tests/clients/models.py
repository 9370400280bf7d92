"""Language models that say what a scenario wants: the Messages API and chat completions, streamed, on loopback.

The prompt `SCENARIO:<name>` picks the script; a script is a list of turns, a turn a list of texts and calls.
What the agent sent back as results is kept in `results`: that is what a real model would have read.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Call:
    """A tool call that the model makes; `raw` instead of the input where it is no JSON."""

    id: str
    tool: str
    input: Any = None
    raw: str = ""

    @property
    def text(self) -> str:
        """The input as it is streamed."""
        return self.raw or json.dumps(self.input)


Turn = list[str | Call]
Script = list[Turn]
Event = tuple[str, dict[str, Any]]


class FakeModel:
    """A server with scripts. `results`: call id -> the result that the agent reported."""

    def __init__(
        self, scripts: dict[str, Script], speak: Callable[[dict[str, Any], Turn], Iterator[str]], dialect: Any
    ):
        self.scripts, self._speak, self._dialect = scripts, speak, dialect
        self.results: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def turn(self, payload: dict[str, Any]) -> Turn:
        """Return what the model says now: as many turns on as it has spoken since the scenario was named."""
        messages = payload.get("messages", [])
        self.results |= self._dialect.results(messages)
        prompt_indexes = [
            at for at, m in enumerate(messages) if m["role"] == "user" and "SCENARIO:" in json.dumps(m["content"])
        ]
        if not prompt_indexes or not payload.get("tools"):
            return ["ok"]
        matches = re.findall(r"SCENARIO:([\w-]+)", json.dumps(messages[prompt_indexes[-1]]["content"]))
        script = self.scripts.get(matches[-1], [["ok"]])
        turn_count = sum(message["role"] == "assistant" for message in messages[prompt_indexes[-1] :])
        return script[min(turn_count, len(script) - 1)]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._json({})

            def do_GET(self) -> None:
                self._json({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
                if "messages" not in payload or "count_tokens" in self.path:
                    self._json({"input_tokens": 10})
                elif not payload.get("stream"):
                    self._json(model._dialect.short(payload))
                else:
                    self._stream(model._speak(payload, model.turn(payload)))

            def _json(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def _stream(self, pieces: Iterator[str]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    for piece in pieces:
                        self.wfile.write(piece.encode())
                        self.wfile.flush()
                except OSError:
                    pass
                self.close_connection = True

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        return Handler


def anthropic(scripts: dict[str, Script]) -> FakeModel:
    """Return a model that speaks the Messages API."""
    return FakeModel(scripts, _messages, _Anthropic)


def openai(scripts: dict[str, Script]) -> FakeModel:
    """Return a model that speaks chat completions."""
    return FakeModel(scripts, _completions, _OpenAI)


# ---------------------------------------------------------------- the Messages API


class _Anthropic:
    @staticmethod
    def results(messages: list[Any]) -> dict[str, str]:
        blocks = (block for m in messages if isinstance(m["content"], list) for block in m["content"])
        value = (block for block in blocks if block.get("type") == "tool_result")
        return {block["tool_use_id"]: _flat(block.get("content")) for block in value}

    @staticmethod
    def short(payload: dict[str, Any]) -> dict[str, Any]:
        text = [{"type": "text", "text": "ok"}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        rest = {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage, "model": payload.get("model")}
        return {"id": "msg_short", "type": "message", "role": "assistant", "content": text} | rest


def _messages(payload: dict[str, Any], turn: Turn) -> Iterator[str]:
    def event(kind: str, **value: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind} | value)}\n\n"

    usage = {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": "msg_fake", "type": "message", "role": "assistant", "model": payload["model"], "content": []}
    yield event("message_start", message=message | {"stop_reason": None, "stop_sequence": None, "usage": usage})
    for index, part in enumerate(turn):
        is_call = isinstance(part, Call)
        block: dict[str, Any] = {"type": "text", "text": ""}
        if isinstance(part, Call):
            block = {"type": "tool_use", "id": part.id, "name": part.tool, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        for piece in _pieces(part.text if isinstance(part, Call) else part):
            delta = (
                {"type": "input_json_delta", "partial_json": piece}
                if is_call
                else {"type": "text_delta", "text": piece}
            )
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stop = "tool_use" if any(isinstance(part, Call) for part in turn) else "end_turn"
    yield event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
    yield event("message_stop")


# ---------------------------------------------------------------- chat completions


class _OpenAI:
    @staticmethod
    def results(messages: list[Any]) -> dict[str, str]:
        return {m["tool_call_id"]: _flat(m.get("content")) for m in messages if m["role"] == "tool"}

    @staticmethod
    def short(payload: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        return {
            "id": "short",
            "object": "chat.completion",
            "created": 0,
            "model": payload["model"],
            "choices": [choice],
        }


def _completions(payload: dict[str, Any], turn: Turn) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        fields = {
            "id": "fake",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": payload["model"],
            "choices": [choice],
        }
        return f"data: {json.dumps(fields)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    calls = [part for part in turn if isinstance(part, Call)]
    for part in turn:
        if isinstance(part, Call):
            index = calls.index(part)
            about = {"id": part.id, "type": "function", "function": {"name": part.tool, "arguments": ""}}
            yield chunk({"tool_calls": [{"index": index} | about]})
            for piece in _pieces(part.text):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        else:
            for piece in _pieces(part):
                yield chunk({"content": piece})
    yield chunk({}, "tool_calls" if calls else "stop")
    yield "data: [DONE]\n\n"


def _pieces(text: str, size: int = 12) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _flat(content: Any) -> str:
    """The text of a result, without the asides that the program adds for its model."""
    if isinstance(content, list):
        content = "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return re.sub(r"\s*<system-reminder>.*?</system-reminder>", "", str(content or ""), flags=re.DOTALL)
