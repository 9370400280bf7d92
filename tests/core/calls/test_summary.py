"""One line about a call: what an edit changed, and nothing that stayed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.client.common.tool_kinds import display_kind
from toolcards.core.calls.card import Card, CardApproval, CardTool
from toolcards.core.calls.summary import has_whole_summary, summarize
from toolcards.core.text.text_rope import Rope


def summarize_edit(**arguments: Any) -> str:
    return summarize(Card("c", 1, tool=CardTool("Edit", "edit"), input={"path": "a.py", **arguments}, has_input=True))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\nc", "a\nB\nc", "a.py +1 −1"),
        ("a\nb\nc", "a\nb\nb2\nc", "a.py +1 −0"),
        ("a\nb\nc", "a\nc", "a.py +0 −1"),
        ("a\nb", "b\na", "a.py +1 −1"),
        ("", "a\nb", "a.py +2 −0"),
        ("same\n", "same", "a.py"),
        ("x\nx\nx", "x\nx", "a.py +0 −1"),
    ],
)
def test_an_edit_counts_only_lines_that_differ(old: str, new: str, expected: str) -> None:
    assert summarize_edit(old_string=old, new_string=new) == expected


def test_several_edits_are_added_up() -> None:
    edits = [{"old_string": "a\nb", "new_string": "a\nc"}, {"old_string": "d", "new_string": "d\ne"}]
    assert summarize_edit(edits=[*edits, "nonsense", {}]) == "a.py +2 −1"


def test_a_new_file_counts_all_its_lines() -> None:
    assert summarize_edit(content="one\ntwo") == "a.py +2 −0"


def test_a_huge_edit_is_counted_quickly() -> None:
    old = [f"line {n}" for n in range(50_000)]
    new = [f"{line}!" if n % 2 else line for n, line in enumerate(old)]
    began = time.monotonic()
    assert summarize_edit(old_string="\n".join(old), new_string="\n".join(new)) == "a.py +25000 −25000"
    assert time.monotonic() - began < 5


@loop_over(
    ("kind", "value", "expected"),
    [
        ("execute", {"command": "ls"}, True),
        ("execute", {"command": "ls", "cwd": "/"}, False),
        ("execute", {"command": "ls\nrm x"}, False),
        ("execute", {"command": "x" * 201}, False),
        ("execute", {"command": ["ls", "-l"]}, False),
        ("read", {"path": "a.py"}, True),
        ("read", {"path": "a.py", "limit": 3}, False),
        ("edit", {"path": "a.py", "old_string": "a", "new_string": "b"}, False),
        ("fetch", {"url": "https://a.example/x?token=1"}, False),
        ("other", {"a": 1, "b": "x"}, True),
        ("other", {"a": 1, "b": "x", "c": 2}, False),
        ("other", {"a": 1, "b": {"c": 2}}, False),
        ("other", {"a": None}, False),
        ("other", {}, True),
        ("other", "text", True),
        ("other", ["x"], False),
        ("other", None, False),
    ],
)
def test_a_summary_is_whole_only_if_it_says_every_argument(kind: str, value: Any, expected: bool) -> None:
    assert has_whole_summary(Card("c", 1, tool=CardTool("t", kind), input=value, has_input=True)) is expected


def test_a_summary_of_an_incomplete_or_edited_input_is_not_whole() -> None:
    whole = Card("c", 1, tool=CardTool("t", "execute"), input={"command": "ls"}, has_input=True)
    assert not has_whole_summary(whole.replace(has_input=False))
    assert not has_whole_summary(whole.replace(approval=CardApproval(edited={"command": "rm"}, has_edited=True)))


@loop_over(
    ("tool", "value", "line"),
    [
        ("Bash", {"command": "ls -l", "description": "list"}, "ls -l"),
        ("Bash", {"command": "a\nb"}, "a b"),
        ("shell", {"command": ["git", "push"]}, "git push"),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y\nz"}, "a.py +2 −1"),
        ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": ""}] * 2}, "a.py +0 −2"),
        ("Write", {"file_path": "b.md", "content": "1\n2\n3\n"}, "b.md +3 −0"),
        ("Read", {"file_path": "a.py", "limit": 3}, "a.py"),
        ("WebFetch", {"url": "https://user:pw@example.org/a?key=1", "prompt": "x"}, "example.org/a"),
        ("WebFetch", {"url": "http://["}, "http://["),
        ("mcp__github__create_issue", {"title": "Bug", "n": 3, "z": 1}, "github › create_issue title: Bug, n: 3"),
        ("get_weather", {"city": "Paris", "days": 2, "more": True}, "city: Paris, days: 2"),
        ("get_weather", {"deep": {"city": "Paris"}, "days": 2}, "days: 2"),
        ("get_weather", "Paris", "Paris"),
        ("get_weather", None, ""),
        ("Bash", {"command": "\u202eevil\x07"}, "\u202eevil\x07"),
    ],
)
def test_one_line_for_people(tool: str, value: Any, line: str) -> None:
    assert summarize(Card("c", tool=CardTool(tool, display_kind(tool)), input=value, has_input=True)) == line


def test_the_line_is_never_long() -> None:
    long = "x" * 100_000
    for entry in ({"command": long}, {long: long}, long):
        line = summarize(Card("c", tool=CardTool("Bash", "execute"), input=entry, has_input=True))
        assert len(line) == 200
    assert len(summarize(Card("c", text=Rope(long)))) == 200
    assert len(summarize(Card("c", tool=CardTool(f"mcp__{long}__tool")))) == 200
