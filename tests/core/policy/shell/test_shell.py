"""Command lines that run, delete, write or send behind a harmless first word: none is allowed, none passes a deny."""

import pytest

from tests.support.shell_samples import read_lines
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS

PACK = parse(PRESETS["ask-on-writes"].document)


def cmd(op, value):
    return {"tool": "Bash", "args": [{"path": "/command", "op": op, "value": value}]}


def judge_line(effect, op, value, line, default):
    policy = parse({"default": default, "rules": [{"id": "r", "effect": effect, "match": cmd(op, value)}]})
    return decide(policy, PolicyRequest.for_tool("Bash", input={"command": line})).effect


# Each fell once; the first column is what it runs. The others write, delete, send, or run what no word names.
FELL = [(line, runs) for runs, _, line in (text.partition("\t") for text in read_lines("fell"))]
HARMFUL = read_lines("harmful")


@loop_over(("line", "runs"), FELL)
def test_no_rule_for_the_first_program_allows_what_it_runs(line, runs):
    first = line.split()[0]
    assert judge_line("allow", "cmd", first, line, "ask") is Effect.ASK
    assert judge_line("allow", "effect", "none", line, "ask") is Effect.ASK


@loop_over(("line", "runs"), FELL)
def test_no_deny_for_what_runs_is_passed(line, runs):
    assert judge_line("deny", "cmd", runs, line, "allow") is not Effect.ALLOW
    assert judge_line("deny", "effect", "runs", line, "allow") is not Effect.ALLOW


@pytest.mark.slow
@loop_over("line", [*HARMFUL, *(line for line, _ in FELL)])
def test_the_starter_policy_lets_nothing_run_that_does_more_than_look(line):
    assert decide(PACK, PolicyRequest.for_tool("Bash", input={"command": line})).effect is not Effect.ALLOW


@loop_over("line", [line for line in HARMFUL if line.split()])
def test_a_rule_that_names_only_the_program_does_not_allow_it(line):
    first = line.split()[0].strip("'\"") or "x"
    if len(line.split()) > 1 and first.isascii() and first.replace("-", "").isalnum():
        assert judge_line("allow", "cmd", first, line, "ask") is Effect.ASK


@pytest.mark.parametrize(
    "program", ["python3", "python -", "node", "perl", "ruby -", "bash", "sh -s", "sqlite3", "php"]
)
def test_a_program_that_does_what_is_piped_into_it_is_never_sure(program):
    line = f"cat x | {program}"
    assert judge_line("deny", "cmd", "rm", line, "allow") is Effect.ASK
    assert judge_line("allow", "cmd", ["cat", program], line, "ask") is Effect.ASK
    assert judge_line("allow", "cmd", "python x.py", "python x.py", "ask") is Effect.ALLOW


def test_a_name_that_was_given_to_another_program_is_not_trusted():
    for line in ("hash -p /tmp/x ls; ls f", "alias ls=x; ls f", "printf -v PATH /tmp; ls f"):
        assert judge_line("allow", "cmd", ["ls", "hash", "printf", "alias"], line, "ask") is Effect.ASK
        assert judge_line("deny", "cmd", "rm", line, "allow") is Effect.ASK
