"""JSON as a tree of folds, and a list of similar objects as a table; both without a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from dashboard.cards.payloads.excerpts import format_value
from dashboard.cards.safe_text import mark_html

MAX_DEPTH = 12
MAX_NODES = 3_000
MAX_ROWS, MAX_COLUMNS, MAX_CELL = 100, 8, 200
OPEN_DEPTH = 1  # folds above it start open
_SHORT = 60  # characters of a fold's preview


def is_table(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Return whether the value is a list of similar, flat objects."""
    if not isinstance(value, list) or not 1 < len(value) <= MAX_ROWS:
        return False
    if not all(isinstance(row, dict) and row for row in value):
        return False
    names = list_columns(value)
    parts = (part for row in value for part in row.values())
    return len(names) <= MAX_COLUMNS and all(_is_cell(part) for part in parts)


def list_columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return the names of all fields in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def render_table(rows: list[dict[str, Any]]) -> str:
    """Return a list of flat objects as a table."""
    names = list_columns(rows)
    head = "".join(f'<th scope="col">{mark_html(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(_render_cell(row, name) for name in names)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="cells" tabindex="0" role="group" aria-label="Table of {len(rows)} rows">{table}</div>'


@dataclass(slots=True)
class Tree:
    """Writes one value; `write_text` writes a text, `write_leaf` a picture or another special value."""

    prefix: str  # of the folds' ids
    write_text: Callable[[str], str]
    write_leaf: Callable[[Any], str]  # "" for other values
    room: int = MAX_NODES
    max_depth: int = MAX_DEPTH
    open_depth: int = OPEN_DEPTH
    folds: int = 0

    def render(self, value: Any, depth: int = 0) -> str:
        """Return the value as HTML."""
        if leaf := self.write_leaf(value):
            return leaf
        if isinstance(value, str):
            return self.write_text(value) if value else '<pre>""</pre>'
        if not isinstance(value, (dict, list)) or not value:
            return f"<pre>{mark_html(format_value(value))}</pre>"
        if is_table(value) and not any(self.write_leaf(part) for row in value for part in (row, *row.values())):
            return render_table(value)
        if depth >= self.max_depth:
            return '<p class="muted">Nested deeper than shown here: see the raw text</p>'
        return self._render_parts(value, depth)

    def _render_parts(self, value: dict[str, Any] | list[Any], depth: int) -> str:
        pairs = list(value.items()) if isinstance(value, dict) else [(str(n), part) for n, part in enumerate(value)]
        rows = []
        for number, (name, part) in enumerate(pairs):
            if self.room <= 0:
                more = f'<p class="muted">{len(pairs) - number} more: see the raw text</p>'
                rows.append(f"<div><dt></dt><dd>{more}</dd></div>")
                break
            self.room -= 1
            rows.append(f"<div><dt>{mark_html(name)}</dt><dd>{self._render_part(part, depth)}</dd></div>")
        return f'<dl class="args">{"".join(rows)}</dl>'

    def _render_part(self, part: Any, depth: int) -> str:
        if not isinstance(part, (dict, list)) or not part or self.write_leaf(part):
            return self.render(part, depth + 1)
        self.folds += 1
        is_open = " open" * (depth < self.open_depth)
        preview = f'<span class="hint">{mark_html(_preview(part))}</span>'
        summary = f'<summary><span class="size">{_count(part)}</span> {preview}</summary>'
        identifier = f"{self.prefix}-{self.folds}"
        return f'<details class="node" id="{identifier}"{is_open}>{summary}{self.render(part, depth + 1)}</details>'


def _is_cell(part: Any) -> bool:
    if isinstance(part, str):
        return len(part) <= MAX_CELL and "\n" not in part and "\x1b" not in part
    return part is None or isinstance(part, (bool, int, float))


def _render_cell(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return "<td></td>"
    part = row[name]
    is_number = isinstance(part, (int, float)) and not isinstance(part, bool)
    opening = '<td class="num">' if is_number else "<td>"
    return f"{opening}{mark_html(format_value(part))}</td>"


def _count(part: dict[str, Any] | list[Any]) -> str:
    noun = "field" if isinstance(part, dict) else "item"
    return f"{len(part)} {noun}{'s' * (len(part) != 1)}"


def _preview(part: dict[str, Any] | list[Any]) -> str:
    """Return the first names or values in one line."""
    first = list(part)[:4]
    texts = first if isinstance(part, dict) else [value for value in first if isinstance(value, (str, int, float))]
    line = ", ".join(" ".join(str(text)[:_SHORT].split()) for text in texts)
    return line[:_SHORT] + "…" * (len(line) > _SHORT)
