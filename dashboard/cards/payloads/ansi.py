"""Terminal colors as HTML (ECMA-48 SGR): the 16 named colors, bold, italic and underline.

Colors of larger palettes become the nearest named one. Backgrounds are dropped, so that text keeps its contrast, and so
are titles, links and sequences that move the cursor, so that they cannot hide text. Everything else is shown as a
mark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import PurePosixPath

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

from dashboard.cards.safe_text import mark_html
from toolcards.core.text.terminal_sequences import SEQUENCE

SPANS = 2_000  # of one text; the remaining text has no colors
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_HALF = 128  # of a color of 24 bits


@dataclass(frozen=True, slots=True)
class _Style:
    color: str = ""
    bold: bool = False
    italic: bool = False
    underline: bool = False

    @property
    def classes(self) -> str:
        flags = {"ansi-bold": self.bold, "ansi-italic": self.italic, "ansi-underline": self.underline}
        names = [f"ansi-{self.color}"] if self.color else []
        return " ".join(names + [name for name, is_set in flags.items() if is_set])


def has_colors(text: str) -> bool:
    """Return whether the text holds terminal sequences."""
    return "\x1b" in text and SEQUENCE.search(text) is not None


def render_colors(text: str) -> str:
    """Return the text as escaped HTML with a span for each style."""
    parts: list[str] = []
    style, place, spans = _Style(), 0, 0
    for match in SEQUENCE.finditer(text):
        parts.append(_render_run(text[place : match.start()], style))
        place = match.end()
        if match["final"] == "m":
            spans += 1
            style = _apply(style, match["parameters"]) if spans < SPANS else _Style()
    parts.append(_render_run(text[place:], style))
    return "".join(parts)


def _render_run(text: str, style: _Style) -> str:
    html = mark_html(text)
    return f'<span class="{style.classes}">{html}</span>' if text and style.classes else html


def _apply(style: _Style, parameters: str) -> _Style:
    """Return the style after one SGR sequence; unknown codes change nothing."""
    codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in re.split("[;:]", parameters)][:32]
    while codes:
        code = codes.pop(0)
        if code in (38, 48, 58):  # a color of a larger palette follows
            color = _take_color(codes)
            style = replace(style, color=color) if code == 38 else style
        else:
            style = _apply_code(style, code)
    return style


def _apply_code(style: _Style, code: int) -> _Style:
    if code == 0:
        return _Style()
    if 30 <= code <= 37 or 90 <= code <= 97:
        return replace(style, color=_NAMES[code % 10])
    match code:
        case 1 | 22:
            return replace(style, bold=code == 1)
        case 3 | 23:
            return replace(style, italic=code == 3)
        case 4 | 24:
            return replace(style, underline=code == 4)
        case 39:
            return replace(style, color="")
    return style


def _take_color(codes: list[int]) -> str:
    """Remove the color of a larger palette from the codes and return the nearest name, "" for gray."""
    form = codes.pop(0) if codes else 0
    if form == 5 and codes:
        index = codes.pop(0)
        if index < 16:
            return _NAMES[index % 8]
        cube = index - 16
        return _name_color(cube // 36 > 2, cube // 6 % 6 > 2, cube % 6 > 2) if cube < 216 else ""
    if form == 2 and len(codes) >= 3:
        red, green, blue = codes[:3]
        del codes[:3]
        return _name_color(red >= _HALF, green >= _HALF, blue >= _HALF)
    return ""


def _name_color(red: bool, green: bool, blue: bool) -> str:
    index = red + 2 * green + 4 * blue
    return "" if index in (0, 7) else _NAMES[index]


# Syntax colors, line by line (Pygments), in five classes.
MAX_CHARACTERS = 12_000
MAX_LINE = 1_000  # characters; lexers are slow on one long line
MAX_LINES = 500  # some lexers take quadratic time for blank lines
_LEXERS = {
    "bash": "sh bash zsh", "c": "c h", "cpp": "cc cpp hpp", "css": "css", "diff": "diff patch", "go": "go",
    "html": "html htm", "java": "java", "javascript": "js mjs cjs jsx", "json": "json", "kotlin": "kt",
    "markdown": "md", "php": "php", "python": "py pyi", "ruby": "rb", "rust": "rs", "sql": "sql", "swift": "swift",
    "toml": "toml", "typescript": "ts tsx mts", "yaml": "yml yaml",
}  # fmt: skip
_BY_SUFFIX = {f".{suffix}": name for name, suffixes in _LEXERS.items() for suffix in suffixes.split()}
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "tok-comment"), (Keyword, "tok-keyword"), (String, "tok-string"), (Number, "tok-number"),
    (Name.Function, "tok-name"), (Name.Class, "tok-name"), (Name.Decorator, "tok-name"), (Name.Tag, "tok-name"),
)  # fmt: skip


def render_code_lines(text: str, path: str) -> list[str]:
    """Return each line as escaped HTML.

    It has colors if the file name implies the language.
    """
    lines = text.split("\n")
    lexer = _get_lexer(PurePosixPath(path[-200:]).suffix.lower())
    if (
        lexer is None
        or len(text) > MAX_CHARACTERS
        or len(lines) > MAX_LINES
        or any(len(line) > MAX_LINE for line in lines)
    ):
        return [mark_html(line) for line in lines]
    html_lines, lexed_text = [""], ""
    for kind, part in lexer.get_tokens(text):
        lexed_text += part
        css = _get_class(kind)
        for number, piece in enumerate(part.split("\n")):
            if number:
                html_lines.append("")
            if piece:
                html_lines[-1] += f'<span class="{css}">{_mark_piece(piece)}</span>' if css else _mark_piece(piece)
    # If a lexer changes the text, the page would not show what runs.
    return html_lines if lexed_text == text else [mark_html(line) for line in lines]


@cache
def _get_class(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


@lru_cache(maxsize=2_048)
def _mark_piece(piece: str) -> str:
    """Return a token as HTML; cached, because most are short and repeat."""
    return mark_html(piece)


@cache
def _get_lexer(suffix: str) -> Lexer | None:
    name = _BY_SUFFIX.get(suffix)
    return get_lexer_by_name(name, stripnl=False, ensurenl=False) if name else None
