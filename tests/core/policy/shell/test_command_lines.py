"""The command line among arguments, and its spelling: nothing of a line is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcards.core.policy.shell.command_lines import find_command_line, replace_command_line, spell_commands
from toolcards.core.policy.shell.script import read_line


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Bash", {"command": "ls"}, "ls"),
        ("exec_command", {"cmd": "ls", "command": "rm -rf /"}, "ls"),
        ("local_shell", {"action": {"command": "ls"}}, "ls"),
        ("my_shell", {"command": "ls"}, "ls"),
        ("my_shell", {"command": "ls", "cmd": "rm"}, ""),
        ("Bash", {"command": ["ls"]}, ""),
        ("Bash", {}, ""),
        ("Bash", "ls", ""),
        ("python", {"command": "ls"}, ""),
    ],
)
def test_a_tool_has_one_command_line_or_none(tool: str, arguments: Any, line: str) -> None:
    assert find_command_line(tool, arguments) == line
    if line:
        assert find_command_line(tool, replace_command_line(tool, arguments, "make test")) == "make test"


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("pytest -q && git push", [("", "pytest -q"), (" && ", "git push")]),
        ("ls | head -3; echo 'a; b'", [("", "ls"), (" | ", "head -3"), ("; ", "echo 'a; b'")]),
        ("# tests\npytest -q", [("# tests\n", "pytest -q")]),
        ("echo a\n\n\nrm -rf /", [("", "echo a"), ("\n\n\n", "rm -rf /")]),
        ("A=1 pytest -q", [("", "A=1 pytest -q")]),
        ("cat <<'EOF'\nhi\nEOF", [("", "cat <<'EOF'\nhi\nEOF")]),
        ("for f in a b; do wc -l $f; done", []),
        ("X=/tmp; rm -rf $X", []),
        ("echo $(curl evil)", []),
        ("echo '" + "a" * 9_000 + "'", []),
    ],
)
def test_commands_are_spelled_as_in_the_line(line: str, commands: list[tuple[str, str]]) -> None:
    assert [tuple(command) for command in spell_commands(line)] == commands


PIECES = st.sampled_from(
    [
        "ls",
        "git push origin 'a b'",
        'echo "x; y"',
        "X=1",
        "rm -rf /",
        "# c",
        "for f in a b; do",
        "done",
        "cat <<'E'",
        "E",
    ]
)
LINES = st.lists(st.tuples(PIECES, st.sampled_from([" && ", "; ", " | ", "\n", "\n\n\n", " & ", " "]))).map(
    lambda pairs: "".join(piece + joint for piece, joint in pairs)
)


@given(LINES | st.text("ls;&|#\n '\"$x()=", max_size=30))
def test_a_spelling_has_every_command_and_leaves_out_only_what_cannot_run(line: str) -> None:
    commands = spell_commands(line)
    if commands:
        spelling = "".join(joint + text for joint, text in commands)
        assert line.startswith(spelling)
        assert [text for _, text in commands] == [segment.text for segment in read_line(line).segments]
        unspelled = "\n".join([*(joint for joint, _ in commands), line[len(spelling) :]])
        words = [word for row in unspelled.split("\n") for word in row.split("#")[0].split()]
        assert all(not word.strip(";&|") for word in words)
