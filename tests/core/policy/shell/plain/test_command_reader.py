"""One command: its name, redirections and here-document."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.shell.plain.command_reader import CommandReader, ParsedCommand
from toolcards.core.policy.shell.plain.words import NotPlain


def read(line: str) -> ParsedCommand:
    command = CommandReader(line).read_command(can_assign=False)
    assert command is not None
    return command


REDIRECTS = [
    ("ls", False, "", ""), ("ls 2>&1", True, "", ""), ("ls > /dev/null 2>&1", True, "", ""),
    ("ls > out", True, "out", ""),
    ("ls >out 2>>err", True, "out err", ""), ("ls &> out", True, "out", ""), ("ls 1>| out", True, "out", ""),
    ("cat < f", True, "", "f"), ("cat < f > 'a.txt'", True, "a.txt", "f"), ("cat > ~/.bashrc", True, "~/.bashrc", ""),
    ("cat > f <<'E'\nx\nE", True, "f", ""), ("cat <<\"E\" > f\nx\nE", True, "f", ""), ("cat 0< f", True, "", "f"),
]  # fmt: skip


@loop_over(("line", "redirected", "targets", "inputs"), REDIRECTS)
def test_a_redirection_names_the_files(line: str, redirected: bool, targets: str, inputs: str) -> None:
    command = read(line)
    assert (command.redirected, " ".join(command.targets), " ".join(command.inputs)) == (redirected, targets, inputs)
    assert command.text == line


OTHER_LINES = [
    "ls 3> f", "ls <> f", "ls >& f", "ls >&3", "ls >&-", "ls <&0", "ls <<< x", "ls > *", "ls > $x", "ls > ''", "ls >",
    "ls > &",
    "ls > /dev/tcp/1.1.1.1/80", "cat < /dev/tcp/h/1", "ls > //dev/sda", "ls > f x", "ls 2>&1 x", "> f ls", "2>&1",
    "ls>f",
    "echo 5>f", "ls > $?", "ls >(x)", "cat <(x)", "ls > f{a,b}", "cat <<E\nE", "ls >&2x", "ls > /./dev/tcp/h/1",
    "if x", "[ x ]", "! ls", "time ls", "export A", "'' ls", "~/ls", "l?", "=ls", "^a^b", "\\rm x", "é", "x[0]=1 ls",
    "{}",
]  # fmt: skip


@loop_over("line", OTHER_LINES)
def test_other_redirections_and_names_are_refused(line: str) -> None:
    with pytest.raises(NotPlain):
        read(line)
