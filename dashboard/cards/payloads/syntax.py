"""Syntax colors, line by line (Pygments), in five classes."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import PurePosixPath

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

from dashboard.cards.safe_text import mark_html

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
