"""Templates of commands: what may be open in them, and what never is."""

from __future__ import annotations

import shlex

from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.command_prefix import parse_prefix
from toolcards.core.policy.shell.plain.globs import NO_GLOBS
from toolcards.core.policy.shell.work.templates import fits, has_slots, is_number, is_path

ROOT = "/home/dev/work/shop"
PROJECT = read_project(ROOT)

FITTING = [
    ("pandoc {path} -o {path}", "pandoc a.md docs/b.md -o out/a.pdf"),
    ("gh pr comment {number} --body {text}", "gh pr comment 7 --body 'It works, see a.py'"),
    ("git push -u origin fix/{rest}", "git push -u origin fix/a-b.2"),
    ("curl -s https://a.example/{rest}", "curl -s https://a.example/x?y=1"),
    ("tool build {path}", f"tool build {ROOT}/a.c"),
    ("tool {path}", "tool /tmp/x.log"),
    ("kill %{number}", "kill %{number}"),
    ("sleep {number}", "sleep 30"),
]


@loop_over(("template", "line"), FITTING)
def test_a_template_fits_commands_that_differ_where_it_is_open(template: str, line: str) -> None:
    assert fits(tuple(template.split()), tuple(shlex.split(line)), NO_GLOBS, PROJECT)


OTHER = [
    ("pandoc {path} -o {path}", "pandoc a.md"),
    ("pandoc {path} -o {path}", "pandoc a.md -o out/a.pdf x"),
    ("tool {path}", "tool ../x.c"),
    ("tool {path}", "tool /etc/x.c"),
    ("tool {path}", "tool ~/x.c"),
    ("tool {path}", "tool --out=x.c"),
    ("tool {path}", "tool .git/config"),
    ("tool {path}", "tool https://a.example/x"),
    ("tool {path}", "tool"),
    ("tool {path}", "tool prod/x.c"),
    ("tool {path}", "tool name"),
    ("tool {path}", "tool .env"),
    ("tool {number}", "tool -9"),
    ("tool {number}", "tool a"),
    ("tool {number}", "tool 12345678901"),
    ("gh pr comment {number} --body {text}", "gh pr comment 7 --body --web"),
    ("gh pr comment {number} --body {text}", "gh pr comment 7 --body @x"),
    ("gh pr comment {number} --body {text}", "gh pr comment 7 --body a --repo x/y"),
    ("git push -u origin fix/{rest}", "git push -u origin main"),
    ("git push -u origin fix/{rest}", "git push -u evil fix/a"),
    ("git push -u origin fix/{rest}", "git push -u origin fix/a:main"),
    ("git push -u origin fix/{rest}", "git push -f origin fix/a"),
    ("git push -u origin fix/{rest}", "git push -u origin fix/../main"),
    ("git push -u origin fix/{rest}", "git push -u origin fix/"),
    ("curl -s https://a.example/{rest}", "curl -s https://a.example.evil.net/x"),
    ("curl -s https://a.example/{rest}", "curl -s https://a.example/x -d y"),
    ("curl -s https://a.example/{rest}", "curl -s https://evil.net/https://a.example/x"),
    ("curl -s https://a.example/{rest}", "curl -s https://a.example/x@evil.net"),
]


@loop_over(("template", "line"), OTHER)
def test_a_template_does_not_fit_other_commands(template: str, line: str) -> None:
    assert not fits(tuple(template.split()), tuple(shlex.split(line)), NO_GLOBS, PROJECT)


def test_paths_are_open_only_where_the_project_is_known() -> None:
    assert not fits(("tool", "{path}"), ("tool", "a.c"), NO_GLOBS, None)
    assert is_path("a.c", PROJECT) and not is_path("a.c", None)
    assert is_number("%1") and not is_number("1.5")
    assert has_slots(("a", "b/{rest}")) and not has_slots(("a", "{x}"))


def find_effect(rule_effect: str, template: str, line: str) -> Effect:
    rule = {"id": "r", "effect": rule_effect, "match": {"args": [{"path": "", "op": "cmd", "value": template}]}}
    looks = {"effect": "allow", "match": {"args": [{"path": "", "op": "effect", "value": "none"}]}}
    policy = parse({"default": "ask" if rule_effect == "allow" else "allow", "rules": [rule, looks]})
    return decide(policy, PolicyRequest.for_tool("Bash", input={"command": line}, root=ROOT)).effect


ALLOWED = [
    "flutter build a.c",
    "flutter build a.c b/c.c | tail -3",
    "flutter build a.c > /tmp/x 2>&1",
    "cd src && flutter build a.c",
    "ls && flutter build a.c",
]
NOT_ALLOWED = [
    "flutter build /etc/x.c",
    "flutter build a.c && git push",
    "flutter build $X",
    "flutter build a.c > ~/.bashrc",
    "cd .. && flutter build a.c",
    "cd /tmp && flutter build a.c",
    "flutter build *.c",
    "sudo flutter build a.c",
    "A=1 flutter build a.c",
    "bash -lc 'flutter build a.c'",
    "flutter build a.c; rm -rf x",
    "flutter build",
    "find . | xargs flutter build a.c",
]


@loop_over(
    ("line", "effect"), [(line, Effect.ALLOW) for line in ALLOWED] + [(line, Effect.ASK) for line in NOT_ALLOWED]
)
def test_a_rule_with_a_template_allows_whole_commands_in_the_project(line: str, effect: Effect) -> None:
    assert find_effect("allow", "flutter build {path}", line) is effect


@loop_over(
    "line", ["gh pr comment 7", "gh -R a/b pr comment 7", "bash -c 'gh pr comment 7 --body x'", "time gh pr comment 7"]
)
def test_a_rule_that_denies_a_template_denies_every_command_of_its_words(line: str) -> None:
    assert find_effect("deny", "gh pr comment {number}", line) is not Effect.ALLOW


def test_a_program_is_never_open() -> None:
    assert parse_prefix("{path} x").words == ()
    assert parse_prefix("gh pr comment {number}").words == ("gh", "pr", "comment", "{number}")
