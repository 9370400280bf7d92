"""What is visible of opaque lines: the words of their commands, and whether a redirection writes a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolcards.core.policy.shell.plain.words import read_whole_word

if TYPE_CHECKING:
    from tree_sitter import Node

HARMLESS_REDIRECT = re.compile(rb"[12]?>&[12]|(?:[12]|&)?>>? ?/dev/null")
_WRITES = re.compile(rb"[0-9]*(?:>|>>|&>|&>>|>\||<>|>&) *[^&0-9 ]")
_WORDS = frozenset({"word", "number", "concatenation", "raw_string", "string"})


def read_node_text(node: Node) -> str:
    """Return the spelling of a part of the line."""
    return (node.text or b"").decode("utf-8", "replace")


def list_glimpses(root: Node) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command in the tree.

    Words that are not plain keep their spelling.
    """
    for node in _walk_nodes(root):
        if node.type == "command":
            words = [_read_glimpse(child) for child in node.children if child.type in {*_WORDS, "command_name"}]
            if words and words[0]:
                yield tuple(words)


def _read_glimpse(node: Node) -> str:
    text = read_node_text(node.children[0] if node.type == "command_name" and node.children else node)
    word = read_whole_word(text)
    return re.sub(r"['\"\\]", "", text) if word is None else word


def writes_a_file(root: Node) -> bool:
    """Return whether a redirection in the tree writes a file."""
    return any(
        node.type == "file_redirect"
        and _WRITES.match(node.text or b"")
        and not HARMLESS_REDIRECT.fullmatch(node.text or b"")
        for node in _walk_nodes(root)
    )


def _walk_nodes(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)
