"""Paths by their spelling: what is certain about them is so for every program."""

from __future__ import annotations

import ntpath
import posixpath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.core.policy.places.paths import ParsedPath, is_inside, parse_directory, parse_path
from toolcards.core.policy.truth import UNDECIDED

PARSED = [
    ("/", "/", ()), ("/a", "/", ("a",)), ("/a//b/./c/", "/", ("a", "b", "c")), ("a/b", "", ("a", "b")), (".", "", ()),
    ("./a", "", ("a",)), (".git/config", "", (".git", "config")), ("a..b", "", ("a..b",)), ("a.", "", ("a.",)),
    ("a b", "", ("a b",)), ("/a/*.py", "/", ("a", "*.py")), ("/a/b~", "/", ("a", "b~")), ("/ä/ö", "/", ("ä", "ö")),
    ("a:b", None, ()), ("C:/a\\b", "c:", ("a", "b")), ("c:\\", "c:", ()), ("C:\\a\\.\\b\\", "c:", ("a", "b")),
    ("\\\\host\\share\\a", "\\\\", ("host", "share", "a")),
]  # fmt: skip


@loop_over(("path", "root", "parts"), PARSED)
def test_a_path_is_its_root_and_its_names(path: str, root: str | None, parts: tuple[str, ...]) -> None:
    assert parse_path(path) == (UNDECIDED if root is None else ParsedPath(root, parts))


AMBIGUOUS = [
    "", " /a", "/a ", "\n", "..", "/a/..", "../a", "/a/../b", "/...", "/a/. ", "/a/.. /b", "/a/..;x", "/.*", "/.?",
    "/{..,a}", "/a/..*", "~", "~/a", "~ann/a", "//a", "/a\\b", "$HOME/a", "/a/$b", "/a/`b`", "/a/%2e%2e", "file:/a",
    "http://a/b", "/a\tb", "/a\x00b", "/a\u200bb", "/a\u2028b", "/a\ud800", "/a\u2215b", "/a\uff0fb", "/\u2024\u2024/a",
    "/a/\u2025",
    "C:a", "C:\\a\\..\\b", "C:\\a.", "C:\\a \\b", "C:\\a:stream", "C:\\a%b", "C:\\PROGRA~1", "\\a", "\\\\host\\..",
]  # fmt: skip


@loop_over("path", AMBIGUOUS)
def test_a_spelling_that_programs_read_differently_is_undecided(path: str) -> None:
    assert parse_path(path) is UNDECIDED


PIECES = st.sampled_from(
    ["a", "b", ".", "..", "...", "", " ", "~", "*", "A", ".a", "a.", "-", "{", "}", "ä", "．", "\\", "C:"]
)
PATHS = st.lists(PIECES, max_size=6).flatmap(
    lambda pieces: st.sampled_from(["/", "//", "\\", ""]).map(lambda sign: (sign or "/").join(pieces))
)


@draw(150)
@example("/..")
@given(PATHS | st.text(max_size=12))
def test_a_path_that_is_decided_is_what_the_systems_make_of_it(path: str) -> None:
    parsed = parse_path(path)
    if parsed is UNDECIDED:
        return
    assert ".." not in parsed.parts and all(parsed.parts)
    if parsed.windows:
        drive, names = ntpath.splitdrive(ntpath.normpath(path))
        assert parsed.root == "\\\\" or (drive.casefold(), tuple(filter(None, names.split("\\")))) == (
            parsed.root, parsed.parts,
        )  # fmt: skip
    else:
        assert posixpath.normpath(path) == (parsed.root + "/".join(parsed.parts) or ".")


def test_only_windows_compares_names_without_regard_to_case() -> None:
    assert [ParsedPath(root, ()).windows for root in ("/", "~", "", "c:", "\\\\")] == [False, False, False, True, True]


# ---------------------------------------------------------------- directories of rules
DIRECTORIES = [
    ("/srv", "/", ("srv",)), ("/", "/", ()), ("~", "~", ()), ("~/a/", "~", ("a",)), ("data", "", ("data",)),
    ("C:/Data", "c:", ("Data",)),
]  # fmt: skip


@loop_over(("text", "root", "parts"), DIRECTORIES)
def test_a_directory_of_a_rule_may_be_in_the_home(text: str, root: str, parts: tuple[str, ...]) -> None:
    assert parse_directory(text) == ParsedPath(root, parts)


@loop_over("text", ["", "/a/..", "~ann", "~/..", "/a*", "/a?", "/[a]", "/{a}", "~/*", "$HOME", "a:b", "~/a\\b"])
def test_an_ambiguous_directory_of_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expects a plain directory"):
        parse_directory(text)


INSIDE = [
    ("/a", "/a", True), ("/a/b/c", "/a", True), ("/a", "/a/b", False), ("/ab", "/a", False), ("/b/a", "/a", False),
    ("/x", "/", True), ("a", "/a", None), ("/a", "a", None), ("/A/b", "/a", None), ("/b", "/A", False),
    ("C:/A/b", "c:/a", True), ("C:/b", "c:/a", False), ("D:/a", "c:/a", None), ("/*/b", "/a", None),
    ("/a/*", "/a", True), ("/b/*", "/a", False), ("/[a]/b", "/a", None), ("/a/{b}", "/a", True),
    ("/proc/self/root/a", "/a", None), ("/PROC/self", "/a", None), ("/dev/fd/3", "/a", None),
    ("/proc/1", "/proc", True), ("/dev/x", "/proc", None), ("/proc", "/", True), ("/dev/fd/3", "/", True),
    ("proc/a", "proc", True), ("/ﬁ", "/fi", None),
    ("/straße", "/STRASSE", None), ("/ı", "/i", False),
]  # fmt: skip


@loop_over(("path", "directory", "answer"), INSIDE)
def test_a_path_is_inside_of_a_directory_outside_or_perhaps(path: str, directory: str, answer: bool | None) -> None:
    parsed: Any = parse_path(path)
    assert parsed is not UNDECIDED and is_inside(parsed, parse_directory(directory)) is answer


def test_the_home_of_a_rule_is_not_known() -> None:
    assert is_inside(ParsedPath("/", ("home", "ann", "a")), parse_directory("~/a")) is UNDECIDED
