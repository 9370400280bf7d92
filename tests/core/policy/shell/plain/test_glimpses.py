"""What is visible of any line: its commands, and the redirections that write."""

from __future__ import annotations

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from tests.support.tables import loop_over
from toolcards.core.policy.shell.plain.glimpses import (
    HARMLESS_REDIRECT,
    list_glimpses,
    writes_a_file,
)

PARSER = Parser(Language(tree_sitter_bash.language()))


def parse(line: str) -> Node:
    return PARSER.parse(line.encode()).root_node


GLIMPSES = [
    ("ls", [("ls",)]), ("a; b c && d | e", [("a",), ("b", "c"), ("d",), ("e",)]),
    ("if a; then b $x; fi", [("a",), ("b",)]), ("echo $(rm x)", [("echo",), ("rm", "x")]),
    ("r\\m 'a b'", [("rm", "a b")]), ("A=1 rm x", [("rm", "x")]), ("f() { rm x; }", [("rm", "x")]),
    ("echo \"$x y\"", [("echo", "$x y")]), ("$x y", [("$x", "y")]), ("", []), ("A=1", []), ("> f", []),
]  # fmt: skip


@loop_over(("line", "glimpses"), GLIMPSES)
def test_the_commands_of_any_line_are_seen(line: str, glimpses: list[tuple[str, ...]]) -> None:
    assert list(list_glimpses(parse(line))) == glimpses


REDIRECTS = [
    ("ls > f", True), ("ls >f", True), ("ls >> f", True), ("ls 2> f", True), ("ls &> f", True), ("ls >| f", True),
    ("ls <> f", True), ("ls >& f", True), ("if a; then b > f; fi", True), ("ls > /dev/null2", True), ("ls", False),
    ("ls < f", False), ("ls 2>&1", False), ("ls > /dev/null", False), ("ls &>/dev/null", False),
    ("ls >>/dev/null", False),
    ("echo '> f'", False),
]  # fmt: skip


@loop_over(("line", "writes"), REDIRECTS)
def test_a_redirection_to_a_file_writes(line: str, writes: bool) -> None:
    assert writes_a_file(parse(line)) is writes


@loop_over(
    ("spelling", "harmless"),
    [
        (b"2>&1", True), (b">&2", True), (b">/dev/null", True), (b"&>> /dev/null", True), (b">&3", False),
        (b">f", False),
        (b"> /dev/null x", False), (b">/dev/nul", False), (b"3>/dev/null", False),
    ],
)  # fmt: skip
def test_only_the_two_outputs_and_nowhere_are_harmless(spelling: bytes, harmless: bool) -> None:
    assert (HARMLESS_REDIRECT.fullmatch(spelling) is not None) is harmless
