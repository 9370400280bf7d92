"""One command and the catalog: what it certainly does, what it may do, and what cannot be read of it."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.shell import analysis
from toolcards.core.policy.shell.analysis import (
    ALL_EFFECTS,
    MAX_DEPTH,
    CommandAnalysis,
    analyze_command,
    changes_folder,
    depends_on_folder,
)
from toolcards.core.policy.shell.plain.parser import parse_line
from toolcards.core.policy.shell.program_match import NO_EFFECTS
from toolcards.core.policy.shell.script import read_line

EFFECTS = {"d": "deletes", "w": "writes", "s": "sends", "r": "runs"}


def analyze(line: str) -> CommandAnalysis:
    (command,) = parse_line(line).commands
    return analyze_command(command.words, command.globs)


def read_effects(letters: str) -> frozenset[str]:
    return frozenset(EFFECTS[letter] for letter in letters)


READ_ONLY = [
    ("ls -la", ""), ("/bin/ls", ""), ("cat *", ""), ("git status", ""), ("sort f", ""), ("sort -- *", ""),
    ("date +%F", ""),
    ("sed s/a/b/ f", ""), ("tar tf x", ""), ("command -v ls", ""), ("cd x", ""), ("gzip -dc f", ""), ("top -b", ""),
    ("sqlite3 -readonly -safe db 'select 1'", ""), ("python --version", ""), ("crontab -l", ""), ("find . -name x", ""),
    ("timeout 5 ls", "ls"), ("env LANG=C ls", "ls"), ("xargs ls", "ls *"), ("timeout 5 nice ls", "nice ls"),
]  # fmt: skip


@loop_over(("line", "inner"), READ_ONLY)
def test_a_command_that_only_looks_has_no_reason_against_it(line: str, inner: str) -> None:
    result = analyze(line)
    assert (result.read_only, result.why, result.may, result.hidden, result.loose) == (
        True,
        "",
        NO_EFFECTS,
        False,
        False,
    )
    assert result.does == (frozenset({"runs"}) if inner else NO_EFFECTS)
    assert [" ".join(command.words) for command in result.inner] == ([inner] if inner else [])


CHANGING = [  # the line, what it does, what it may do; h: hidden, p: piped, l: loose; and why
    ("rm x", "dw", "", "", "rm can delete or change things"), ("git push", "s", "r", "", "git push can send data"),
    ("curl x", "s", "w", "", "curl can send data"), ("date -s x", "w", "", "", "date can change things"),
    ("sort -o f g", "w", "r", "", "sort can change things"), ("find . -delete", "dw", "rs", "", "find can delete"),
    ("sort --outp f g", "w", "r", "l", "sort can change things"),
    ("gzip -d f", "dw", "", "", "gzip can delete or change things"), ("top", "w", "", "", "top can change things"),
    ("tar xf x", "w", "dsr", "", "tar can change things"),
    ("python x.py", "r", "dws", "", "python can run other programs"),
    ("awk -f prog", "r", "dws", "h", "awk can run other programs"),
    ("bash", "r", "dws", "hp", "bash can run other programs"),
    ("bash -s", "r", "dws", "hp", "bash can run other programs"),
    ("python -", "r", "dws", "hp", "python can run other programs"),
    ("sudo ls", "r", "", "", "sudo runs programs with other privileges"),
    ("ssh h ls", "rs", "", "", "ssh can run other programs"),
    ("timeout 5 rm x", "dwr", "", "", "rm can delete or change things"),
    ("xargs rm", "dwr", "", "", "rm can delete or change things"),
    ("find . -exec rm {} ;", "dwr", "s", "", "rm can delete or change things"),
    ("timeout 5 ./x", "r", "dws", "l", "the catalog does not know this program"),
    ("timeout 5 bash", "r", "dws", "hp", "bash can run other programs"),
    ("nope x", "", "dwsr", "l", "the catalog does not know this program"),
    ("./ls", "", "dwsr", "l", "a program in this folder could be any program"),
    ("./rm x", "dw", "sr", "l", "rm can delete or change things"),
    ("env A=1 ls", "r", "dws", "l", "the catalog does not know this program"),
    ("git *", "r", "dws", "hl", "git can run other programs"),
    ("sort *", "r", "dws", "hl", "sort can run other programs"),
    ("xargs *", "r", "dws", "hl", "xargs can run other programs"),
    ("git --exec-path=/x status", "r", "dws", "h", "git status can run other programs"),
]  # fmt: skip


@loop_over(("line", "does", "may", "marks", "why"), CHANGING)
def test_a_command_that_may_change_something_says_what_and_why(
    line: str, does: str, may: str, marks: str, why: str
) -> None:
    line = line.replace(" ;", " \\;")
    result = analyze(line)
    shown_marks = "h" * result.hidden + "p" * result.piped + "l" * result.loose
    assert (result.read_only, shown_marks, result.why) == (False, marks, why)
    assert (result.does, result.may - result.does) == (read_effects(does), read_effects(may))


def test_a_lenient_program_with_an_option_that_runs_may_do_anything() -> None:
    result = analyze("rg --pre=x y")
    assert (result.does, result.may, result.hidden) == (frozenset({"runs"}), ALL_EFFECTS, True)
    assert analyze("rg y").read_only and analyze("rg --pretty y").read_only
    assert not analyze("rg *").read_only  # a file may be called --pre=x
    assert analyze("rg ./*").read_only


def test_a_redirection_of_a_command_inside_is_a_write() -> None:
    for line in ("bash -c 'ls > out'", "timeout 5 sh -c 'cat < f 2> out'", "bash -lc \"bash -c 'ls > out'\""):
        result = analyze(line)
        assert (result.read_only, result.targets, "writes" in result.does) == (False, ("out",), True)
    assert analyze("bash -c 'cat < f > /dev/null'").read_only
    assert analyze("bash -c 'cat < f'").inputs == ("f",)


@pytest.mark.parametrize(
    ("line", "is_write"),
    [
        ("curl -s -o /dev/null http://localhost:1/", False), ("curl -s -o/dev/null http://localhost:1/", False),
        ("curl -s --output=/dev/null http://localhost:1/", False), ("sort -o /dev/null a", False),
        ("curl -s -o /dev/null -o x http://localhost:1/", True), ("curl -s -o /dev/null/x http://localhost:1/", True),
        ("curl -s -o /dev/sda http://localhost:1/", True), ("curl -s -D /dev/null -o x http://localhost:1/", True),
        ("sort -o /dev/null -o a a", True), ("sort -o /dev/./null a", True),
    ],
)  # fmt: skip
def test_an_output_that_is_thrown_away_is_no_write(line: str, is_write: bool) -> None:
    (segment,) = read_line(line).segments
    assert ("writes" in segment.analysis.does) is is_write and bool(segment.doubt) is is_write


def test_a_deletion_is_a_write_too() -> None:
    for line in ("find . -delete", "sudo find . -delete", "timeout 5 rm x"):
        assert {"deletes", "writes"} <= analyze(line).does


def test_programs_inside_each_other_are_followed_to_a_depth() -> None:
    assert analyze(f"{'timeout 5 ' * MAX_DEPTH}ls").read_only
    too_deep = analyze(f"{'timeout 5 ' * (MAX_DEPTH + 1)}ls")
    assert (too_deep.read_only, too_deep.hidden, too_deep.why) == (False, True, "it nests too many programs")
    assert too_deep.does | too_deep.may == ALL_EFFECTS


@loop_over(
    ("words", "changes"),
    [("cd x", True), ("pushd x", True), ("popd", True), ("/bin/CD.exe x", True), ("ls cd", False), ("cdx", False)],
)
def test_a_change_of_the_folder_is_known(words: str, changes: bool) -> None:
    assert changes_folder(tuple(words.split())) is changes


@loop_over(
    ("words", "depends"),
    [
        ("ls", False), ("npm test", True), ("make", True), ("nope", True), ("timeout 5 ls", False),
        ("timeout 5 make", True),
        ("timeout 5 nope", True),
    ],
)  # fmt: skip
def test_what_the_settings_of_a_folder_can_change_is_known(words: str, depends: bool) -> None:
    assert depends_on_folder(tuple(words.split())) is depends


def test_an_analysis_is_kept_for_the_next_rule() -> None:
    words = ("rm", "of-this-test")
    assert analyze_command(words) is analyze_command(words) and analysis.analyze_command.cache_info().maxsize == 2_048
