"""A one-line summary of a tool call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import urlsplit

from toolcards.client.common.json_text import format_text
from toolcards.client.common.tool_kinds import find_server_in_name, parse_server
from toolcards.core.calls.card import Card

MAX_LENGTH = 200
_MAX_INPUT = 1000  # characters of an input that are read
_MAX_SCALARS = 2  # arguments in the summary of a tool of no known kind
_MAX_COMPARED_LINES = 200  # of an edit, on each side
_COMMAND = ("command", "cmd", "script", "code")
_PATH = ("file_path", "path", "filename", "filepath", "file", "notebook_path", "target_file")
_OLD, _NEW = ("old_string", "old_str", "old_text"), ("new_string", "new_str", "new_text", "content", "file_text")
_URL = ("url", "uri", "href")


def summarize(card: Card) -> str:
    """Return a line of up to 200 characters, unescaped."""
    line = (_format_server(card) + _summarize_input(card))[:_MAX_INPUT].replace("\n", " ").strip()
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…"


def has_whole_summary(card: Card) -> bool:
    """Return whether the summary says the whole input."""
    if not card.has_input or (card.approval is not None and card.approval.has_edited):
        return False
    line, value = _summarize_input(card), card.input
    if len(_format_server(card) + line) > MAX_LENGTH or "\n" in line:
        return False
    if not isinstance(value, dict):
        return _is_scalar(value)
    is_only_value = len(value) == 1 and line in value.values()
    is_flat = len(value) <= _MAX_SCALARS and all(map(_is_scalar, value.values()))
    return is_only_value or (is_flat and line == _summarize_scalars(value))


def _summarize_input(card: Card) -> str:
    if not card.has_input:
        return card.text.head(_MAX_INPUT)
    if not isinstance(card.input, dict):
        return format_text(card.input) if _is_scalar(card.input) else ""
    return _LINES.get(card.tool.kind, _summarize_scalars)(card.input) or _summarize_scalars(card.input)


def _format_server(card: Card) -> str:
    """Return `server › tool ` for `mcp__server__tool`."""
    source = card.tool.source or parse_server(card.tool.name)
    server = find_server_in_name(card.tool.name, source)
    return f"{server} › {card.tool.name.removeprefix(f'mcp__{server}__')} " if server else ""


def _summarize_command(arguments: dict[str, Any]) -> str:
    value = _get_first(arguments, _COMMAND)
    if isinstance(value, list):
        return " ".join(word for word in value if isinstance(word, str))
    return value if isinstance(value, str) else ""


def _summarize_edit(arguments: dict[str, Any]) -> str:
    path = _get_first(arguments, _PATH)
    if not isinstance(path, str):
        return ""
    edits = arguments.get("edits")
    changes = [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else [arguments]
    counts = [_count_changed_lines(_get_first(change, _OLD), _get_first(change, _NEW)) for change in changes]
    added_lines, removed_lines = sum(count for count, _ in counts), sum(count for _, count in counts)
    return f"{path} +{added_lines} −{removed_lines}" if added_lines or removed_lines else path


def _summarize_path(arguments: dict[str, Any]) -> str:
    value = _get_first(arguments, _PATH)
    return value if isinstance(value, str) else ""


def _summarize_url(arguments: dict[str, Any]) -> str:
    url = _get_first(arguments, _URL)
    if not isinstance(url, str):
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return url
    return host + (parts.path if parts.path != "/" else "") if host else url


def _summarize_scalars(arguments: dict[str, Any]) -> str:
    """Return the first two scalar arguments with their names."""
    plain = [f"{name}: {format_text(value)}" for name, value in arguments.items() if _is_scalar(value)]
    return ", ".join(plain[:_MAX_SCALARS])


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def _get_first(arguments: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((arguments[name] for name in names if name in arguments), None)


def _count_changed_lines(old: Any, new: Any) -> tuple[int, int]:
    """Return how many lines were added and removed; lines that both texts have do not count."""
    before, after = (text.splitlines() if isinstance(text, str) else [] for text in (old, new))
    while before and after and before[-1] == after[-1]:
        before.pop()
        after.pop()
    pairs = enumerate(zip(before, after, strict=False))
    start = next((number for number, (a, b) in pairs if a != b), min(len(before), len(after)))
    before, after = before[start:], after[start:]
    if max(len(before), len(after)) > _MAX_COMPARED_LINES:  # a comparison in order would take too long
        return (Counter(after) - Counter(before)).total(), (Counter(before) - Counter(after)).total()
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    shared_lines = sum(block.size for block in blocks)
    return len(after) - shared_lines, len(before) - shared_lines


_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "execute": _summarize_command,
    "edit": _summarize_edit,
    "read": _summarize_path,
    "delete": _summarize_path,
    "fetch": _summarize_url,
}
