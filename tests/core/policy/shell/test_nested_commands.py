"""The commands among the words of another command, and what of them cannot be read."""

from __future__ import annotations

from typing import Any

from tests.support.tables import loop_over
from toolcards.core.policy.shell.arguments import Arguments, read_arguments
from toolcards.core.policy.shell.nested_commands import find_nested_commands, may_expansion_change_meaning
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.shell.plain.parser import parse_line
from toolcards.core.policy.shell.program_forms import ProgramForm
from toolcards.core.policy.shell.program_match import match_program


def read(line: str) -> tuple[tuple[str, ...], Globs, ProgramForm, int, Arguments]:
    """Return the words of the line, and how the catalog reads them."""
    (command,) = parse_line(line).commands
    words, globs = command.words, command.globs
    place = match_program(words, globs)
    assert place is not None
    form = place.form
    style = "posix" if form.wraps and form.style == "gnu" else form.style
    return words, globs, form, place.length, read_arguments(
        words, place.length, form.kinds, style, form.rest, globs.leading
    )  # fmt: skip


def find_inner(line: str) -> tuple[list[str], bool]:
    words, globs, form, _, arguments = read(line)
    commands, unread = find_nested_commands(words, globs, form, arguments)
    assert all(command.text == " ".join(command.words) for command in commands)
    return [command.text for command in commands], unread


INNER: list[tuple[str, list[str], bool]] = [
    ("ls", [], False), ("timeout 5", [], False), ("timeout 5 ls -l", ["ls -l"], False),
    ("timeout -k 3 5 rm -- -x", ["rm -- -x"], False), ("env LANG=C TZ=UTC ls", ["ls"], False),
    ("env A=1 ls", ["A=1 ls"], False), ("env -S 'rm x'", ["rm x"], False), ("env LANG=C", [], False),
    ("bash -c 'rm x; ls'", ["rm x", "ls"], False), ("bash -c 'rm x' ls", ["rm x"], False),
    ("bash -c 'rm $x'", [], True), ("sh -c ''", [], True), ("watch rm x", ["rm x"], False),
    ("watch 'rm x; ls'", ["rm x", "ls"], False), ("eval rm x", ["rm x"], False), ("eval rm '$x'", [], True),
    ("ssh h rm x", ["rm x"], False), ("split --filter='rm x' f", ["rm x"], False),
    ("su -c 'rm x' ann", ["rm x"], False),
    ("find . -exec rm {} \\; -exec ls a{}b +", ["rm {}", "ls a{}b"], False), ("find . -exec \\;", [], True),
    ("find . -exec '' x \\;", [], True), ("find . -ok rm \\;", ["rm"], False), ("xargs", [], False),
    ("xargs rm -f", ["rm -f *"], False), ("fd -x rm {}", ["rm {} *"], False), ("timeout 5 l* x", ["l* x"], True),
    ("timeout 5 'r?' x", ["r? x"], True), ("find . -exec {} \\;", ["{}"], True), ("xargs -I X X a", ["X a *"], True),
]  # fmt: skip


@loop_over(("line", "commands", "unread"), INNER)
def test_the_commands_that_a_command_runs_are_found(line: str, commands: list[str], unread: bool) -> None:
    assert find_inner(line) == (commands, unread)


GLOBS = [
    ("timeout 5 ls a* b", {1}, set()), ("timeout 5 ls *", {1}, {1}), ("timeout 5 ls a", set(), set()),
    ("find . -exec ls a{}b {} \\;", {1}, {1}), ("xargs ls a", {2}, {2}), ("xargs -I X ls a X/b c", {2, 4}, {2, 4}),
    ("xargs --replace=XY ls X XY", {2, 3}, {2, 3}), ("xargs -i ls a{}", {1, 2}, {1, 2}),
]  # fmt: skip


@loop_over(("line", "every", "leading"), GLOBS)
def test_words_that_other_programs_fill_in_vary(line: str, every: set[int], leading: set[int]) -> None:
    words, globs, form, _, arguments = read(line)
    (command,), _ = find_nested_commands(words, globs, form, arguments)
    assert command.globs == (leading, every)


CHANGES: list[tuple[str, bool]] = [
    ("timeout 5 ls *", False), ("timeout 5* ls", True), ("env * ls", True), ("ls *", False), ("cp * d", False),
    ("sed s/a/b/ ./*", False), ("sed ./* f", True), ("uniq *", True), ("uniq a", False), ("git status ./*", False),
    ("find . -exec ls ./* \\;", False), ("watch ls *", True), ("eval ls ./*", True), ("sort -k ./* f", False),
    ("sort -t ./* f", False), ("awk -v ./* x", True),
]  # fmt: skip


@loop_over(("line", "changes"), CHANGES)
def test_a_pattern_that_becomes_several_words_may_change_what_others_mean(line: str, changes: bool) -> None:
    words, globs, form, length, arguments = read(line)
    assert may_expansion_change_meaning(words, globs, form, length, arguments) is changes


def test_patterns_in_the_name_of_a_sub_command_do_not_count_here() -> None:
    words, globs, form, length, arguments = read("git a* x")
    assert globs.every == {1}
    assert not may_expansion_change_meaning(words, globs, form, length + 1, arguments)


def test_without_operands_there_is_nothing_to_skip() -> None:
    catalog: Any = read("env LANG=C")
    assert find_nested_commands(*catalog[:3], Arguments()) == ((), False)
