"""Rules with `inside_project`: what is undecided never lets a call through."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.changes.inside_condition import InsideCondition
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import PolicyError, parse

ROOT = "/home/ann/shop"


def find_effect(document: dict[str, Any], tool: str, value: Any, root: str = ROOT, **fields: Any) -> Effect:
    return decide(parse(document), PolicyRequest.for_tool(tool, input=value, root=root, **fields)).effect


INSIDE = {"path": "", "op": "inside_project"}
ROWS = [
    ("allow", "ask", "a.py", "allow"), ("allow", "ask", "/etc/a", "ask"), ("allow", "ask", "a/../b", "ask"),
    ("allow", "ask", ".git/config", "ask"), ("ask", "allow", "a.py", "ask"), ("ask", "allow", "a/../b", "ask"),
    ("ask", "allow", "/etc/a", "allow"), ("deny", "allow", "a.py", "deny"), ("deny", "allow", ".git/config", "allow"),
]  # fmt: skip


@loop_over(("effect", "default", "file", "answer"), ROWS)
@pytest.mark.parametrize("path", ["", "/file_path"])
def test_a_path_counts_as_inside_where_a_rule_needs_it(
    path: str, effect: str, default: str, file: str, answer: str
) -> None:
    rule = {"effect": effect, "match": {"args": [{"path": path, "op": "inside_project"}]}}
    assert find_effect({"default": default, "rules": [rule]}, "Edit", {"file_path": file}) == answer


EDITS = {
    "default": "allow",
    "rules": [
        {"effect": "ask", "match": {"kind": ["edit"]}, "unless": [{"args": [{"path": "", "op": "inside_project"}]}]}
    ],
}


@loop_over(
    ("root", "file", "answer"),
    [
        (ROOT, "a", "allow"), (ROOT, "/etc/a", "ask"), (ROOT, "a/../b", "ask"), ("", "a", "ask"), ("/", "a", "ask"),
        ("/home/ann", "/home/ann/shop/a", "ask"), ("~", "a", "ask"), (f"{ROOT}/..", "a", "ask"),
    ],
)  # fmt: skip
def test_everything_but_edits_inside_can_be_asked_about(root: str, file: str, answer: str) -> None:
    assert find_effect(EDITS, "Edit", {"file_path": file}, root) == answer


def test_without_a_project_a_rule_that_allows_holds_for_nothing_and_others_for_all() -> None:
    for effect, default, answer in (("allow", "ask", "ask"), ("deny", "allow", "deny")):
        rule = {"effect": effect, "match": {"args": [{"path": "", "op": "inside_project"}]}}
        document = {"default": default, "rules": [rule]}
        assert find_effect(document, "Edit", {"file_path": "a"}, root="") == answer
        assert find_effect(document, "Edit", None, has_input=False) == answer


def test_all_or_any_of_the_values_count() -> None:
    for quant, answer in (("any", "deny"), ("all", "allow")):
        argument = {"path": "/paths/*", "op": "inside_project", "quant": quant}
        document = {"default": "allow", "rules": [{"effect": "deny", "match": {"args": [argument]}}]}
        assert find_effect(document, "save_file", {"paths": ["a", "/etc/a"]}) == answer
        assert find_effect(document, "save_file", {"paths": []}) == "allow"
        assert find_effect(document, "save_file", {"paths": [5]}) == "deny"


def test_a_condition_has_a_name_for_people() -> None:
    assert InsideCondition((), every=True).name.strip() == "inside_project"
    assert InsideCondition(("file_path",), every=True).name == "/file_path inside_project"


# ---------------------------------------------------------------- commands
COMMANDS = {
    "default": "ask",
    "rules": [
        {
            "effect": "allow",
            "match": {"args": [{"path": "", "op": "effect", "value": ["none", "writes", "deletes"]}, INSIDE]},
        }
    ],
}
LINES = [
    ("Bash", {"command": "touch a"}, "allow"), ("Bash", {"command": "touch /etc/a"}, "ask"), ("Bash",
    {"command": "ls"}, "allow"),
    ("Bash", {"command": "ls /etc && touch a"}, "allow"), ("Bash", {"command": "touch a && touch ../b"}, "ask"),
    ("Bash", {"command": "touch a; curl x"}, "ask"), ("Bash", {"command": "cat .env"}, "allow"),
    ("shell", {"command": ["touch", "a"], "workdir": "src"}, "allow"), ("shell", {"command": ["touch", "/etc/a"]},
    "ask"),
    ("shell", {"command": ["touch", "a"], "workdir": ROOT}, "allow"), ("shell", {"command": ["touch", "a"],
    "workdir": "/etc"}, "ask"),
    ("shell", {"command": ["touch", "hooks/a"], "workdir": ".git"}, "ask"), ("shell", {"command": ["ls"],
    "workdir": ".."}, "ask"),
    ("exec_command", {"cmd": "touch a", "workdir": f"{ROOT}/src", "yield_time_ms": 1000}, "allow"),
    ("exec_command", {"cmd": "touch ../a", "workdir": f"{ROOT}/src"}, "allow"),
    ("exec_command", {"cmd": "touch ../../a", "workdir": f"{ROOT}/src"}, "ask"),
    ("exec_command", {"cmd": "touch a", "workdir": 5}, "ask"), ("exec_command", {"cmd": "touch a", "env": {"A": "b"}},
    "ask"),
    ("local_shell", {"action": {"command": ["touch", "a"], "working_directory": "/etc"}}, "ask"),
    ("local_shell", {"action": {"command": ["touch", "a"], "working_directory": "src"}}, "allow"),
    ("run_shell_command", {"command": "touch a", "directory": ""}, "allow"), ("powershell", {"command": "touch a"},
    "ask"),
    ("exec_command", {"action": "close", "session_id": 1}, "ask"),
]  # fmt: skip


@loop_over(("tool", "value", "answer"), LINES)
def test_a_command_is_judged_where_its_tool_takes_it(tool: str, value: Any, answer: str) -> None:
    assert find_effect(COMMANDS, tool, value) == answer
    assert find_effect(COMMANDS, tool, value, root="/") == "ask"


def test_a_command_without_a_project_is_not_inside() -> None:
    assert find_effect(COMMANDS, "Bash", {"command": "touch a"}, root="") == "ask"


def test_rules_can_cover_a_line_together() -> None:
    arguments = [
        [{"path": "/command", "op": "effect", "value": "none"}],
        [{"path": "/command", "op": "effect", "value": "writes"}, INSIDE],
    ]
    document = {
        "default": "ask",
        "rules": [{"effect": "allow", "match": {"tool": ["Bash"], "args": each}} for each in arguments],
    }
    for command, answer in (
        ("ls /etc && touch a", "allow"),
        ("ls && touch /etc/a", "ask"),
        ("touch a; touch ../b", "ask"),
    ):
        assert find_effect(document, "Bash", {"command": command}) == answer


def test_alone_it_allows_only_plain_changes_of_files() -> None:
    document = {"default": "ask", "rules": [{"effect": "allow", "match": {"args": [INSIDE]}}]}
    for command, answer in (
        ("touch a", "allow"),
        ("python a.py", "ask"),
        ("make", "ask"),
        ("rm ../a", "ask"),
        ("ls", "allow"),
    ):
        assert find_effect(document, "Bash", {"command": command}) == answer


def test_a_look_in_a_folder_of_the_project_needs_no_question() -> None:
    looks = {
        "default": "ask",
        "rules": [{"effect": "allow", "match": {"args": [{"path": "", "op": "effect", "value": "none"}]}}],
    }
    for folder, answer in ((f"{ROOT}/src", "allow"), (ROOT, "allow"), ("/etc", "ask"), ("..", "ask"), (None, "ask")):
        assert find_effect(looks, "exec_command", {"cmd": "git status", "workdir": folder}) == answer
        assert find_effect(looks, "exec_command", {"cmd": "git status", "workdir": f"{ROOT}/src"}, root="") == "ask"


PROJECT = "/home/dev/work/shop"
PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch\n"
MANIFEST_ROWS = [
    ("Edit", {"file_path": f"{PROJECT}/pom.xml"}, True), ("Edit", {"file_path": f"{PROJECT}/web/pom.xml"}, True),
    ("apply_patch", {"input": PATCH.format("core/pom.xml")}, True), ("Edit", {"file_path": f"{PROJECT}/a.py"}, True),
    ("apply_patch", {"input": PATCH.format("a.py")}, True),
    # near misses
    ("Edit", {"file_path": f"{PROJECT}/Makefile"}, False),
    ("Edit", {"file_path": f"{PROJECT}/.github/pom.xml"}, False),
    ("Edit", {"file_path": f"{PROJECT}/.git/pom.xml"}, False), ("Edit", {"file_path": "/home/dev/pom.xml"}, False),
    ("Edit", {"file_path": f"{PROJECT}/pom.xml/../../x/pom.xml"}, False),
    ("Edit", {"file_path": f"{PROJECT}/pom.xml/../.env"}, False),
    ("Edit", {"file_path": f"{PROJECT}/package.json"}, False),
    ("apply_patch", {"input": PATCH.format("pom.xml") + PATCH.format(".github/workflows/a.yml")}, False),
    ("apply_patch", {"input": PATCH.format("../pom.xml")}, False), ("Bash", {"command": "rm pom.xml"}, False),
    ("Bash", {"command": "sed -i s/a/b/ pom.xml"}, False),
    ("mcp__fs__edit_file", {"path": f"{PROJECT}/pom.xml"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "args", "allowed"), MANIFEST_ROWS)
def test_a_rule_may_name_manifests_that_edit_tools_change(tool: str, args: dict[str, Any], allowed: bool) -> None:
    condition = {"path": "", "op": "inside_project", "value": ["pom.xml"]}
    clause = {"kind": ["edit"], "args": [condition]}
    request = PolicyRequest.for_tool(tool, input=args, root=PROJECT)
    for rule, default in (
        ({"effect": "allow", "match": clause}, "ask"), ({"effect": "ask", "match": {}, "unless": [clause]}, "allow"),
    ):  # fmt: skip
        policy = parse({"default": default, "rules": [rule]})
        assert (decide(policy, request).effect is Effect.ALLOW) is allowed


@pytest.mark.parametrize("value", [".env", ["pom.xml", ".mcp.json"], "settings.json", 1, [None], "*.xml", "a/pom.xml"])
def test_only_manifests_can_be_named(value: Any) -> None:
    condition = {"path": "", "op": "inside_project", "value": value}
    with pytest.raises(PolicyError, match="expects nothing, or names of"):
        parse({"rules": [{"effect": "allow", "match": {"args": [condition]}}]})
