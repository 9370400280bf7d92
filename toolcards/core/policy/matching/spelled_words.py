"""The words that a command line spells, in plain lines and in loose: of commands, redirections and assignments.

This is for conditions that ask what a line names. A part whose value the line does not show is `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from toolcards.core.policy.shell.plain.glimpses import read_node_text
from toolcards.core.policy.shell.plain.parser import MAX_BYTES, parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node

HIDDEN = "*"
_PIECES = re.compile(r"[\s\"'`;|&<>(),=\[\]]+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANSI = re.compile(r"\\x([0-9A-Fa-f]{1,2})|\\u([0-9A-Fa-f]{1,4})|\\([0-7]{1,3})")
_NAME = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_VARIABLES = {"HOME": "~", "USERPROFILE": "~", "XDG_CONFIG_HOME": "~/.config", "PWD": "."}
_WORDS = frozenset({
    "word", "number", "concatenation", "raw_string", "string", "ansi_c_string", "translated_string", "command_name",
    "simple_expansion", "expansion", "command_substitution", "process_substitution", "brace_expression",
    "arithmetic_expansion", "extglob_pattern", "regex",
})  # fmt: skip
_HIDDEN = frozenset({"command_substitution", "process_substitution", "arithmetic_expansion"})
_CONTAINERS = frozenset({"string", "concatenation", "translated_string", "command_name"})


@dataclass(slots=True)
class SpelledWords:
    """What a line spells. `commands`: the words of each; `loose`: those of redirections, assignments and lists.

    `texts`: here-documents, which the commands of the line read.
    """

    commands: list[tuple[str, ...]] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@lru_cache(maxsize=512)
def spell_line(line: str) -> SpelledWords:
    """Return the words of a line.

    Of a line that cannot be parsed, all pieces of its text are words.
    """
    line_words = SpelledWords()
    root = parse_tree(line) if len(line) <= MAX_BYTES else None
    if root is not None:
        _collect(root, line_words)
    if root is None or root.has_error:
        line_words.loose += [piece for piece in split_text(line) if "/" in piece or piece[0] in "~."]
    return line_words


def split_text(text: str) -> list[str]:
    """Return the pieces of a text that may be words."""
    return [piece for piece in _PIECES.split(text) if piece]


def _collect(root: Node, line_words: SpelledWords) -> None:
    pending = [(root, False)]
    while pending:
        node, is_inside = pending.pop()
        if node.type == "command":
            words = tuple([_spell(child) for child in node.children if child.type in _WORDS])
            if words:
                line_words.commands.append(words)
            pending += [(child, child.type in _WORDS) for child in node.children]
        elif node.type == "heredoc_body":
            line_words.texts.append(read_node_text(node))
            pending += [(child, True) for child in node.children]
        elif node.type in _HIDDEN:
            pending += [(child, False) for child in node.children]
        elif node.type in _WORDS:
            if not is_inside:
                line_words.loose.append(_spell(node))
            pending += [(child, True) for child in node.children]
        else:
            pending += [(child, is_inside) for child in node.children]


def _spell(node: Node) -> str:
    text = read_node_text(node)
    if node.type in _HIDDEN:
        return HIDDEN
    if node.type in {"simple_expansion", "expansion"}:
        match = _NAME.match(text)
        return _VARIABLES.get(match[1], HIDDEN) if match else HIDDEN
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "ansi_c_string":
        return _decode_escapes(text[2:-1])
    if node.type in _CONTAINERS and node.children:
        return "".join(_spell_pieces(node))
    return _ESCAPE.sub(r"\1", text)


def _spell_pieces(node: Node) -> Iterator[str]:
    source, position = node.text or b"", 0
    for child in node.children:
        start = child.start_byte - node.start_byte
        yield source[position:start].decode("utf-8", "replace")
        if child.type not in {'"', '$"'}:
            yield _spell(child)
        position = child.end_byte - node.start_byte
    yield source[position:].decode("utf-8", "replace")


def _decode_escapes(text: str) -> str:
    return _ANSI.sub(lambda match: chr(int(match[1] or match[2], 16) if not match[3] else int(match[3], 8)), text)
