"""Edits as differences: the input of tools that change files, and text that is a unified diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.cards.labels import render_icon
from dashboard.cards.payloads.ansi import render_code_lines
from dashboard.cards.payloads.excerpts import MAX_CHARACTERS_WAITING, format_value
from dashboard.cards.safe_text import mark_html

MAX_CHARACTERS = 24_000
MAX_LINES = 400  # of each side; the time of a comparison grows faster than their product
_PAIRS = (("old_string", "new_string"), ("old_text", "new_text"), ("oldText", "newText"), ("old_str", "new_str"))
_PAIR_NAMES = frozenset(name for names in _PAIRS for name in names)
_PATHS = ("file_path", "path", "filePath", "filename", "file")
_CONTENTS = ("content", "contents", "file_text")
_BLOCK = frozenset({"type", "path", "oldText", "newText"})
_UNIFIED = re.compile(r"^--- .*\n\+\+\+ .*\n@@ |^diff --git ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in a file; without `before`, the complete content is written."""

    path: str
    before: str | None
    after: str


def list_edits(arguments: Any) -> tuple[list[Edit], dict[str, Any]]:
    """Return the edits that an input requests, and its other fields.

    No edits for an input of another shape.
    """
    if not isinstance(arguments, dict):
        return [], {}
    path_name = next((name for name in _PATHS if isinstance(arguments.get(name), str)), "")
    if not path_name:
        return _take_blocks(arguments)
    path, other_fields = arguments[path_name], {name: part for name, part in arguments.items() if name != path_name}
    has_pair = not _PAIR_NAMES.isdisjoint(other_fields)
    edits = [edit for names in _PAIRS if (edit := _take_pair(other_fields, names, path))] if has_pair else []
    if not edits and isinstance(other_fields.get("edits"), list):
        edits = _take_list(other_fields, path)
    if not edits:
        name = next((name for name in _CONTENTS if isinstance(other_fields.get(name), str)), "")
        edits = [Edit(path, None, other_fields.pop(name))] if name else []
    return (edits, other_fields) if edits and all(_fits(edit) for edit in edits) else ([], arguments)


def _take_blocks(arguments: dict[str, Any]) -> tuple[list[Edit], dict[str, Any]]:
    """Return the differences that a permission request of the Agent Client Protocol shows."""
    blocks = arguments.get("content")
    edits, other_blocks = [], []
    for block in blocks if isinstance(blocks, list) else []:
        edit = _read_block(block)
        if edit is not None and _fits(edit):
            edits.append(edit)
        else:
            other_blocks.append(block)
    if not edits:
        return [], arguments
    other_fields = {name: part for name, part in arguments.items() if name != "content"}
    return edits, other_fields | ({"content": other_blocks} if other_blocks else {})


def _read_block(block: Any) -> Edit | None:
    if not isinstance(block, dict) or block.get("type") != "diff" or not block.keys() <= _BLOCK:
        return None
    path, before, after = (block.get(name) for name in ("path", "oldText", "newText"))
    is_edit = isinstance(path, str) and isinstance(after, str) and isinstance(before, str | None)
    return Edit(str(path), before, str(after)) if is_edit else None


def is_unified_diff(text: str) -> bool:
    """Return whether the text is a unified diff, as git prints it."""
    return bool(_UNIFIED.search(text[:4_000]))


def render_edit(edit: Edit) -> str:
    """Render the edit as removed, added and unchanged lines."""
    after = render_code_lines(edit.after, edit.path)
    if edit.before is None:
        lines = [("+", line) for line in after]
    else:
        before = render_code_lines(edit.before, edit.path)
        lines = _compare(edit.before.split("\n"), edit.after.split("\n"), before, after)
    if len(lines) > 1 and lines[-1][1] == "" and lines[-1][0] != "-":
        del lines[-1]  # the part after the last line end
    title = f"<h4>{render_icon('file-pen')}<code>{mark_html(edit.path)}</code>{_render_counts(lines)}</h4>"
    return f'<div class="patch">{title}<pre tabindex="0">{_render_lines(lines)}</pre></div>'


def render_unified_diff(text: str) -> str:
    """Return a unified diff as HTML."""
    lines = []
    for line in text.removesuffix("\n").split("\n"):
        sign = line[:1] if line[:1] in "+-@" and not line.startswith(("+++ ", "--- ")) else " "
        lines.append((sign, mark_html(line if sign in " @" else line[1:])))
    return f'<div class="patch"><pre tabindex="0">{_render_lines(lines)}</pre></div>'


def _take_pair(fields: dict[str, Any], names: tuple[str, str], path: str) -> Edit | None:
    before, after = map(fields.get, names)
    if not (isinstance(before, str) and isinstance(after, str)):
        return None
    return Edit(path, fields.pop(names[0]), fields.pop(names[1]))


def _take_list(fields: dict[str, Any], path: str) -> list[Edit]:
    """Return the edits of a list; none if one of them is not a pair of texts."""
    edits = []
    for item in fields["edits"]:
        other_fields = dict(item) if isinstance(item, dict) else {}
        edit = next((edit for names in _PAIRS if (edit := _take_pair(other_fields, names, path))), None)
        if edit is None or other_fields:
            return []
        edits.append(edit)
    if edits:
        del fields["edits"]
    return edits


def _fits(edit: Edit) -> bool:
    if edit.before is None:
        return len(edit.after) <= MAX_CHARACTERS
    return all(len(text) <= MAX_CHARACTERS and text.count("\n") <= MAX_LINES for text in (edit.before, edit.after))


def _compare(old: list[str], new: list[str], old_html: list[str], new_html: list[str]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for operation, i1, i2, j1, j2 in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if operation == "equal":
            lines += [(" ", line) for line in new_html[j1:j2]]
        else:
            lines += [("-", line) for line in old_html[i1:i2]] + [("+", line) for line in new_html[j1:j2]]
    return lines


def _render_counts(lines: list[tuple[str, str]]) -> str:
    added_count, removed_count = (sum(sign == each for sign, _ in lines) for each in "+-")
    return f'<span class="size">+{added_count} −{removed_count}</span>'


def _render_lines(lines: Sequence[tuple[str, str]]) -> str:
    tags = {"+": ("ins", "+ "), "-": ("del", "− "), "@": ("b", "")}
    parts = []
    for sign, html in lines:
        tag, prefix = tags.get(sign, ("span", "  "))
        parts.append(f"<{tag}>{prefix}{html}</{tag}>\n")
    return "".join(parts)


# What a repair or a person changed in an input, line by line; a change that does not fit says so.
MAX_COMPARED_LINES = 200  # of each side of a change
MAX_DIFF_LINES = 400  # of a change that are shown
CONTEXT_LINES = 3  # around a change


def diff_lines(before: Any, after: Any) -> list[tuple[str, str]]:
    """Return what a repair or a person changed, with its context.

    Each line is (sign, text); the sign is `+`, `-` or a space, or `…` for a last line that says what is missing.
    """
    old, new = (format_value(value).split("\n") for value in (before, after))
    head = _count_common(old, new)
    tail = min(_count_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    lines = [(" ", line) for line in old[max(0, head - CONTEXT_LINES) : head]]
    lines += _compare_lines(old[head : len(old) - tail], new[head : len(new) - tail])
    lines += [(" ", line) for line in old[len(old) - tail :][:CONTEXT_LINES]]
    return _cut_lines(lines)


def _count_common(old: list[str], new: list[str]) -> int:
    """Return how many lines both begin with."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _compare_lines(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    if max(len(old), len(new)) > MAX_COMPARED_LINES:  # the time grows faster than the product
        return [("-", line) for line in old] + [("+", line) for line in new]
    lines: list[tuple[str, str]] = []
    for operation, i1, i2, j1, j2 in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if operation == "equal":
            lines += [(" ", line) for line in new[j1:j2]]
        else:
            lines += [("-", line) for line in old[i1:i2]] + [("+", line) for line in new[j1:j2]]
    return lines


def _cut_lines(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    room, shown_lines = 2 * MAX_CHARACTERS_WAITING, []
    for sign, line in lines[:MAX_DIFF_LINES]:
        shown_lines.append((sign, line[:room]))
        room -= len(line)
        if room < 0:
            break
    if room >= 0 and len(shown_lines) == len(lines):
        return lines
    return [*shown_lines, ("…", "The rest of the change is not shown")]
