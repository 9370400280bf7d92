"""Patterns for file names: what they can move, and what they can match."""

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.shell.plain.globs import may_expand_to
from toolcards.core.policy.shell.plain.parser import parse_line


def judge_line(effect, words, line, default):
    match = {"tool": "Bash", "args": [{"path": "/command", "op": "cmd", "value": words}]}
    policy = parse({"default": default, "rules": [{"id": "r", "effect": effect, "match": match | {"tool": ["Bash"]}}]})
    return decide(policy, PolicyRequest.for_tool("Bash", input={"command": line})).effect


def test_a_command_knows_which_of_its_words_are_patterns():
    (command,) = parse_line("sort a* ''* 'b*' c").commands
    assert command.globs == (frozenset({2}), frozenset({1, 2}))
    assert command.globs.part(2, 5) == (frozenset({0}), frozenset({0}))


@pytest.mark.parametrize(
    ("word", "target", "same"),
    [("rm", "rm", True), ("r?", "rm", True), ("r[m]", "rm", True), ("*", "rm", True), ("*.py", "rm", False)],
)
def test_a_pattern_may_be_a_name(word, target, same):
    assert may_expand_to(word, target) is same


@loop_over(
    ("denied", "line", "answer"),
    [
        ("git push", "git pus[h] origin", Effect.DENY),
        ("git push origin main", "git push origi? main", Effect.DENY),
        ("git push --force", "git push --forc[e] x", Effect.DENY),
        ("git push --force", "git push --forc x", Effect.DENY),
        ("git reset --hard", "git reset --har HEAD", Effect.DENY),
        ("git reset --hard", "git reset --h HEAD", Effect.DENY),
        ("rm --recursive", "rm --r x", Effect.DENY),
        ("rm --recursive", "rm -- x", Effect.ALLOW),
        ("terraform apply -auto-approve", "terraform apply --auto-approve", Effect.DENY),
        ("terraform apply --auto-approve", "terraform apply -auto-approve=true", Effect.DENY),
        ("terraform apply -auto-approve", "terraform apply auto-approve", Effect.ALLOW),
        ("rm -rf", "rm -r[f] x", Effect.DENY),
        ("rm", "mytool /bin/r? x", Effect.ASK),
        ("rm", "mytool -e /bin/r[m] x", Effect.ASK),
        ("rm", "mytool *.py", Effect.ALLOW),
        ("rm", "env -u ./p* ls", Effect.ASK),
        ("rm", "eval ls l*", Effect.ASK),
        ("rm", "awk 1* f", Effect.ASK),
        ("kubectl delete", "kubectl -n a* get pods", Effect.ASK),
        ("rm", "ls *.py src/*", Effect.ALLOW),
        ("rm", "git add src/*.py", Effect.ALLOW),
    ],
)
def test_a_deny_sees_what_a_pattern_may_name(denied, line, answer):
    assert judge_line("deny", denied, line, "allow") is answer


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("git commit", "git commit -m a*"),
        ("timeout 5 pytest", "timeout 5 pytest -k a*"),
    ],
)
def test_a_value_that_becomes_several_words_is_not_the_command_that_a_rule_spells_out(words, line):
    assert judge_line("allow", words, line, "ask") is Effect.ASK
    assert judge_line("allow", words, line.replace("a*", "'a*'"), "ask") is Effect.ALLOW
