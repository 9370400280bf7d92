"""What a tool's result says: its output, or the error that it reports, in every shape that clients and servers use.

All results are read here: of adapters and hooks (`InputRouter` in core/runs), of the MCP gateway, of our clients. What
the model reads is never hidden behind a structured value, and an error is a text, never the spelling of a container.

Permission requests of the Agent Client Protocol show calls in the same blocks. Some have no raw input: title, kind,
content and places then are what is asked about. Of those, only an edit with its whole difference says all that would
happen: equal titles, commands shown as differences or edits of unknown kind may be other calls.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .json_text import is_same_json, parse

__all__ = [
    "ToolResult", "add_request", "describe_request", "find_differences", "find_exit_code", "find_media",
    "format_result", "is_description", "is_exact", "read_result",
]  # fmt: skip

_RESULT = frozenset({"content", "structuredContent", "isError", "_meta", "resultType"})  # members of an MCP result
_NAMES = {"structured_content": "structuredContent", "is_error": "isError", "meta": "_meta"}
_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link", "diff"})
_TEXT_BLOCK = frozenset({"type", "text", "annotations", "_meta", "meta", "id", "index", "extras", "citations"})
_WRAPPERS = frozenset({"content", "terminal"})  # blocks of the Agent Client Protocol around others, or without a text
_HOSTED = ("call", "mcp_call")  # hosted MCP of OpenAI
_ERROR_TYPES = ("error-text", "error-json")
_CALL_IDS = frozenset({"tool_call_id", "toolUseId", "tool_use_id"})
_ENVELOPE = _CALL_IDS | {
    "type", "content", "value", "is_error", "isError", "status", "name", "id", "call_id", "resultType",
    "textResultForLlm",
}  # fmt: skip
_STREAMS = ("stdout", "stderr")
_FULL_TEXTS = ("aggregated_output", "formatted_output")
_WORDS = (  # names in lower case, since some write `Error` and `Message`
    "output", "error", "err", "errormessage", "errortext", "message", "msg", "text", "content", "contents", "value",
    "reason", "detail", "details", "llmcontent", "textresultforllm", "result", "toolresult", "errors", "issues",
    "failure", "cause", "resource", "title", "description", "stack",
)  # fmt: skip
_EXIT_CODES = ("exit_code", "exitCode", "exit", "returncode", "return_code")
_NO_WORDS = frozenset({"isError", "_meta", "resultType", "metadata", *_EXIT_CODES})
_PARTS = ("title", "kind", "content", "locations")
_UNREPORTED = "rawInput"  # null in a described input that does not say everything
_DEEPEST = 12
_BLOCKS_AS_TEXT = re.compile(r'\s*\[\s*\{\s*"type"\s*:\s*"')  # libraries that pass on texts alone write blocks as JSON


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The output of a call, and the `error` if it failed (None: it worked).

    The output of a failed call is what its error is shown with, such as a picture: its texts are in the error.
    """

    output: Any
    error: str | None = None


def read_result(value: Any) -> ToolResult:
    """Return the output, or the error that the result reports."""
    if isinstance(value, dict):
        value = _spell_as_on_wire(value)
    if isinstance(value, dict) and _is_mcp_result(value):
        if value.get("isError") is True:
            return ToolResult(find_media(value), format_result(value))
        return ToolResult(_join_output(value))
    if isinstance(value, dict) and value.get("type") in _HOSTED and value.get("error"):
        return ToolResult(None, format_result(value["error"]) or "The server reported an error.")
    if isinstance(value, dict) and _reports_error(value):
        is_known = {name for name, part in value.items() if not _is_wordless(part)} <= _ENVELOPE
        return ToolResult(find_media(value) if is_known else value, format_result(_get_failed_part(value)))
    if isinstance(value, str):
        return ToolResult((find_media(parse(value)[1]) if _BLOCKS_AS_TEXT.match(value) else None) or value)
    blocks = _list_blocks(value)
    return ToolResult(value if blocks is None else _join_blocks(blocks))


def format_result(value: Any) -> str:
    """Return the text of a result or an error.

    That is JSON if it has no text, and "" if it is empty. A structured value stands below the text.
    """
    text = _find_text(value, 0)
    structured_value = value.get("structuredContent") if text and isinstance(value, dict) else None
    if structured_value and value.get("content") and not _says(text, structured_value):
        return f"{text}\n{json.dumps(structured_value, ensure_ascii=False)}"
    if text or value is None or isinstance(value, str):
        return text
    if ending := _describe_exit(value):
        return ending
    parts: Any = value
    if isinstance(value, list):
        parts = [part for part in value if not _is_block(part)]
    elif isinstance(value, dict):
        named_parts = {name: part for name, part in value.items() if name not in _NO_WORDS and not _is_wordless(part)}
        parts = {} if _is_block(value) else named_parts
    return "" if parts in ({}, []) else json.dumps(parts, ensure_ascii=False, default=str)


def find_media(*values: Any) -> list[dict[str, Any]] | None:
    """Return the blocks of the first result that has more than text."""
    for value in values:
        blocks = _list_blocks(value.get("content") if isinstance(value, dict) else value)
        output = None if blocks is None else _join_blocks(blocks)
        if isinstance(output, list):
            return output
    return None


def find_exit_code(value: Any) -> int | None:
    """Return the exit code that a result of a program names."""
    codes = [value[name] for name in _EXIT_CODES if type(value.get(name)) is int] if isinstance(value, dict) else []
    return codes[0] if codes else None


def _describe_exit(value: Any) -> str:
    """Return how a program without output ended, "" if the result does not say so."""
    exit_code, signal = find_exit_code(value), value.get("signal") if isinstance(value, dict) else None
    if exit_code is None and isinstance(signal, str) and signal:
        return f"ended by {signal}"
    return "" if exit_code is None else f"exit code {exit_code}"


def _find_text(value: Any, depth: int) -> str:
    """Return the texts in a value, "" if it has none."""
    if isinstance(value, str):
        return value if value.strip() else ""
    if depth > _DEEPEST:
        return ""
    if isinstance(value, list):
        return "\n".join(text for part in value if (text := _find_text(part, depth + 1)))
    if not isinstance(value, dict):
        return ""
    for name in _FULL_TEXTS:
        if isinstance(value.get(name), str) and value[name]:
            return str(value[name])
    streams = [value[name].rstrip("\n") for name in _STREAMS if isinstance(value.get(name), str) and value[name]]
    if streams:
        return "\n".join(streams)
    parts = {name.lower(): part for name, part in value.items()}
    for name in _WORDS:
        if text := _find_text(parts.get(name), depth + 1):
            return text
    structured_value = value.get("structuredContent")
    return json.dumps(structured_value, ensure_ascii=False) if structured_value else ""


def _is_block(value: Any) -> bool:
    """Return whether the value is a picture, a sound, a file or a terminal: it has no words."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind in _BLOCKS | _WRAPPERS


def _is_wordless(value: Any) -> bool:
    return value is None or value in ("", [], {}) or (isinstance(value, list) and all(map(_is_block, value)))


def _spell_as_on_wire(value: dict[str, Any]) -> dict[str, Any]:
    """Return an MCP result with the names of the wire; libraries of Python write others."""
    if not value.keys() & _NAMES.keys() or not {_NAMES.get(name, name) for name in value} <= _RESULT:
        return value
    return {_NAMES.get(name, name): part for name, part in value.items()}


def _reports_error(value: dict[str, Any]) -> bool:
    """Return whether a result says so by a member that clients have for it.

    Those are Anthropic and AutoGen, AI SDK, LangChain, Bedrock and Copilot.
    """
    is_named = not _CALL_IDS.isdisjoint(value) or value.get("type") == "tool"
    return (
        value.get("is_error") is True
        or value.get("isError") is True
        or (value.get("type") in _ERROR_TYPES and "value" in value)
        or (value.get("status") == "error" and "content" in value and is_named)
        or (value.get("resultType") == "failure" and "textResultForLlm" in value)
    )


def _get_failed_part(value: dict[str, Any]) -> Any:
    """Return what has the words of a failure."""
    return value["value"] if value.get("type") in _ERROR_TYPES else value.get("content") or value


def _is_mcp_result(value: dict[str, Any]) -> bool:
    is_shaped = isinstance(value.get("content"), list) or value.get("isError") is True
    return (is_shaped and value.keys() <= _RESULT) or ("structuredContent" in value and value.keys() <= _RESULT)


def _join_output(result: dict[str, Any]) -> Any:
    """Return what the model reads, with the structured value next to it unless both say the same."""
    content, structured_value = result.get("content"), result.get("structuredContent")
    blocks = _list_blocks(content)
    output = content if blocks is None else _join_blocks(blocks)
    if structured_value is None:
        return output
    if not output or _says(output, structured_value):
        return structured_value
    return {"content": content, "structuredContent": structured_value}


def _says(output: Any, structured_value: Any) -> bool:
    is_json, value = parse(output) if isinstance(output, str) else (True, output)
    is_wrapped = isinstance(structured_value, dict) and structured_value.keys() == {"result"}
    return (is_json and is_same_json(value, structured_value)) or (
        is_wrapped
        and (is_same_json(output, structured_value["result"]) or is_same_json(value, structured_value["result"]))
    )


def _list_blocks(value: Any) -> list[dict[str, Any]] | None:
    """Return the blocks of a content, without what is around them in ACP; None for other values."""
    if not isinstance(value, list) or not value:
        return None
    blocks = []
    for part in value:
        is_wrapper = isinstance(part, dict) and part.get("type", "content") == "content"
        block = part["content"] if is_wrapper and isinstance(part.get("content"), dict) else part
        kind = block.get("type", "text" if is_wrapper else None) if isinstance(block, dict) else None
        if kind == "terminal":
            continue
        if not isinstance(kind, str) or kind not in _BLOCKS:
            return None
        blocks.append(block)
    return blocks


def _join_blocks(blocks: list[dict[str, Any]]) -> Any:
    """Return the text of blocks that are only text, else the blocks."""
    is_text = all(block.keys() <= _TEXT_BLOCK and isinstance(block.get("text"), str) for block in blocks)
    if is_text:
        return "\n".join(block["text"] for block in blocks) if blocks else None
    return blocks


# ---------------------------------------------------------------- permission requests


def describe_request(call: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the request shows of its call, None with raw input."""
    if call.get("rawInput") not in (None, {}):
        return None
    parts = {name: call[name] for name in _PARTS if call.get(name) not in (None, "", [], {})}
    return parts if _is_whole_edit(parts) else parts | {_UNREPORTED: None}


def add_request(call_input: Any, request: Any) -> Any:
    """Return a call's input with what a request shows of it.

    Requests show what changed. An input that the agent reported stays.
    """
    if not (is_description(call_input) and is_description(request)):
        return call_input
    parts = {name: part for name, part in (call_input | request).items() if name != _UNREPORTED}
    return parts if _is_whole_edit(parts) else parts | {_UNREPORTED: None}


def is_exact(value: Any) -> bool:
    """Return whether an equal input means the same call."""
    return not is_description(value) or (_UNREPORTED not in value and _is_whole_edit(value))


def is_description(value: Any) -> bool:
    """Return whether an input only describes its call."""
    is_shaped = isinstance(value, dict) and value.keys() <= {*_PARTS, _UNREPORTED} and value.get(_UNREPORTED) is None
    return is_shaped and (_UNREPORTED in value or bool(find_differences(value.get("content"))))


def find_differences(content: Any) -> list[dict[str, Any]]:
    """Return the differences among the blocks of a content."""
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "diff"]


def _is_whole_edit(parts: dict[str, Any]) -> bool:
    differences = find_differences(parts.get("content"))
    return parts.get("kind") == "edit" and bool(differences) and all(map(_is_whole, differences))


def _is_whole(difference: dict[str, Any]) -> bool:
    path, new_text, old_text = (difference.get(name) for name in ("path", "newText", "oldText"))
    return (
        bool(path) and isinstance(path, str) and isinstance(new_text, str) and isinstance(old_text, (str, type(None)))
    )
