"""Words of a parsed line: read exactly as the program receives them, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from tests.support.tables import loop_over
from toolcards.core.policy.shell.tokens import (
    HARMLESS_REDIRECT,
    NotPlain,
    list_glimpses,
    read_node_text,
    read_word,
    refuse_node,
    writes_a_file,
)

PARSER = Parser(Language(tree_sitter_bash.language()))


def parse(line: str) -> Node:
    return PARSER.parse(line.encode()).root_node


def find_nodes(node: Node, kind: str) -> Iterator[Node]:
    if node.type == kind:
        yield node
    for child in node.children:
        yield from find_nodes(child, kind)


def find_argument(spelling: str) -> Node:
    """Return the node of the only argument."""
    command = next(find_nodes(parse(f"echo {spelling}"), "command"))
    _, argument = command.children
    assert read_node_text(argument) == spelling
    return argument


WORDS = [
    ("a", "a"), ("-la", "-la"), ("12", "12"), ("a/b.c,d:e@f%g+h^i", "a/b.c,d:e@f%g+h^i"), ("{}", "{}"),
    ("a{}b", "a{}b"),
    ("*.py", "*.py"), ("a=b", "a=b"), ("\\;", ";"), ("\\(", "("), ("!", "!"), ("!=", "!="), ("''", ""),
    ("'a b'", "a b"),
    ("'$x`\"'", '$x`"'), ("'é'", "é"), ('"a b"', "a b"), ('""', ""), ("\"'\"", "'"), ("a'b c'd", "ab cd"),
    ("'a'\"b\"c", "abc"), ("''a", "a"), ("~/a", "~/a"),
]  # fmt: skip


@loop_over(("spelling", "word"), WORDS)
def test_a_plain_word_is_what_the_program_receives(spelling: str, word: str) -> None:
    assert read_word(find_argument(spelling)) == word


REFUSED_WORDS = [
    ("$x", "it contains $ outside single quotes"), ("${x}", "it contains $ outside single quotes"),
    ('"$x"', "it contains $ outside single quotes"), ("$(x)", "it contains a command substitution"),
    ("`x`", "it contains a command substitution"), ('"a\\b"', "it contains \\ outside single quotes"),
    ('"a!"', "it contains ! outside single quotes"), ("a\\b", "it contains \\ outside single quotes"),
    ("é", "it contains U+00E9 outside single quotes"), ('"é"', "it contains U+00E9 outside single quotes"),
    ("a{b", "it contains { outside single quotes"), ("{a,b}", "it contains { outside single quotes"),
    ("a$x", "it contains $ outside single quotes"), ("'a'$x", "it contains $ outside single quotes"),
    ("'a\tb'", "it contains U+0009 outside single quotes"), ("<(x)", "it contains < outside single quotes"),
]  # fmt: skip


@loop_over(("spelling", "why"), REFUSED_WORDS)
def test_a_word_that_is_not_plain_is_refused_with_the_reason(spelling: str, why: str) -> None:
    with pytest.raises(NotPlain) as caught:
        read_word(find_argument(spelling))
    assert str(caught.value) == why


REASONS = [
    ("ls # x", "comment", "it contains a comment"), ("ls &", "&", "it runs something in the background"),
    ("ls > f", "file_redirect", "it redirects input or output"),
    ("(ls)", "subshell", "it contains ( outside single quotes"),
    ("ls <<< x", "herestring_redirect", "it redirects input or output"),
    ("! ls", "negated_command", "it begins with the keyword !"),
    ("[ x ]", "test_command", "it begins with the keyword ["),
    ("if a; then b; fi", "if_statement", "it contains if statement outside single quotes"),
    ("{ ls; }", "compound_statement", "it contains { outside single quotes"),
    ("A=1", "variable_assignment", "it begins with an assignment or nothing"),
]  # fmt: skip


@loop_over(("line", "kind", "why"), REASONS)
def test_every_part_of_a_line_has_its_reason(line: str, kind: str, why: str) -> None:
    with pytest.raises(NotPlain) as caught:
        refuse_node(next(find_nodes(parse(line), kind)))
    assert str(caught.value) == why


def test_no_reason_repeats_what_the_agent_wrote() -> None:
    for line in ("echo $secretword", "echo secretword$x", "if secretword; then x; fi", 'echo "secretword\\x"'):
        for node in parse(line).children:
            with pytest.raises(NotPlain) as caught:
                refuse_node(node)
            assert "secretword" not in str(caught.value)


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
