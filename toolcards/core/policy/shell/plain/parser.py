"""Parse a command line: its commands where it is plain, else why not and what is visible of it.

Plain: words (bare, in quotes, or of variables that the line sets) joined by `&&`, `||`, `;`, `|` or newlines, with
redirections, here-documents in quotes, comments and `for` over words; `line_reader` reads it. The bash grammar of
tree-sitter must understand the line, too; it shows the commands of lines that are not plain.
Cost is bounded by length and by nodes: 8 KiB of text, 512 special characters, 1,000 nodes, 100 commands.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_bash
from tree_sitter import Language, Parser

from toolcards.core.policy.shell.plain.command_reader import KEYWORDS, MAX_BYTES, ParsedCommand
from toolcards.core.policy.shell.plain.glimpses import list_glimpses, writes_a_file
from toolcards.core.policy.shell.plain.line_reader import MAX_COMMANDS, read_commands
from toolcards.core.policy.shell.plain.words import NotPlain

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["KEYWORDS", "MAX_BYTES", "MAX_COMMANDS", "ParsedCommand", "ParsedLine", "parse_line"]
MAX_SPECIALS = 512  # characters that can make the grammar try many readings
MAX_NODES = 1_000
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
_SPECIAL = re.compile(rb"[(){}<>|&;$`\[\]\\=!\"'#\n]")


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """The commands of a line, or why it is not plain and what is visible of it.

    `glimpses` are the words of commands in an opaque line that the grammar recognizes; `writes`: a redirection writes a
    file.
    """

    commands: tuple[ParsedCommand, ...] = ()
    opaque: str = ""
    glimpses: tuple[tuple[str, ...], ...] = ()
    writes: bool = False


@cache
def _load_language() -> Language:
    return Language(tree_sitter_bash.language())


_thread_state = threading.local()  # a parser keeps its state while it works, so each thread has its own


def _get_parser() -> Parser:
    parser: Parser | None = getattr(_thread_state, "parser", None)
    if parser is None:
        parser = _thread_state.parser = Parser(_load_language())
    return parser


def parse_line(line: str) -> ParsedLine:
    """Return the commands of a line, or why it is opaque."""
    source = line.encode("utf-8", "surrogatepass")
    refusal = _find_refusal(source)
    if refusal:
        return ParsedLine(opaque=refusal)
    root = _get_parser().parse(source).root_node
    if root.descendant_count > MAX_NODES:
        return ParsedLine(opaque="it has too many parts")
    try:
        if root.has_error:
            raise NotPlain("its syntax is not understood")
        return ParsedLine(read_commands(line))
    except NotPlain as why:
        return ParsedLine((), str(why), tuple(list_glimpses(root)), writes_a_file(root))


def parse_tree(line: str) -> Node | None:
    """Return the tree of a line, None if it is not parsed."""
    source = line.encode("utf-8", "surrogatepass")
    if _find_refusal(source.replace(b"\t", b" ")):
        return None
    root = _get_parser().parse(source).root_node
    return root if root.descendant_count <= MAX_NODES else None


def _find_refusal(source: bytes) -> str:
    """Return why the line is not parsed, or ""."""
    if len(source) > MAX_BYTES:
        return "it is longer than 8 KiB"
    if _SURROGATE.search(source):
        return "it contains half a character"
    control = _CONTROL.search(source)
    if control is not None:
        return f"it contains U+{control[0][0]:04X}"
    if len(_SPECIAL.findall(source)) > MAX_SPECIALS:
        return f"it contains more than {MAX_SPECIALS} special characters"
    return ""
