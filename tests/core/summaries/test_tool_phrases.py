"""Calls of known tools as sentences: every place that they name is in the sentence."""

from __future__ import annotations

from typing import Any

from tests.support.tables import loop_over
from toolcards.core.summaries.tool_phrases import describe_arguments, describe_call, name_tool, read_command


@loop_over(
    ("tool", "value", "sentence"),
    [
        ("Grep", {"pattern": "x", "output_mode": "content"}, "Search for “x”"),
        ("Grep", {"pattern": "x", "include_path": "/etc"}, "Search for “x”, /etc"),
        ("Read", {"file_path": "a.py", "target": "/etc/passwd"}, "Read a.py, target: /etc/passwd"),
        ("send_email", {"to": "a@x.example", "attachment_path": "~/.ssh/id"}, "Mail a@x.example, ~/.ssh/id"),
        ("WebFetch", {"url": "https://a.example/", "method": "DELETE"}, "Fetch a.example, method: DELETE"),
        ("Read", {"file_path": ""}, ""),
        ("Read", {"file_path": ["a"]}, ""),
        ("Read", {}, ""),
        ("no_such_tool", {"path": "a"}, ""),
        ("Ｒead", {"path": "a"}, ""),
    ],
)
def test_no_place_is_left_out(tool: str, value: dict[str, Any], sentence: str) -> None:
    assert describe_call(tool, value, is_own=True) == sentence


def test_tools_of_servers_have_no_phrase_but_their_statements_have() -> None:
    assert describe_call("read", {"path": "a"}, is_own=False) == ""
    assert describe_call("read", {"sql": "drop table a"}, is_own=False) == "Drop table a"


@loop_over(
    ("value", "text"),
    [
        ({"x": 1, "to": "a", "y": 2}, ("go to place a, x: 1 and 1 more", False)),
        ({"note": "x" * 100}, ("go to place note: " + "x" * 79 + "…", False)),
        ({"owner": "a", "repo": "b", "issue_number": 3}, ("go to place a/b #3", True)),
        ({}, ("go to place", True)),
    ],
)
def test_arguments_that_weigh_most_come_first(value: dict[str, Any], text: tuple[str, bool]) -> None:
    assert describe_arguments("goToPlace", value) == text


def test_a_name_is_written_in_words_unless_it_has_odd_signs() -> None:
    names = ["merge_pull_request", "getHTTP", "a-b", "fs/read", "rm\u202e"]
    assert [name_tool(name) for name in names] == ["merge pull request", "get HTTP", "a-b", "fs/read", "rm\u202e"]


def test_only_a_shell_with_one_line_is_left_out_of_a_command() -> None:
    assert read_command({"command": ["sh", "-c", "ls"]}) == "ls"
    assert read_command({"command": ["sh", "-c", "ls", "x"]}) == "sh -c ls x"
    assert read_command({"command": ["bash", "-x", "ls"]}) == "bash -x ls"
    assert read_command({"command": 5}) == ""
