"""The first words of a command in a rule: how they are parsed, matched narrowly, and found widely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.shell.command_prefix import (
    explain_partial_allow,
    find_program_names,
    list_reachable_positions,
    list_spellings,
    parse_prefix,
)


def matches(prefix: str, line: str) -> bool:
    return parse_prefix(prefix).matches(tuple(line.split()))


PREFIXES = [
    ("git push", ("git", "push"), ("git", "push")), ("  git   push ", ("git", "push"), ("git", "push")),
    ("/usr/bin/git push -f x", ("/usr/bin/git", "push", "-f", "x"), ("git", "push", "x")),
    ("'a b' c", ("a b", "c"), ("a b", "c")), ("RM.exe", ("RM.exe",), ("rm",)),
    ("a; rm", (), ()), ("a && b", (), ()), ("$X", (), ()), ("ls > f", (), ()), ("ls 2>&1", (), ()), ("A=$X ls", (), ()),
]  # fmt: skip


@loop_over(("text", "words", "head"), PREFIXES)
def test_a_prefix_is_the_words_of_one_plain_command_or_none(
    text: str, words: tuple[str, ...], head: tuple[str, ...]
) -> None:
    prefix = parse_prefix(text)
    assert (prefix.text, prefix.words, prefix.head) == (text, words, head)


@loop_over("text", ["", " ", "\n\t"])
def test_a_prefix_without_words_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="first words of a command"):
        parse_prefix(text)


MATCHING = [
    ("git push", "git push", True), ("git push", "git push origin main", True), ("git push", "/bin/git push", True),
    ("git push", "git -C x push", True), ("git push", "git --no-pager push", True),
    ("git push", "git -c a=b push", True),
    ("git push", "git", False), ("git push", "git stash push", False), ("git push", "push git", False),
    ("git push", "git -C x y push", False), ("git push", "git pus?", True), ("git push", "git pul*", False),
    ("git push", "", False), ("python", "python3.11 x.py", True), ("python3", "python x.py", False),
    ("rm", "RM.EXE x", True), ("rm", "rm.py", False),
    ("rm -rf", "rm -rf x", True), ("rm -rf", "rm -fr x", True), ("rm -rf", "rm -r -f x", True),
    ("rm -rf", "rm -r x", False),
    ("rm -rf", "rm x -vrf", True), ("rm -rf", "rm --recursive -f x", False), ("rm -rf", "rm -[rf]* x", True),
    ("git push --force", "git push --force", True), ("git push --force", "git push --force=x", True),
    ("git push --force", "git push --forc", True), ("git push --force", "git push --f", True),
    ("rm --recursive", "rm --r x", True), ("git push --force", "git push --", False),
    ("git push --force", "git push --force-with-lease", False), ("tf -yes", "tf --yes", True),
    ("tf --yes", "tf -yes=1", True), ("tf -yes", "tf yes", False), ("tf -y", "tf --y", False),
    ("git push --force", "git push -f", False), ("head -5", "head -5 x", True), ("head -5", "head -45 x", False),
    ("ls -", "ls -", True), ("ls -", "ls -l", False), ("a; b", "a", False),
]  # fmt: skip


@loop_over(("prefix", "line", "answer"), MATCHING)
def test_options_may_be_between_the_words_and_flags_in_any_form(prefix: str, line: str, answer: bool) -> None:
    assert matches(prefix, line) is answer


IN_TEXT = [
    ("git push", "git push", True), ("git push", "echo \"git\" && 'push'", True), ("git push", "g\\it p\"us\"h", True),
    ("git push", "GIT PUSH", True), ("git push", "push git", False), ("git push", "git push git", True),
    ("git push", "legit push", False), ("git push", "git pushed", False), ("git push", "git-push", True),
    ("git push", "git\\\npush", True), ("git push", "g\\\nit push", True), ("rm", "alarm rm_", False),
    ("a; b", "x a; y b", True), ("$X", "echo $x", True), ("git git", "git", False), ("git git", "git.git", True),
]  # fmt: skip


@loop_over(("prefix", "text", "answer"), IN_TEXT)
def test_the_words_are_found_in_order_in_any_text(prefix: str, text: str, answer: bool) -> None:
    assert parse_prefix(prefix).occurs_in(text) is answer


@draw(100)
@given(st.lists(st.sampled_from(["git", "push", "x", "-f", "a-b", "legit"]), max_size=8))
def test_a_prefix_that_matches_narrowly_is_found_widely(words: list[str]) -> None:
    for text in ("git push", "git x", "git push -f", "a-b x"):
        if matches(text, " ".join(words)):
            assert parse_prefix(text).has_arguments_in(" ".join(words))
            assert "-f" in text or parse_prefix(text).occurs_in(" ".join(words))


def test_the_words_after_the_program_are_arguments() -> None:
    prefix = parse_prefix("git -C x push")
    assert prefix.has_arguments_in("x then push") and not prefix.has_arguments_in("git push")
    assert parse_prefix("git").has_arguments_in("")


@loop_over(
    ("words", "starts", "positions"),
    [
        ("a b", {0}, {0}), ("-a b c", {0}, {0, 1, 2}), ("-a -b c", {0}, {0, 1, 2, 3}), ("-a", {0}, {0, 1}),
        ("", {0}, {0}),
        ("a -b c", {1}, {1, 2, 3}), ("a b", {3}, set()), ("-a b -c", {0, 2}, {0, 1, 2, 3}),
    ],
)  # fmt: skip
def test_an_option_is_skipped_alone_or_with_its_value(words: str, starts: set[int], positions: set[int]) -> None:
    assert list_reachable_positions(tuple(words.split()), starts) == positions


def test_many_options_are_walked_once() -> None:
    assert len(list_reachable_positions(("-a",) * 5_000, {0})) == 5_001


def test_a_text_has_two_spellings_if_it_is_quoted() -> None:
    assert list_spellings("Git push") == ("git push",)
    assert list_spellings("Gi'T' \\\n\"p\"") == ("gi't' \\\n\"p\"", "git  p".replace("  ", " "))


NAMES = [
    ("/usr/bin/RM.exe x", {"usr", "bin", "rm", "x"}), ("python3.11", {"python3.11", "python3", "python"}),
    ("rm.py", {"rm.py"}), ("-orm", {"-orm", "rm"}), ("r'm'", {"r", "m", "rm"}), ("", set()), ("$(ls)", {"ls"}),
]  # fmt: skip


@loop_over(("text", "names"), NAMES)
def test_every_word_that_may_name_a_program_is_found(text: str, names: set[str]) -> None:
    assert find_program_names(text) == names


EXPLANATIONS = [
    (("awk",), "awk can run other programs; a rule allows only its harmless forms or the exact command"),
    (("rm", "x"), "rm can delete; a rule allows only its harmless forms or the exact command"),
    (("date",), "date can change things; a rule allows only its harmless forms or the exact command"),
    (("lspci",), "lspci can send data; a rule allows only its harmless forms or the exact command"),
    (("git",), "git can run other programs; a rule allows only its harmless forms or the exact command"),
    (("mytool",), "the catalog does not know this program, so a rule allows only the exact command"),
    (("cat",), ""), (("grep", "-r"), ""),
]  # fmt: skip


@loop_over(("words", "why"), EXPLANATIONS)
def test_a_program_that_a_rule_does_not_wholly_allow_says_why(words: tuple[str, ...], why: str) -> None:
    assert explain_partial_allow(words) == why
