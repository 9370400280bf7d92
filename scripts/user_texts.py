"""Finds the texts that users read: in templates and documents, in strings of modules, and in scripts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

# Strings of modules, templates, scripts that browsers and agents run, and documents.
PLACES = {
    ".py": ("toolcards/", "dashboard/"),
    ".html": ("templates/",),
    ".js": ("static/toolcards/", "static/clients/"),
    ".mjs": ("static/toolcards/", "static/clients/"),
    ".md": ("docs/", "README.md", "SECURITY.md", "CONTRIBUTING.md"),
}
_TEMPLATE_TAGS = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_MUTE_ATTRIBUTES = re.compile(r"""(?<![\w-])(?:class|id|for|name|href|hx-[\w:-]+)="[^"]*\"""")
_CODE = re.compile(r"^```.*?^```|<!--.*?-->|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_SCRIPT_COMMENTS = re.compile(r"^\s*(?://|/?\*).*$|(?<=\s)//\s.*$|/\*.*?\*/", re.MULTILINE)


def is_for_users(path: str) -> bool:
    """Return whether the file has texts that users read."""
    return path.startswith(PLACES.get(PurePath(path).suffix, ())) and "/migrations/" not in path


def read_user_texts(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of such a file, with their lines."""
    suffix = PurePath(path).suffix
    if suffix == ".py":
        yield from read_messages(source)
    elif suffix == ".html":
        yield 1, _MUTE_ATTRIBUTES.sub(blank_out, _TEMPLATE_TAGS.sub(blank_out, source))
    else:
        yield 1, (_CODE if suffix == ".md" else _SCRIPT_COMMENTS).sub(blank_out, source)


def read_messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are messages.

    Docstrings are not; a single word is a value.
    """
    tree = ast.parse(source)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in statements:
            continue
        if " " in node.value.strip():
            yield node.lineno, node.value


def blank_out(match: re.Match[str]) -> str:
    """Return a blank and the line ends of the match."""
    return " " + "\n" * match[0].count("\n")
