"""Single words of a parsed line, why a line is not plain, and what is visible of opaque lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tree_sitter import Node

HARMLESS_REDIRECT = re.compile(rb"[12]?>&[12]|(?:[12]|&)?>>? ?/dev/null")
_BARE = re.compile(r"(?:[^\x00-\x20\x7f-\U0010ffff$`\\<>(){}'\";|&!]|\{\})+|!=?|\\[;()!]")
_SINGLE = re.compile(r"'[^'\x00-\x1f\x7f]*'")
_DOUBLE = re.compile(r'"[^"\x00-\x1f\x7f-\U0010ffff$`\\!]*"')
_WRITES = re.compile(rb"[0-9]*(?:>|>>|&>|&>>|>\||<>|>&) *[^&0-9 ]")
_WORDS = frozenset({"word", "number", "concatenation", "raw_string", "string"})


class NotPlain(Exception):
    """The line is not plain; the message gives the reason."""


def read_word(node: Node) -> str:
    """Return the word as the program receives it."""
    text = read_node_text(node)
    if node.type in {"word", "number"} and _BARE.fullmatch(text):
        return text.removeprefix("\\")
    if node.type == "raw_string" and _SINGLE.fullmatch(text):
        return text[1:-1]
    if node.type == "string" and _DOUBLE.fullmatch(text):
        return text[1:-1]
    if node.type == "concatenation":
        return _read_concatenation(node, text)
    return refuse_node(node)


def _read_concatenation(node: Node, text: str) -> str:
    pieces: list[str] = []
    position = node.start_byte
    children = list(node.children)
    while children:
        piece = children.pop(0)
        if piece.start_byte != position:
            refuse_node(node)
        if read_node_text(piece) == "{" and children and read_node_text(children[0]) == "}":  # `{}` is plain
            piece = children.pop(0)
            pieces.append("{}")
        elif piece.type == "concatenation" or read_node_text(piece)[0] in "!\\":
            refuse_node(node)
        else:
            pieces.append(read_word(piece))
        position = piece.end_byte
    if position != node.end_byte or not pieces:
        refuse_node(node)
    return "".join(pieces)


_REASONS = {
    "comment": "it contains a comment",
    "&": "it runs something in the background",
    "|&": "it redirects input or output",
    "file_redirect": "it redirects input or output",
    "heredoc_redirect": "it contains a here-document",
    "herestring_redirect": "it redirects input or output",
    "redirected_statement": "it redirects input or output",
    "variable_assignment": "it begins with an assignment or nothing",
    "command_substitution": "it contains a command substitution",
    "simple_expansion": "it contains $ outside single quotes",
    "expansion": "it contains $ outside single quotes",
    "subshell": "it contains ( outside single quotes",
    "compound_statement": "it contains { outside single quotes",
    "negated_command": "it begins with the keyword !",
    "test_command": "it begins with the keyword [",
}


def refuse_node(node: Node) -> NoReturn:
    """Raise NotPlain with the reason for this part of the line."""
    text = read_node_text(node)
    special = next((char for char in text if char in "$`\\<>(){}!" or not " " <= char < "\x7f"), "")
    description = (
        special if " " < special < "\x7f" else f"U+{ord(special):04X}" if special else node.type.replace("_", " ")
    )
    raise NotPlain(_REASONS.get(node.type, f"it contains {description} outside single quotes"))


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
    inner = node.children[0] if node.type == "command_name" and node.children else node
    try:
        return read_word(inner)
    except NotPlain:
        return re.sub(r"['\"\\]", "", read_node_text(inner))


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
