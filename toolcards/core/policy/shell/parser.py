"""Parse a command line with the bash grammar of tree-sitter, and accept only what is plain.

Plain: words (bare, single-quoted, or double-quoted without `$`, backtick, `\\` and `!`) joined by `&&`, `||`, `;`, `|`
or newlines, with redirections between standard output and error or to /dev/null. Every other node type, every error
node, and every byte that the tree does not give back exactly makes the line opaque.
Cost is bounded by length and by nodes: 8 KiB of text, 512 special characters, 1,000 nodes, 100 commands.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_bash
from tree_sitter import Language, Parser

from toolcards.core.policy.shell.globs import NO_GLOBS, Globs, is_glob, starts_with_glob
from toolcards.core.policy.shell.tokens import (
    HARMLESS_REDIRECT,
    NotPlain,
    list_glimpses,
    read_node_text,
    read_word,
    refuse_node,
    writes_a_file,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_BYTES = 8 * 1024
MAX_SPECIALS = 512  # characters that can make the grammar try many readings
MAX_NODES = 1_000
MAX_COMMANDS = 100
# The grammar reads some of these as names of programs.
_KEYWORDS = (
    "if then else elif fi do done case esac while until for select function coproc in time noglob nocorrect "
    "foreach end repeat always - [[ ]] { } ! ["
)
KEYWORDS = frozenset(_KEYWORDS.split())
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
_SPECIAL = re.compile(rb"[(){}<>|&;$`\[\]\\=!\"'#\n]")
_GLOB = re.compile(r"[*?\[~]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_BLANKS = re.compile(rb" *")
_LINES = re.compile(rb"[ \n]*")


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command of a line: its exact spelling and its words.

    `globs`: its words that are patterns. `redirected`: output goes to another stream or to /dev/null.
    """

    text: str
    words: tuple[str, ...]
    globs: Globs = NO_GLOBS
    redirected: bool = False


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
        commands = tuple(_read_program(root, source))
        if not commands:
            raise NotPlain("it contains no command")
        if len(commands) > MAX_COMMANDS:
            raise NotPlain(f"it contains more than {MAX_COMMANDS} commands")
    except NotPlain as why:
        return ParsedLine((), str(why), tuple(list_glimpses(root)), writes_a_file(root))
    return ParsedLine(commands)


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


# ---------------------------------------------------------------- plain lines


def _read_program(root: Node, source: bytes) -> Iterator[ParsedCommand]:
    if root.type != "program" or root.has_error:
        raise NotPlain("its syntax is not understood")
    position, is_separated = 0, True
    for node in root.children:
        gap = source[position : node.start_byte]
        _check_gap(gap, _LINES)
        if node.type == ";":
            if is_separated:
                raise NotPlain("an operator has no command before it")
            is_separated = True
        else:
            if not is_separated and b"\n" not in gap:
                refuse_node(node)
            yield from _read_statement(node, source)
            is_separated = False
        position = node.end_byte
    _check_gap(source[position:], _LINES)


def _read_statement(node: Node, source: bytes) -> Iterator[ParsedCommand]:
    if node.type in {"list", "pipeline"}:
        yield from _read_joined_commands(node, source)
    elif node.type == "redirected_statement":
        body, *redirects = node.children
        if body.type != "command":
            refuse_node(body)
        _check_redirects(body, redirects, source)
        yield replace(_read_command(body, source, read_node_text(node)), redirected=True)
    elif node.type == "command":
        yield _read_command(node, source, read_node_text(node))
    else:
        refuse_node(node)


def _read_joined_commands(node: Node, source: bytes) -> Iterator[ParsedCommand]:
    operators = {"&&", "||"} if node.type == "list" else {"|"}
    position = node.start_byte
    for number, child in enumerate(node.children):
        operator = number % 2 == 1
        _check_gap(source[position : child.start_byte], _BLANKS if operator else _LINES)
        if operator and child.type not in operators:
            refuse_node(child)
        if not operator:
            yield from _read_statement(child, source)
        position = child.end_byte
    if len(node.children) % 2 == 0:
        refuse_node(node)


def _check_redirects(body: Node, redirects: list[Node], source: bytes) -> None:
    position = body.end_byte
    for redirect in redirects:
        gap, spelling = source[position : redirect.start_byte], source[redirect.start_byte : redirect.end_byte]
        _check_gap(gap, _BLANKS)
        if redirect.type != "file_redirect" or not gap or not HARMLESS_REDIRECT.fullmatch(spelling):
            raise NotPlain("it redirects input or output")
        position = redirect.end_byte


def _read_command(node: Node, source: bytes, text: str) -> ParsedCommand:
    words: list[str] = []
    globs: list[int] = []
    leading: list[int] = []
    position = node.start_byte
    for number, child in enumerate(node.children):
        gap = source[position : child.start_byte]
        _check_gap(gap, _BLANKS)
        if (number == 0) != (child.type == "command_name") or (number > 0 and not gap):
            refuse_node(child)
        name_node = child.children[0] if number == 0 and len(child.children) == 1 else child
        word = read_word(name_node)
        raw = read_node_text(name_node)
        if number == 0:
            _check_program_name(raw, word)
        elif is_glob(raw):
            globs.append(number)
            if starts_with_glob(raw):
                leading.append(number)
        words.append(word)
        position = child.end_byte
    return ParsedCommand(text, tuple(words), Globs(frozenset(leading), frozenset(globs)) if globs else NO_GLOBS)


def _check_program_name(raw: str, word: str) -> None:
    if word in KEYWORDS:
        raise NotPlain(f"it begins with the keyword {word}")
    if _ASSIGNMENT.match(raw) or raw[0] in "=^!" or not word:
        raise NotPlain("it begins with an assignment or nothing")
    if _GLOB.search(raw) or "{}" in raw:
        raise NotPlain("the name of its program is a pattern")


def _check_gap(gap: bytes, blanks: re.Pattern[bytes]) -> None:
    if not blanks.fullmatch(gap):
        raise NotPlain("it contains a line continuation or text that is not understood")
