"""JSON-RPC messages of MCP: strict parsing, one way of writing, and the gateway's own answers."""

from __future__ import annotations

import json
import math
import re
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

from toolcards.client.common.lookalikes import make_skeleton
from toolcards.client.common.tool_results import find_media, format_result, read_result
from toolcards.client.values.jsonable import shorten

Message = dict[str, Any]
CALL = "tools/call"
LIST = "tools/list"
ELICIT = "elicitation/create"
CANCELLED = "notifications/cancelled"
LIST_CHANGED = "notifications/tools/list_changed"
TASK_GET, TASK_RESULT, TASK_CANCEL = "tasks/get", "tasks/result", "tasks/cancel"
TASK_STATUS = "notifications/tasks/status"
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"  # in `_meta` of requests, from protocol 2026-07-28 on
_MESSAGE_NAMES = frozenset({"jsonrpc", "id", "method", "params"})
_CALL_NAMES = frozenset({"name", "arguments"})
_NO_LETTER = re.compile(r"[^a-z]+")
_DIGITS = re.compile(r"-?[0-9]{1,18}", re.ASCII)
DEEPEST = 200  # levels of nested values; a deeper message is refused
TOO_DEEP = "The message is nested too deeply."


def parse(data: bytes) -> Any:
    """Parse the JSON value strictly; raises ValueError.

    Refuses what parsers read differently: of two members with one name, some use the first and others the last, some
    take `Method` for `method` (Go's `encoding/json`), and some trim or fold a method's name.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_build_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
        )
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    if _is_deeper(value, DEEPEST):
        raise ValueError(TOO_DEEP)
    for message in value if isinstance(value, list) else [value]:
        _check_names(message, _MESSAGE_NAMES)
        _check_method(message)
        _check_id(message)
        _check_names(get_object(message, "params"), _CALL_NAMES)
    return value


def serialize(message: Any) -> bytes:
    """Return the message as ASCII JSON without a line feed."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")


def is_request(message: Any, method: str = "") -> bool:
    """Return whether it is a request, of the method if named."""
    return (
        isinstance(message, dict)
        and isinstance(message.get("method"), str)
        and message.get("id") is not None
        and (not method or message["method"] == method)
    )


def is_response(message: Any) -> bool:
    """Return whether it is the result or error of a request."""
    return isinstance(message, dict) and "method" not in message and "id" in message


def contains_call(message: Any) -> bool:
    """Return whether it is or contains a call.

    A batch with something that is no message counts as well.
    """
    messages = message if isinstance(message, list) else [message]
    return any(not isinstance(each, dict) or each.get("method") == CALL for each in messages)


def format_id(number: Any) -> str:
    """Return the key of a request id; 1 and "1" differ."""
    return json.dumps(number)


def list_spellings(number: Any) -> list[Any]:
    """Return other spellings of the id, such as 7 and "7"."""
    if isinstance(number, str):
        return [int(number)] if _DIGITS.fullmatch(number) else []
    is_number = isinstance(number, int) or (isinstance(number, float) and number.is_integer())
    return [int(number), str(int(number))] if is_number and not isinstance(number, bool) else []


def make_similar_id(number: Any) -> Any:
    """Return an id of the gateway that looks like the client's."""
    if isinstance(number, int):
        return number + secrets.choice(range(1 << 10, 1 << 16))
    if _DIGITS.fullmatch(number):
        return str(make_similar_id(int(number)))
    if len(number) == len(str(uuid.uuid4())):
        return str(uuid.uuid4())
    return re.sub(r"[0-9]+$", "", number)[:40] + str(secrets.choice(range(1 << 10, 1 << 16)))


def is_same_id(number: Any, own_number: Any) -> bool:
    """Return whether lenient programs take the two ids for one."""
    return any(format_id(each) == format_id(number) for each in (own_number, *list_spellings(own_number)))


def find_key(requests: Mapping[str, Any], number: Any) -> str:
    """Return the request's key that lenient programs find by this id."""
    keys = [format_id(each) for each in (number, *list_spellings(number))]
    return next((key for key in keys if key in requests), keys[0])


def get_object(message: Any, name: str) -> Message:
    """Return the member if it is an object, else an empty one."""
    value = message.get(name) if isinstance(message, dict) else None
    return value if isinstance(value, dict) else {}


def get_text(message: Any, name: str) -> str:
    """Return the member if it is a text, else ""."""
    value = message.get(name) if isinstance(message, dict) else None
    return value if isinstance(value, str) else ""


def make_error(number: Any, code: int, text: str) -> Message:
    """Return a JSON-RPC error for the client."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}


def make_tool_error(number: Any, text: str, code: str) -> Message:
    """Return a tool result that says why the call did not run.

    `resultType` is required from protocol 2026-07-28 on; older clients ignore it.
    """
    content = [{"type": "text", "text": text}]
    result = {"content": content, "isError": True, "resultType": "complete", "_meta": {"toolcards": {"code": code}}}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def make_progress(token: Any, count: int) -> Message:
    """Return a progress notification, which keeps the client waiting.

    The values stay far below those of the server, whose own progress has to increase after them.
    """
    params = {"progressToken": token, "progress": count * 1e-6, "message": "Waiting for an approval in Toolcards"}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def _check_names(members: Any, names: frozenset[str]) -> None:
    """Raise ValueError if a member has one of these names in another case."""
    for name in members if isinstance(members, dict) else ():
        if name not in names and name.casefold() in names:
            raise ValueError(f"The name {name!r} differs from {name.casefold()!r} only in case.")


def _check_method(message: Any) -> None:
    """Raise ValueError for a method that a lenient server may take for one that the gateway reads."""
    method = message.get("method", "") if isinstance(message, dict) else ""
    if not isinstance(method, str):
        raise ValueError("The method must be a text.")
    method_read = _METHODS_READ.get(_reduce(method), method)
    if method != method_read:
        raise ValueError(f"The method {method[:40]!r} can be mistaken for {method_read!r}.")


def _check_id(message: Any) -> None:
    """Write an integer such as 7.0 as servers answer it; raise ValueError for what is no id."""
    number = message.get("id") if isinstance(message, dict) else None
    if isinstance(number, float) and number.is_integer():
        message["id"] = int(number)
    elif isinstance(number, (bool, float, dict, list)):
        raise ValueError("The id must be a text or an integer.")


def _reduce(method: str) -> str:
    """Return the letters of a method as they look, whatever is between them."""
    return _NO_LETTER.sub("", make_skeleton(method))


_METHODS_READ = {_reduce(method): method for method in (
    CALL, LIST, ELICIT, CANCELLED, LIST_CHANGED, TASK_GET, TASK_RESULT, TASK_CANCEL, TASK_STATUS, "initialize",
)}  # fmt: skip


def _build_object(pairs: list[tuple[str, Any]]) -> Message:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("An object has a duplicate key.")
    return members


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON.")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"The number {text[:40]} is too large.")
    return number


def _is_deeper(value: Any, limit: int) -> bool:
    """Return whether the value has more than so many levels of objects and arrays."""
    level = [value]
    for _ in range(limit + 1):
        containers = [each for each in level if isinstance(each, (dict, list))]
        if not containers:
            return False
        level = [item for each in containers for item in (each.values() if isinstance(each, dict) else each)]
    return True


def read_output(result: Message) -> Any:
    """Return the output of a result, also of an old server."""
    parts = {name: result[name] for name in ("content", "structuredContent") if name in result}
    if not parts:
        return {name: part for name, part in result.items() if name not in ("_meta", "resultType")}
    return read_result(parts).output if isinstance(parts.get("content", []), list) else parts["content"]


def read_failure(result: Message) -> Message:
    """Return the error of a failed result, and its output."""
    error = {"message": format_result(result)[:8_000], "code": "tool_reported"}
    return {"error": error, "output": shorten(find_media(result))}


def read_error(error: Message) -> Message:
    """Return the gate's error for a JSON-RPC error of the server."""
    codes = {-32601: "no_such_tool", -32602: "invalid_input", -32700: "protocol", -32600: "protocol"}
    number = error.get("code")
    code = codes.get(number, "tool_failed") if isinstance(number, int) else "tool_failed"
    return {"message": get_text(error, "message")[:8_000] or f"Error {number}", "code": code}
