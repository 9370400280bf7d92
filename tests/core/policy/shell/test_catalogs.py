"""The catalogues of programs and tools say only what can be meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.core.policy.places.project import read_project
from toolcards.core.policy.shell.catalogs import (
    explain_other_arguments,
    find_program,
    list_names,
    load_programs,
    load_tools,
    move_project,
)

SHELL = ("Bash", "/command")


SHOP = read_project("/home/ann/shop")


@loop_over(
    ("tool", "arguments", "folder"),
    [
        ("exec_command", {"cmd": "ls", "workdir": "/home/ann/shop/src"}, "src"), ("shell", {"workdir": "src"}, "src"),
        ("local_shell", {"action": {"working_directory": "src"}}, "src"), ("exec_command", {"workdir": ""}, "."),
        ("exec_command", {"workdir": None}, "."), ("exec_command", {}, "."), ("exec_command", None, "."),
        ("exec_command", {"workdir": "/etc"}, None), ("exec_command", {"workdir": ["src"]}, None),
        ("exec_command", {"workdir": "src", "cwd": "src"}, None), ("Bash", {"cwd": "../x"}, None),
        ("unknown", {"workdir": "/etc"}, "."),
    ],
)  # fmt: skip
def test_a_folder_among_the_arguments_is_where_the_command_runs(tool: str, arguments: Any, folder: str | None) -> None:
    assert SHOP is not None
    assert move_project(tool, arguments, SHOP) == (SHOP.move(folder) if folder else None)
    assert move_project(tool, arguments, None) is None


def test_every_form_says_what_it_does():
    """A form that is never read-only must say what it does, or may do, or runs."""
    for name, program in load_programs().forms.items():
        for form in program.all_forms():
            runs = form.wraps or form.rest or form.sub or form.patterns
            assert form.anything or form.read_only is not None or form.does or form.may or runs, f"{form.name} ({name})"
            assert all(low <= high for low, high in (form.counts, form.then or (0, 0), form.line or (0, 0)))


def test_hundreds_of_programs_are_known():
    assert len(load_programs().forms) > 700


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("python3.11", ("python3.11", "python3", "python")),
        ("/usr/bin/python2", ("python2", "python")),
        ("gcc-12", ("gcc-12", "gcc")),
        ("lua5.4", ("lua5.4", "lua5", "lua")),
        ("rm", ("rm",)),
        ("RM.EXE", ("rm",)),
        ("sha256sum", ("sha256sum",)),
        ("mytool2", ("mytool2",)),
    ],
)
def test_a_version_of_a_program_is_that_program(word, names):
    assert list_names(word) == names
    assert find_program("/lib64/ld-linux-x86-64.so.2") is find_program("ld-linux-x86-64.so.2") is not None


ALONE = [
    (*SHELL, {"command": "ls"}, True),
    (*SHELL, {"command": "ls", "description": "x", "timeout": 1, "run_in_background": True}, True),
    (*SHELL, {"command": "ls", "env": {}}, False),
    (*SHELL, {"command": "ls", "cwd": ""}, False),
    (*SHELL, {"command": "ls", "workdir": "x"}, False),
    (*SHELL, {"command": "ls", "shell": "x"}, False),
    (*SHELL, {"command": "ls", "dangerouslyDisableSandbox": True}, False),
    (*SHELL, {"command": "ls", "dangerouslyDisableSandbox": False}, True),
    (*SHELL, {"command": "ls", "Description": "x"}, False),
    (*SHELL, {"command": "ls", "description ": "x"}, False),
    (*SHELL, {"command": "ls", "": 1}, False),
    ("Bash", "/cmd", {"cmd": "ls"}, False),
    ("bash ", "/command", {"command": "ls", "timeout": 1}, True),
    ("shell", "/command", {"command": ["ls"], "timeout_ms": 1}, True),
    ("exec_command", "/cmd", {"cmd": "ls", "yield_time_ms": 1}, True),
    ("exec_command", "/cmd", {"cmd": "ls", "workdir": "/"}, False),
    ("local_shell", "/action/command", {"action": {"type": "exec", "command": ["ls"], "env": {}}}, True),
    ("local_shell", "/action/command", {"action": {"type": "exec", "command": ["ls"], "env": {"A": "1"}}}, False),
    ("terminal", "/commands", {"commands": ["ls"]}, True),
    ("run_terminal_cmd", "/command", {"command": "ls", "is_background": False}, True),
    ("PowerShell", "/command", {"command": "ls"}, False),
    ("python", "/command", {"command": "ls"}, False),
    ("my_tool", "/command", {"command": "ls", "description": "x"}, True),
    ("my_tool", "/command", {"command": "ls", "mode": "x"}, False),
    ("my_tool", "/a/b", {"a": {"b": "ls"}}, True),
    ("my_tool", "/a/b", {"a": {"b": "ls", "c": 1}}, False),
    ("my_tool", "/a/b", {"a": {"b": "ls"}, "c": 1}, False),
    ("mcp__evil__bash", "/command", {"command": "ls", "run_in_background": True}, False),
]


@loop_over(("tool", "path", "payload", "alone"), ALONE)
def test_only_known_arguments_may_stand_next_to_a_command(tool, path, payload, alone):
    assert (explain_other_arguments(tool, payload, tuple(path.split("/")[1:])) == "") is alone
    for op, value in (("cmd", "ls"), ("effect", "none")):
        match = {"tool": tool, "args": [{"path": path, "op": op, "value": value}]}
        policy = parse({"default": "ask", "rules": [{"id": "r", "effect": "allow", "match": match}]})
        assert (decide(policy, PolicyRequest.for_tool(tool, input=payload)).effect is Effect.ALLOW) is alone


def test_a_rule_may_name_another_argument_itself():
    args = [{"path": "/command", "op": "cmd", "value": "ls"}, {"path": "/cwd", "op": "eq", "value": "/srv"}]
    policy = parse(
        {"default": "ask", "rules": [{"id": "r", "effect": "allow", "match": {"tool": "Bash", "args": args}}]}
    )
    for cwd, effect in (("/srv", Effect.ALLOW), ("/tmp", Effect.ASK)):
        assert decide(policy, PolicyRequest.for_tool("Bash", input={"command": "ls", "cwd": cwd})).effect is effect
    assert (
        decide(policy, PolicyRequest.for_tool("Bash", input={"command": "ls", "cwd": "/srv", "env": {}})).effect
        is Effect.ASK
    )


def test_the_decision_says_why():
    policy = parse(
        {
            "default": "ask",
            "rules": [
                {
                    "id": "r",
                    "effect": "allow",
                    "match": {"args": [{"path": "/command", "op": "cmd", "value": ["awk", "mytool", "ls"]}]},
                }
            ],
        }
    )
    for value, why in (
        ({"command": "awk -f prog"}, "awk can run other programs"),
        ({"command": "mytool x"}, "the catalog does not know this program"),
        ({"command": "ls", "cwd": "/"}, "the argument cwd may change what runs"),
        ({"command": "ls $X"}, "it contains $"),
    ):
        decision = decide(policy, PolicyRequest.for_tool("Bash", input=value))
        assert decision.effect is Effect.ASK and why in decision.reason


MARKED_CATALOGS = [
    {"command": "secret-word x"},
    {"command": "/opt/secret-word/ls"},
    {"command": "ls secret-word; awk -f secret-word"},
    {"command": "timeout 5 secret-word"},
    {"command": "awk 'BEGIN{system(\"secret-word\")}'"},
    {"command": "ls $secret-word"},
    {"command": "secret-word=1 ls"},
    {"command": "ls", "secret-word": 1},
    {"command": ["ls", "secret-word"]},
    {"command": "git secret-word"},
    {"command": "npm run secret-word > secret-word"},
    {"command": "python -m secret-word"},
]


@loop_over("payload", MARKED_CATALOGS)
@loop_over("effect", ["allow", "ask", "deny"])
def test_reasons_hold_nothing_that_the_agent_wrote(payload, effect):
    """They are stored in the clear, and stand on pages as our words."""
    for op, value in (("cmd", ["ls", "awk", "git", "npm", "python"]), ("effect", "none")):
        match = {"args": [{"path": "/command", "op": op, "value": value}]}
        for rule in ({"match": match}, {"unless": [match]} if effect != "allow" else {"match": match}):
            policy = parse({"default": "ask", "rules": [{"id": "r", "effect": effect} | rule]})
            assert "secret-word" not in decide(policy, PolicyRequest.for_tool("Bash", input=payload)).reason


def test_the_starter_policy_says_what_about_the_command_it_asks_for():
    policy = parse(PRESETS["ask-on-writes"].document)
    for line, why in (("awk -f prog", "awk can run other programs"), ("rm x", "rm can delete or change things")):
        assert decide(policy, PolicyRequest.for_tool("Bash", input={"command": line})).reason.endswith(f": {why}.")


def test_a_sure_allow_outweighs_another_in_doubt():
    def rule(name, value):
        return {"id": name, "effect": "allow", "match": {"args": [{"path": "/command", "op": "cmd", "value": value}]}}

    policy = parse({"default": "ask", "rules": [rule("a", "git"), rule("b", "git push origin")]})
    assert decide(policy, PolicyRequest.for_tool("Bash", input={"command": "git push origin"})).rules == ("b",)


def test_a_tool_has_one_row():
    assert load_tools()["*"].paths == () and all(name == name.lower() for name in load_tools())
