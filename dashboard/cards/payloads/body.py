"""Chooses how a value is shown: text, picture, patch, Markdown, table or tree; adds the raw text if it differs.

A person approves an input as they see it, so all of it is text, with marks for what is invisible: no colors, whose
sequences would be hidden, and no picture in place of the text that says it.
"""

from __future__ import annotations

import json
from typing import Any

from dashboard.cards.payloads import ansi, markdown, media, patch
from dashboard.cards.payloads.command_line import NO_COMMAND, CommandLine, render_command_line
from dashboard.cards.payloads.excerpts import Excerpt, format_value
from dashboard.cards.payloads.tree import Tree
from dashboard.cards.safe_text import mark_gaps, mark_html
from toolcards.core.text.terminal_sequences import strip_sequences

MAX_CHARACTERS = 60_000  # of a value that is drawn as more than text
MAX_INPUT_NODES, MAX_INPUT_DEPTH = MAX_CHARACTERS // 4, 64  # more than an input of that size, and of any depth, has
PROSE = ("fetch", "think", "other", "switch_mode")  # kinds of tools whose output may be Markdown
LONG_LINES, LONG_SIZE = 12, 1_200  # of a text that scrolls and so must be reachable by keyboard


def render_body(
    value: Any,
    view: Excerpt,
    *,
    dom: str,
    kind: str,
    part: str,
    pictures_url: str,
    command: CommandLine = NO_COMMAND,
) -> str:
    """Return a value of a call as HTML.

    `part` is "in" or "out", `kind` the tool's kind, `dom` the id of the fold it is in; pictures are at
    `{pictures_url}{number}/`. `command`: what of an input is drawn as commands.
    """
    if view.size > MAX_CHARACTERS and not view.hidden_count:
        return render_input_text(view.text) if part == "in" else render_text(view.text)
    pictures = media.list_pictures(value)
    excerpt = _Excerpt(len(view.text), keeps_pictures=part == "out").cut(value) if view.hidden_count else value
    is_whole = not view.hidden_count
    html, differs = _Body(excerpt, dom, kind, part, pictures_url, pictures, command, is_whole=is_whole).render()
    return html + _render_raw(view.text, dom) if differs else html


def render_text(text: str) -> str:
    """Return a text with terminal colors.

    One that scrolls can be reached by keyboard.
    """
    return _render_pre(text, ansi.render_colors(text)) if ansi.has_colors(text) else render_plain_text(text)


def render_plain_text(text: str) -> str:
    """Return a text with all its characters; invisible ones are marks."""
    return _render_pre(text, mark_html(text))


def render_input_text(text: str) -> str:
    """Return a text that a person approves.

    As `render_plain_text`, with marks for long gaps.
    """
    return _render_pre(text, mark_gaps(mark_html(text)))


def _render_pre(text: str, html: str) -> str:
    is_long = text.count("\n") > LONG_LINES or len(text) > LONG_SIZE
    focus = ' tabindex="0"' if is_long else ""
    return f'<pre class="text"{focus}>{html or "&quot;&quot;"}</pre>'


def _render_raw(text: str, dom: str) -> str:
    pre = f'<pre class="text" tabindex="0">{mark_html(text)}</pre>'
    return f'<details class="raw" id="{dom}-raw"><summary>Raw</summary>{pre}</details>'


class _Excerpt:
    """Cuts a value to its first characters; can keep pictures, which are loaded separately."""

    def __init__(self, room: int, *, keeps_pictures: bool) -> None:
        self.room, self.keeps_pictures = room, keeps_pictures

    def cut(self, value: Any, depth: int = 0) -> Any:
        if self.keeps_pictures and media.get_picture_text(value):
            return value
        if isinstance(value, str):
            text = value[: max(0, self.room)]
            self.room -= len(value)
            return text if len(text) == len(value) else text + "…"
        if not isinstance(value, (dict, list)) or depth > media.MAX_DEPTH:
            self.room -= 8
            return value
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        parts = []
        for name, part in pairs:
            if self.room <= 0:
                break
            self.room -= len(str(name)) + 4
            parts.append((name, self.cut(part, depth + 1)))
        return dict(parts) if isinstance(value, dict) else [part for _, part in parts]


class _Body:
    """The rendering of one value; all but `_render_input` is about outputs."""

    def __init__(
        self,
        value: Any,
        dom: str,
        kind: str,
        part: str,
        pictures_url: str,
        pictures: list[str],
        command: CommandLine,
        *,
        is_whole: bool,
    ) -> None:
        self.command = command
        self.value, self.dom, self.kind, self.part, self.pictures_url = value, dom, kind, part, pictures_url
        self.pictures = {text: number for number, text in reversed(list(enumerate(pictures)))}
        self.is_whole = is_whole

    def render(self) -> tuple[str, bool]:
        """Return the HTML, and whether it differs from the raw text."""
        value = self.value
        if self.part == "in":
            html, differs = self._render_input()
            return html + "".join(map(self._render_picture, sorted(self.pictures.values()))), differs
        if isinstance(value, str):
            return self._render_string(value)
        blocks = _list_content_blocks(value)
        if blocks is not None:
            return "".join(self._render_block(block) for block in blocks), True
        if isinstance(value, dict) and value.keys() == {"content", "structuredContent"}:
            blocks = _list_content_blocks(value["content"])
            if blocks is not None:
                html = "".join(self._render_block(block) for block in blocks)
                tree = Tree(self.dom, self._render_value, self._render_leaf)
                return html + tree.render(value["structuredContent"]), True
        if not isinstance(value, (dict, list)) or not value:
            return render_text(format_value(value)), False
        tree = Tree(self.dom, self._render_value, self._render_leaf)
        return tree.render(value), _is_nested(value) or tree.folds > 0 or tree.room <= 0

    def _render_input(self) -> tuple[str, bool]:
        """Return all of an input as text."""
        edits, fields = patch.list_edits(self.value) if self.is_whole else ([], {})
        if edits:
            fields_html = self._build_input_tree().render(fields) if fields else ""
            return fields_html + "".join(map(patch.render_edit, edits)), True
        if not isinstance(self.value, (dict, list)) or not self.value:
            return render_input_text(format_value(self.value)), False
        return self._build_input_tree().render(self.value), _is_nested(self.value)

    def _build_input_tree(self) -> Tree:
        """Return a tree without closed folds and limits: what a person has to press for, they approve unread."""
        return Tree(
            self.dom, self._render_argument, lambda value: "", MAX_INPUT_NODES, MAX_INPUT_DEPTH, MAX_INPUT_DEPTH
        )

    def _render_argument(self, text: str) -> str:
        is_command = bool(self.command.text) and text == self.command.text
        return (is_command and render_command_line(self.command)) or render_input_text(text)

    def _render_string(self, text: str) -> tuple[str, bool]:
        if leaf := self._render_leaf(text):
            return leaf, False
        if (json_value := _parse_json(text)) is not None:
            return Tree(self.dom, self._render_value, self._render_leaf).render(json_value), True
        html = self._render_value(text)
        return html, not html.startswith("<pre") or ansi.has_colors(text)

    def _render_value(self, text: str) -> str:
        """Return one text of the value."""
        if patch.is_unified_diff(text):
            return patch.render_unified_diff(strip_sequences(text))
        if self.kind in PROSE and markdown.is_markdown(text):
            return f'<div class="prose">{markdown.render_markdown(text)}</div>'
        return render_text(text)

    def _render_block(self, block: dict[str, Any]) -> str:
        if leaf := self._render_leaf(block):
            return leaf
        text = block.get("text")
        if isinstance(text, str) and set(block) <= {"type", "text", "annotations"}:
            return self._render_string(text)[0] if text else ""
        return Tree(f"{self.dom}-b", self._render_value, self._render_leaf).render(block)

    def _render_leaf(self, value: Any) -> str:
        """Return a picture, "" for anything else."""
        number = self.pictures.get(media.get_picture_text(value)) if self.pictures else None
        return "" if number is None else self._render_picture(number)

    def _render_picture(self, number: int) -> str:
        address = f"{self.pictures_url}{number}/"
        return (
            f'<a class="picture" href="{address}"><img src="{address}" alt="Picture {number + 1}" loading="lazy"></a>'
        )


def _list_content_blocks(value: Any) -> list[dict[str, Any]] | None:
    """Return the content blocks of an MCP result (2025-06-18) that holds nothing else, else None."""
    if isinstance(value, dict) and set(value) <= {"content", "isError", "_meta"} and not value.get("isError"):
        value = value.get("content")
    block_types = ("text", "image", "audio", "resource", "resource_link")
    if not isinstance(value, list) or not value:
        return None
    return value if all(isinstance(block, dict) and block.get("type") in block_types for block in value) else None


def _parse_json(text: str) -> Any:
    """Return the object or list that the text spells, None for any other text."""
    if text.strip()[:1] not in ("{", "["):
        return None
    try:
        json_value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json_value if isinstance(json_value, (dict, list)) and json_value else None


def _is_nested(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, list) or any(isinstance(part, (dict, list)) and part for part in parts)
