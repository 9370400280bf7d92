"""Shell commands: what is plain, what allow rules let pass, what deny rules catch."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.command_rules import DENY_RM, find_effect, policy
from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import call_digest
from toolcards.core.policy.decision import Effect
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.shell.script import read_command, read_line

ALLOWED = ["ls", "git status", "git diff", "cat", "echo", "grep", "head", "pytest", "npm test", "find", "rg", "tar",
           "go test", "git", "ssh", "sort", "env", "xargs", "timeout 5", "bash", "sed", "awk"]  # fmt: skip


def deny_of(tool):
    return policy("deny", "rm", "allow", tool)


def allow_of(tool):
    return policy("allow", ALLOWED, "ask", tool)


ALLOW = policy("allow", ALLOWED, default="ask")
ALLOW_OPEN = policy("allow", ALLOWED, default="allow")


ATTACKS = [
    "ls; rm -rf x", "ls && rm x", "ls || rm x", "ls | rm x", "ls\nrm x", "ls & rm x", "ls &rm x", "ls&&rm x",
    "ls;rm x",
    "ls $(rm x)", "ls `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "echo ${x:=rm}", "cat <(rm x)", "ls > /etc/passwd",
    "ls >> ~/.bashrc", "cat <<EOF\nrm\nEOF", "cat <<<x", "ls 2>x", "(rm x)", "{ rm x; }",
    "if true; then rm x; fi", "for i in a; do rm x; done", "while true; do rm x; done", "! rm x", "FOO=1 rm x",
    "PATH=/tmp ls", "LD_PRELOAD=x ls", "~/ls", "./l?", "*", "[ -n x ]", "[[ -n x ]]", "ls # \nrm x", "# ls",
    "ls\rrm x", "ls\x00rm x", "ls\u2028rm x", "ls\u00a0x", "ls ‮x", "ｌｓ x", "ls 'a", 'ls "a',
    "", " ", "\n", ";", "ls;;rm x", "&& ls", "ls &&", "| ls", "ls |& rm x", "export X=1", "unset x", "--", "-- ls",
    "ls \x1b[2J",
    "echo !rm", 'echo "!rm"', "!!", "^a^b", "=ls", "function ls { rm x; }", "coproc rm x", "time rm x", "a=(1)",
    "'' ls",
    "/tmp/ls", "./ls", "LS", "ls\trm", "case x in x) rm;; esac", "git -c core.pager=rm status", "git diff --output=x",
    "git diff --outp x", "git -ccore.pager=x log", "git --exec-path=/tmp status", "git log --ext-diff",
    "git ls-remote --upload-pack=x y", "git grep -Ovi x", "git grep --open-files-in-pager=vi x", "find . -exec rm x",
    "find . -delete",
    "find . -execdir rm x +", "find . -fprintf x y", "rg --pre rm x", "rg --pre=rm x",
    "tar -cf a b --checkpoint-action=exec=sh",
    "tar -xf a -I sh", "tar xf a --to-command=sh", "go test -exec sh", "go test -toolexec sh",
    "ssh -o ProxyCommand=rm x",
    "ssh -oProxyCommand=rm x", "sort --compress-program=rm x", "sort -o x y", "env rm x", "env -S 'rm x'", "xargs rm",
    "ls | xargs rm", "timeout 5 rm x", "timeout 5 -s9 rm x", "bash -c 'rm x'", "bash", "echo x | bash", "bash -lc ./x",
    "sed -i s/a/b/ x", "sed -n '1e rm x' y", "sed 's/a/rm x/e' y", "awk 'BEGIN{system(\"rm x\")}'", "pytest -p evil",
    "sudo ls", "rm x", "ls x; find . -delete; ls", "git status --porcelain; hg push", "npm test; npm publish",
]  # fmt: skip


@loop_over("command", ATTACKS)
def test_no_attack_passes_an_allow_rule(command):
    assert find_effect(ALLOW, command).effect is Effect.ASK


ORDINARY = [
    "ls", "ls -la", "ls -la /tmp *.py", "git status", "git diff --stat HEAD~1", "cat a.txt b.txt",
    "echo 'it costs $5'",
    'echo "hello, world"', "grep -rn 'a|b' src", "head -n 5 x | grep y", "pytest -q tests/core && git status",
    "npm test",
    "npm test -- --watch=false", "ls\ngit status\n", "ls; ls ;", "git log --oneline -5",
    "find . -name '*.py' -type f",
    "echo 'naïve ❤'", "rg -n foo", "tar -tf a.tar", "go test ./...", "grep 'rm -rf' x", "git status&&git diff",
    "sed -n '1,5p' x",
    "ls 2>&1", "ls missing 2>/dev/null | head", "bash -lc ls", "timeout 5 ls",
    "awk '{print $1}' x", "ls ~/src", "echo a#b", "echo \"a (b) {c} <d>; e & f\"",
]  # fmt: skip


@loop_over("command", ORDINARY)
def test_ordinary_commands_are_allowed(command):
    assert find_effect(ALLOW, command).effect is Effect.ALLOW


SPELL_RM = [
    "rm x", "rm -rf /", "/bin/rm x", "../bin/rm x", "'rm' x", '"rm" x', "r'm' x", "r''m x", '"r"m x', "ls; rm x",
    "ls && rm x",
    "ls || rm x", "ls | rm x", "ls\nrm x", "ls & rm x", "sudo rm x", "sudo -u bob rm x", "sudo -E -u bob -- rm x",
    "doas rm x",
    "env A=1 rm x", "env -i A=1 rm x", "A=1 rm x", "timeout 5 rm x", "timeout -s KILL 5s rm x", "nice -n 10 rm x",
    "nohup rm x",
    "time rm x", "command rm x", "builtin rm x", "ls | xargs rm", "xargs -n1 -0 rm", "busybox rm x", "exec rm x",
    "eval rm x",
    "eval 'rm x'", "watch rm x", "watch 'rm x'", "sh -c 'rm x'", "bash -lc 'ls; rm x'", "bash -c \"sh -c 'rm x'\"",
    "find . -exec rm x", "find . -name y -execdir rm x +", "$(rm x)", "`rm x`", "(rm x)", "{ rm x; }", "echo $(rm x)",
    "if true; then rm x; fi", "r\\m x", "\\rm x", "ls # \nrm x", "cat <<E\nrm x\nE", "echo 'rm x' | sh", "RM x",
    "rm.exe x",
    "sudo timeout 5 nice env rm x", "stdbuf -o0 rm x", "setsid rm x", "script -c 'rm x'", "su -c 'rm x' bob",
    "flock l rm x",
    "python -c 'import os; os.system(\"rm x\")'", "git -c alias.x='!rm y' x", "awk 'BEGIN{system(\"rm x\")}'",
    "ssh host rm x",
    "ssh host 'ls; rm x'", "docker exec -it box rm x", "env -S 'rm x'", "parallel rm ::: x", "chroot / rm x",
    "rm\tx", "rm\r",
    "fd -x rm", "trap 'rm x' EXIT", "> y rm x", "! rm x", "while :; do rm x; done", "rm\u00a0x",
]  # fmt: skip


@loop_over("command", SPELL_RM)
def test_a_deny_catches_every_spelling(command):
    assert find_effect(DENY_RM, command).effect is Effect.DENY


def test_a_deny_reads_a_list_of_words():
    for argv in (["rm", "x"], ["bash", "-lc", "ls && rm x"], ["/bin/rm"], ["sudo", "rm", "x"]):
        assert find_effect(DENY_RM, argv).effect is Effect.DENY
        assert find_effect(deny_of("shell"), argv, "shell").effect is Effect.DENY
    assert find_effect(deny_of("shell"), ["ls", "a; rm x"], "shell").effect is Effect.ALLOW
    assert (
        find_effect(allow_of("shell"), ["ls", "$(rm x)"], "shell").effect is Effect.ALLOW
    )  # no shell reads a list of words
    assert find_effect(allow_of("shell"), ["bash", "-c", "ls"], "shell").effect is Effect.ALLOW
    assert find_effect(allow_of("shell"), ["bash", "-c", "ls; rm x"], "shell").effect is Effect.ASK


def test_a_list_may_hold_lines_and_is_opaque_where_the_tool_is_not_known():
    for tool in ("Bash", "my_shell"):
        assert find_effect(deny_of(tool), ["ls", "rm -rf /"], tool).effect is Effect.DENY
        assert find_effect(allow_of(tool), ["ls"], tool).effect is Effect.ASK
        assert find_effect(deny_of(tool), ["ls", "-l"], tool).code == "opaque_command"


@pytest.mark.parametrize("command",
["$CMD x", "$'\\x72m' x", "ls > *", "echo $HOME", "ls *(N)", "(a) & b", "bash", "curl x | sh",
                                     "bash -c 'echo $X'", ". ./x", "r${z}m x"])  # fmt: skip
def test_an_opaque_command_is_never_below_ask(command):
    decision = find_effect(DENY_RM, command)
    assert (decision.effect, decision.code) == (Effect.ASK, "opaque_command")
    assert decision.ask.grants == ("once",)


def test_an_allow_rule_about_commands_makes_opaque_ones_ask_too():
    assert find_effect(ALLOW_OPEN, "ls $HOME").code == "opaque_command"
    assert find_effect(ALLOW_OPEN, "find . -delete").code == "opaque_command"


def test_an_opaque_command_is_not_lifted_where_the_default_is_to_deny():
    assert find_effect(policy("deny", "rm", default="deny"), "echo $HOME").effect is Effect.DENY
    assert find_effect(policy("allow", "ls", default="deny"), "ls $HOME").effect is Effect.DENY


def test_each_segment_may_be_allowed_by_another_rule():
    one = {"tool": "Bash", "args": [{"path": "/command", "op": "cmd", "value": "ls"}]}
    two = {"tool": "Bash", "args": [{"path": "/command", "op": "cmd", "value": "git status"}]}
    rules = parse(
        {"rules": [{"id": "a", "effect": "allow", "match": one}, {"id": "b", "effect": "allow", "match": two}]}
    )
    both = find_effect(rules, "ls && git status")
    assert both.effect is Effect.ALLOW and set(both.rules) == {"a", "b"}
    assert find_effect(rules, "ls && git push").effect is Effect.ASK


def test_exceptions_are_judged_per_segment():
    push = {"tool": "Bash", "args": [{"path": "/command", "op": "cmd", "value": "git push"}]}
    dry = [{"args": [{"path": "/command", "op": "eq", "value": "git push --dry-run"}]}]
    rules = parse({"default": "allow", "rules": [{"id": "r", "effect": "ask", "match": push, "unless": dry}]})
    assert find_effect(rules, "git push --dry-run").effect is Effect.ALLOW
    assert find_effect(rules, "ls && git push --dry-run").effect is Effect.ALLOW
    for command in (
        "git push --dry-run && git push",
        "git push --dry-run --no-dry-run",
        "git push '--dry-run'",
        "git push",
    ):
        assert find_effect(rules, command).effect is Effect.ASK


def test_an_exception_of_an_allow_is_read_widely():
    match = {"tool": "Bash", "args": [{"path": "/command", "op": "cmd", "value": "git"}]}
    unless = [{"args": [{"path": "/command", "op": "cmd", "value": "git push"}]}]
    rules = parse({"default": "ask", "rules": [{"id": "r", "effect": "allow", "match": match, "unless": unless}]})
    assert find_effect(rules, "git status").effect is Effect.ALLOW
    assert find_effect(rules, "git --no-pager push").effect is Effect.ASK


@pytest.mark.parametrize(
    "padding", ["sudo " * 1500, "sudo -a " * 1000, "env A=1 " * 900, "bash -c " * 900, "ls; " * 1900]
)
def test_padding_hides_nothing(padding):
    assert find_effect(DENY_RM, padding + "rm x").effect is Effect.DENY


def test_too_long_a_command_is_opaque():
    assert find_effect(DENY_RM, "ls " + "x" * 8200 + "; rm x").effect is Effect.DENY
    assert read_line("ls " + "x" * 8200).segments[0].opaque


@settings(deadline=None)
@given(st.text(alphabet="rm ls'\"$`\\;&|\n<>(){}#!~*?=-/\t\réx", max_size=40))
def test_reading_never_fails_and_what_is_allowed_starts_as_allowed(command):
    parts = read_line(command).segments
    assert parts
    if not any(part.opaque for part in parts):
        assert all(part.words and part.words[0] for part in parts)
    if find_effect(policy("allow", "ls", "ask"), command).effect is Effect.ALLOW:
        assert all(part.words[0] == "ls" for part in parts)
    assert find_effect(DENY_RM, command).effect in Effect


@pytest.mark.slow
@pytest.mark.parametrize(
    "decide_one",
    [
        lambda text: find_effect(DENY_RM, f"ls {text}"),
        lambda text: find_effect(DENY_RM, "ls", tool=text),
        lambda text: call_digest({}, name=text),
    ],
)
def test_decisions_keep_no_long_commands_and_tools_in_memory(decide_one):
    decide_one("a warm cache")
    tracemalloc.start()
    try:
        for number in range(400):
            decide_one(f"{number}{'a' * 20_000}")
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 3_000_000  # of 8,000,000 characters: some caches hold the last 64


def test_a_line_of_a_list_that_another_line_gives_a_variable_is_opaque():
    """Some tools run each line in a shell of its own, where `$DIR` is empty."""
    lines = ["DIR=src", 'rm -r "$DIR"/']
    script = read_command(lines, "lines")
    assert script.segments[0].opaque == "it contains no command"
    assert read_command(["A=src true", 'rm -r "$A"/'], "lines").segments[0].opaque
    assert not read_command(["cd src", "ls", ""], "lines").segments[0].opaque
    assert any(view[0] == "rm" for view in script.segments[0].views)
