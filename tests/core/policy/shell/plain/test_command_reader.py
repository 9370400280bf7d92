"""One command: its name, redirections and here-document."""

from __future__ import annotations

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.shell.plain.command_reader import (
    CommandReader,
    ParsedCommand,
    is_harmless_name,
    may_set_variables,
    spell_environment,
)
from toolcards.core.policy.shell.plain.words import NotPlain, Word


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


@loop_over("name", ["f", "file", "x1", "pod_name", "FILE", "X", "URL", "rc"])
def test_names_that_only_the_line_reads_are_harmless(name: str) -> None:
    assert is_harmless_name(name)


@loop_over(
    "name",
    [
        "PATH", "path", "IFS", "LD_PRELOAD", "GIT_DIR", "BASH_ENV", "ENV", "HOME", "EDITOR", "PYTHONPATH",
        "NODE_OPTIONS",
        "http_proxy", "npm_config_script_shell", "fpath", "status", "PS4", "CDPATH", "_", "KUBECONFIG", "GOFLAGS",
        "DOCKER_HOST", "prompt", "PIPESTATUS", "histchars", "COMPOSE_FILE",
    ],
)  # fmt: skip
def test_names_that_shells_and_programs_read_are_not(name: str) -> None:
    assert not is_harmless_name(name)


@loop_over(
    ("words", "sets"),
    [("read x", True), ("command read x", True), ("printf -v x y", True), (". ./x", True), ("eval x=1", True),
     ("printf x", False), ("cat read.txt", False)],
)  # fmt: skip
def test_commands_that_may_set_variables_are_known(words: str, sets: bool) -> None:
    assert may_set_variables(tuple(words.split())) is sets


def test_variables_that_change_nothing_are_no_words() -> None:
    assert spell_environment([("CI", Word("1", "1")), ("LANG", Word("C", "C"))], "make") == ()


def test_other_variables_are_words_of_env() -> None:
    assignments = [("CI", Word("1", "1")), ("NODE_OPTIONS", Word("-r x", "-r x"))]
    assert spell_environment(assignments, "make") == ("env", "CI=1", "NODE_OPTIONS=-r x")


@loop_over(
    ("name", "program"),
    [("PATH", "make"), ("LD_PRELOAD", "make"), ("BASH_ENV", "make"), ("IFS", "make"), ("HOME", "make"), ("A", "eval"),
     ("A", "cd"), ("A", "source"), ("A", "export"), ("A", "env"), ("GIT_EXEC_PATH", "git"), ("A", "echo")],
)  # fmt: skip
def test_variables_of_the_shell_and_before_its_own_commands_are_not_plain(name: str, program: str) -> None:
    with pytest.raises(NotPlain):
        spell_environment([("CI", Word("1", "1")), (name, Word("1", "1"))], program)
