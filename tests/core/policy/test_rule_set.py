"""The index and its shortcuts change no answer: each is held against asking every rule, and every word, one by one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.policy_strategies import add_ids, disable_index, documents, questions
from toolcards.core.policy.decision import PolicyRequest, decide
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.language.document import parse as compiled
from toolcards.core.policy.rule import evaluate_parts
from toolcards.core.policy.shell.command_prefix import parse_prefix
from toolcards.core.policy.shell.rule_operands import CommandOperand
from toolcards.core.policy.shell.script import read_line
from toolcards.core.policy.truth import FALSE

# Few words, so that rules and calls often say the same: options, wrappers, and flags that run what cannot be seen.
PROGRAMS = ["git", "git", "/usr/bin/git", "GIT.exe", "curl", "rm", "sudo git", "env a=b git", "xargs git", "ssh x git"]
WORDS = ["push", "push", "x", "-f", "-C", "--no-pager", "-o", "git push", "'git push'"]
rest = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
words = st.builds("{} {}".format, st.sampled_from(PROGRAMS), rest).map(str.strip)
joins = st.sampled_from([" && ", " | ", "; ", "\n"])
plain = st.lists(words, min_size=1, max_size=3).flatmap(lambda parts: joins.map(lambda join: join.join(parts)))
odd = plain.map(lambda line: f"{line} 2>&1") | plain.map(lambda line: f"echo $({line})") | st.text(max_size=20)
lines = words | plain | odd
argv = words.map(str.split)
NAMES = ["git", "git push", "git push", "git x", "git push x", "git push -f", "git -C push", "push", "rm", "$X", "a; b"]
heads = st.sampled_from(NAMES) | words
command_values = heads | st.lists(heads, min_size=1, max_size=3)
commands = st.fixed_dictionaries(
    {"path": st.sampled_from([*["/command"] * 3, "/other", "/list/*"]), "op": st.just("cmd"), "value": command_values},
    optional={"quant": st.sampled_from(["any", "all"])},
)  # fmt: skip
patterns = st.fixed_dictionaries(
    {"path": st.sampled_from(["/command", "/list/*"]), "op": st.just("re2"),
     "value": st.sampled_from([".*push.*", "git .*", ["ls", "(?i)GIT.*"], "", ".*"])},
    optional={"quant": st.sampled_from(["any", "all"])},
)  # fmt: skip
clauses = st.fixed_dictionaries(
    {"args": st.lists(commands | patterns, min_size=1, max_size=2)},
    optional={"tool": st.just(["Bash"]), "agent": st.just("boss"), "rate": st.just({"over": 3, "per": "10m"})},
)
rules = st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "ask", "deny"]), "match": clauses},
    optional={"unless": st.lists(clauses, max_size=1), "mode": st.just("monitor"), "ask": st.just({"quorum": 2})},
)
about_commands = st.fixed_dictionaries(
    {"default": st.sampled_from(["allow", "ask", "deny"]), "rules": st.lists(rules, max_size=8)}
)
inputs = st.fixed_dictionaries(
    {}, optional={"command": lines | argv, "other": lines, "list": st.lists(lines, max_size=2)}
)
calls = st.builds(
    PolicyRequest.for_tool, st.sampled_from(["Bash", "Edit"]), input=inputs, agent_path=st.just(("boss", "sub"))
)


@pytest.mark.slow
@draw(200)
@given(about_commands, calls)
def test_rules_about_commands_answer_as_if_each_were_asked(document, question):
    document = add_ids(document)
    assert decide(compiled(document), question) == decide(disable_index(compiled(document)), question)


@draw(100)
@given(documents, questions)
def test_all_rules_answer_as_if_each_were_asked(document, question):
    document = add_ids(document)
    assert decide(compiled(document), question) == decide(disable_index(compiled(document)), question)


@pytest.mark.slow
@draw(200)
@given(st.lists(words, max_size=3), words | lines | argv)
def test_no_rule_that_matches_is_missing(more, command):
    entries = [{"path": "/command", "op": "cmd", "value": value} for value in [*NAMES, *more]]
    rules = [{"effect": "ask", "match": {"args": [one]}} for one in entries]
    policy, question = compiled(add_ids({"rules": rules})), PolicyRequest.for_tool("Bash", input={"command": command})
    could = {rule.id for rule in policy.candidates(EvaluationContext(question))}
    assert could >= {
        rule.id
        for rule in policy.rules
        if any(truth is not FALSE for truth in evaluate_parts(rule, EvaluationContext(question)))
    }


@draw(200)
@given(st.lists(heads, min_size=1, max_size=5), lines)
def test_several_words_are_found_as_if_each_were_looked_for(names, line):
    every = tuple(parse_prefix(text) for text in names)
    together, each = CommandOperand(every), [CommandOperand((words,)) for words in every]
    script = read_line(line)
    assert together.match_widely(script) == max(one.match_widely(script) for one in each)
    for segment in script.segments:
        assert together.match_narrowly(segment)[0] == max(one.match_narrowly(segment)[0] for one in each)


def test_a_call_meets_only_the_rules_whose_words_run():
    words = {"push": "git push", "origin": "git push origin", "upstream": "git push upstream", "pull": "git pull",
             "rm": "rm", "forced": "git -f push"}  # fmt: skip
    rules = [{"id": name, "effect": "ask", "match": {"args": [{"path": "/command", "op": "cmd", "value": value}]}}
             for name, value in words.items()]  # fmt: skip
    policy = compiled({"default": "allow", "rules": rules})
    context = EvaluationContext(PolicyRequest.for_tool("Bash", input={"command": "sudo git --no-pager push origin"}))
    assert {rule.id for rule in policy.candidates(context)} == {"push", "origin", "forced"}
    assert decide(policy, context.request).rules == ("origin", "push")


@pytest.mark.slow
@draw(300)
@given(document=documents, question=questions, counts=st.integers(0, 5), now=st.sampled_from([1.0, 1e9, 1.9e9]))
def test_a_policy_that_does_not_change_with_time_decides_alike_at_any_time(document, question, counts, now):
    policy = compiled(add_ids(document))
    if not policy.changes_with_time:
        later = replace(question, now=now, counts=dict.fromkeys(question.counts, counts))
        assert decide(policy, later) == decide(policy, question)


@pytest.mark.parametrize(
    "rule",
    [{"match": {"rate": {"over": 1, "per": "1h"}}}, {"match": {"when": {"from": "12:00"}}},
     {"match": {"tool": ["a"]}, "unless": [{"when": {"days": ["mon"]}}]},
     {"match": {"tool": ["a"]}, "expires_at": "2030-01-01T00:00:00Z"}],
)  # fmt: skip
def test_a_rule_about_time_or_other_calls_makes_a_policy_change_with_time(rule):
    assert compiled({"v": 1, "rules": [{"id": "r", "effect": "ask", **rule}]}).changes_with_time
    assert not compiled({"v": 1, "rules": [{"id": "r", "effect": "ask", "match": {"tool": ["a"]}}]}).changes_with_time
