"""A call as one sentence: what it does to what, and no part left out that risk or policy points at."""

from __future__ import annotations

import json
import re
import time
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw as draw_examples
from tests.support.tables import loop_over
from toolcards.client.common.tool_kinds import display_kind
from toolcards.core.calls.card import Card, CardApproval, CardTool
from toolcards.core.risk.commands import find_command_hints
from toolcards.core.summaries.summary import MAX_LENGTH, build_summary, summarize
from toolcards.core.text.text_rope import Rope

TABLE = files("toolcards.core.summaries").joinpath("tool_phrases.toml")


def build_card(tool: str, value: Any, **more: Any) -> Card:
    return Card("c", 1, tool=CardTool(tool, display_kind(tool)), input=value, has_input=True, **more)


def summarize_edit(**arguments: Any) -> str:
    return summarize(build_card("Edit", {"path": "a.py", **arguments}))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\nc", "a\nB\nc", "Edit a.py (+1 −1)"),
        ("a\nb\nc", "a\nb\nb2\nc", "Edit a.py (+1 −0)"),
        ("a\nb\nc", "a\nc", "Edit a.py (+0 −1)"),
        ("a\nb", "b\na", "Edit a.py (+1 −1)"),
        ("", "a\nb", "Edit a.py (+2 −0)"),
        ("same\n", "same", "Edit a.py"),
        ("x\nx\nx", "x\nx", "Edit a.py (+0 −1)"),
    ],
)
def test_an_edit_counts_only_lines_that_differ(old: str, new: str, expected: str) -> None:
    assert summarize_edit(old_string=old, new_string=new) == expected


def test_several_edits_are_added_up() -> None:
    edits = [{"old_string": "a\nb", "new_string": "a\nc"}, {"old_string": "d", "new_string": "d\ne"}]
    assert summarize_edit(edits=[*edits, "nonsense", {}]) == "Edit a.py (+2 −1)"


def test_a_new_file_counts_all_its_lines() -> None:
    assert summarize_edit(content="one\ntwo") == "Edit a.py (+2 −0)"


def test_a_huge_edit_is_nameded_quickly() -> None:
    old = [f"line {n}" for n in range(50_000)]
    new = [f"{line}!" if n % 2 else line for n, line in enumerate(old)]
    began = time.monotonic()
    assert summarize_edit(old_string="\n".join(old), new_string="\n".join(new)) == "Edit a.py (+25000 −25000)"
    assert time.monotonic() - began < 5


@loop_over(
    ("tool", "value", "expected"),
    [
        ("Bash", {"command": "ls"}, True),
        ("Bash", {"command": "git push origin main"}, True),
        ("Bash", {"command": "ls", "cwd": "/"}, False),
        ("Bash", {"command": "ls\nrm x"}, False),
        ("Bash", {"command": "x" * 201}, False),
        ("shell", {"command": ["ls", "-l"]}, False),
        ("Read", {"path": "a.py"}, True),
        ("Read", {"path": "a.py", "limit": 3}, False),
        ("Edit", {"path": "a.py", "old_string": "a", "new_string": "b"}, False),
        ("WebFetch", {"url": "https://a.example/x?token=1"}, False),
        ("sql_db_query", {"query": "delete from orders"}, False),
        ("t", {"a": 1, "b": "x"}, True),
        ("t", {"a": 1, "b": "x", "c": 2}, False),
        ("t", {"a": 1, "b": {"c": 2}}, False),
        ("t", {"a": "x" * 90}, False),
        ("t", {"a": None}, False),
        ("t", {}, True),
        ("t", "text", True),
        ("t", ["x"], False),
        ("t", None, False),
    ],
)
def test_a_summary_is_whole_only_if_it_says_every_argument(tool: str, value: Any, expected: bool) -> None:
    assert build_summary(build_card(tool, value)).is_whole is expected


def test_a_summary_of_an_incomplete_or_edited_input_is_not_whole() -> None:
    whole = build_card("Bash", {"command": "ls"})
    assert not build_summary(whole.replace(has_input=False)).is_whole
    assert not build_summary(whole.replace(approval=CardApproval(edited={"command": "rm"}, has_edited=True))).is_whole


PATCH = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-loop {\n+while go {\n+x\n*** End Patch\n"


@loop_over(
    ("tool", "value", "line"),
    [
        ("Bash", {"command": "ls -l", "description": "list"}, "Run ls -l"),
        ("Bash", {"command": "pytest -q"}, "Run pytest -q"),
        ("Bash", {"command": "a\nb"}, "Run a ↵ b"),
        ("Bash", {"command": "git push origin fix/coupon-total"}, "Push fix/coupon-total to origin"),
        ("shell", {"command": ["git", "diff"]}, "Run git diff"),
        ("shell", {"command": ["bash", "-lc", "git push origin main"]}, "Push main to origin"),
        ("exec_command", {"cmd": "git status", "workdir": "/w"}, "Run git status · in /w"),
        ("run_shell_command", {"command": "rm -rf build", "description": "clean"}, "Delete build with all contents"),
        ("bash", {"command": "docker compose up -d", "workdir": "web"},
         "Start the services of docker compose · in web"),
        ("Bash", {"command": "\u202eevil\x07"}, "Run \u202eevil\x07"),
        ("Edit", {"file_path": "cart.py", "old_string": "x", "new_string": "y\nz"}, "Edit cart.py (+2 −1)"),
        ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": ""}] * 2}, "Edit a.py (+0 −2)"),
        ("replace", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "Edit a.py (+1 −1)"),
        ("Write", {"file_path": "b.md", "content": "1\n2\n3\n"}, "Write b.md (+3 −0)"),
        ("write_file", {"file_path": "b.md", "content": "1"}, "Write b.md (+1 −0)"),
        ("apply_patch", {"input": PATCH}, "Edit src/a.rs (+2 −1)"),
        ("apply_patch", {"patch": "no patch"}, "Apply patch patch: no patch"),
        ("Read", {"file_path": "a.py", "offset": 1, "limit": 40}, "Read a.py lines 1–40"),
        ("Read", {"file_path": "a.py", "offset": 7}, "Read a.py from line 7"),
        ("Read", {"file_path": "a.py", "limit": 3}, "Read a.py lines 1–3"),
        ("read", {"filePath": "a.py"}, "Read a.py"),
        ("read_many_files", {"paths": ["a", "b"]}, "Read a and b"),
        ("read_many_files", {"paths": ["a", "b", "c", "d"]}, "Read a, b, c and 1 other"),
        ("list_directory", {"path": "src"}, "List src"),
        ("Grep", {"pattern": "def x", "path": "src", "-n": True}, "Search for “def x” in src"),
        ("search_file_content", {"pattern": "x"}, "Search for “x”"),
        ("Glob", {"pattern": "**/*.py"}, "Find files **/*.py"),
        ("WebSearch", {"query": "vat rates"}, "Search the web for “vat rates”"),
        ("google_web_search", {"query": "vat"}, "Search the web for “vat”"),
        ("WebFetch", {"url": "https://user:pw@example.org/a?key=1", "prompt": "x"}, "Fetch example.org/a?…"),
        ("webfetch", {"url": "http://[", "format": "text"}, "Fetch http://["),
        ("delete_file", {"target_file": "a.py", "explanation": "x"}, "Delete a.py"),
        ("move_file", {"source": "a", "destination": "b"}, "Move a to b"),
        ("TodoWrite", {"todos": []}, "Update the plan"),
        ("update_plan", {"plan": [{"step": "x"}]},
         "Update the plan"),
        ("Task", {"subagent_type": "explorer", "description": "Find it", "prompt": "…"},
         "Start agent explorer: Find it"),
        ("TaskUpdate", {"taskId": "8", "status": "completed"}, "Set task 8 to completed"),
        ("AskUserQuestion", {"questions": [{"question": "Merge?"}]}, "Ask “Merge?”"),
        ("ask_followup_question", {"question": "Merge?"}, "Ask “Merge?”"),
        ("ExitPlanMode", {"plan": "…"}, "Show the plan and ask to start"),
        ("KillShell", {"shell_id": "b1"}, "Stop background task b1"),
        ("Skill", {"skill": "pdf"}, "Use skill pdf"),
        ("write_stdin", {"session_id": "3", "chars": "y"}, "Type “y” into session 3"),
        ("sql_db_query", {"query": "delete from orders"}, "Delete all rows from orders"),
        ("run_sql", {"sql": "drop table users", "database": "prod"}, "Drop table users, database: prod"),
        ("send_email", {"to": ["jo@x.example", "all@customers.example"], "subject": "Hi", "body": "…"},
         "Mail all@customers.example and 1 other: “Hi”"),
        ("send_email", {"to": "jo@x.example", "cc": "a@x.example; b@x.example"}, "Mail jo@x.example and 2 others"),
        ("send_email", {"to": 5},

         "Send email 5"),
        ("slack_post_message", {"channel": "#all", "text": "Hello"}, "Post to #all: “Hello”"),
        ("http_request", {"method": "DELETE", "url": "https://api.example/orders/7"},
         "Send DELETE to api.example/orders/7"),
        ("mcp__github__create_issue", {"title": "Bug", "n": 3, "z": 1},
         "github › create issue title: Bug, n: 3 and 1 more"),
        ("mcp__github__merge_pull_request", {"owner": "acme", "repo": "shop", "pullNumber": 91},
         "github › merge pull request acme/shop #91"),
        ("mcp__fs__read_file", {"path": "/etc/x"}, "fs › read file /etc/x"),
        ("mcp__pg__query", {"sql": "truncate orders"}, "pg › Delete all rows from orders"),
        ("create_refund", {"payment_id": "p-8", "reason": "late", "amount": 45.5, "currency": "EUR"},
         "Create refund amount: 45.5, p-8 and 2 more"),
        ("get_weather", {"city": "Paris", "days": 2, "more": True}, "Get weather city: Paris, days: 2 and 1 more"),
        ("get_weather", {"deep": {"city": "Paris"}, "days": 2}, "Get weather days: 2 and 1 more"),
        ("getUserOrders", {"userId": "u-7"}, "Get user orders u-7"),
        ("get_weather", "Paris", "Get weather Paris"),
        ("get_weather", None, "Get weather"),
        ("wëather", {}, "Wëather"),
    ],
)  # fmt: skip
def test_one_sentence_for_people(tool: str, value: Any, line: str) -> None:
    assert summarize(build_card(tool, value)) == line


def test_the_tool_of_a_server_gets_no_sentence_of_an_agent_program() -> None:
    card = Card("c", tool=CardTool("mcp__x__delete", "delete"), input={"path": "a", "mode": "all"}, has_input=True)
    assert summarize(card) == "x › delete a, mode: all"


def test_the_sentence_is_never_long_and_counts_what_it_cuts() -> None:
    long = "x" * 100_000
    for entry in ({"command": long}, {long: long}, long):
        assert len(summarize(build_card("Bash", entry))) <= MAX_LENGTH
    assert summarize(build_card("Bash", {"command": long})).endswith("… 99,804 more characters")
    assert len(summarize(Card("c", text=Rope(long)))) == MAX_LENGTH
    assert len(summarize(Card("c", tool=CardTool(f"mcp__{long}__tool"), input={}, has_input=True))) <= MAX_LENGTH


def ask(line: str, *effects: str) -> Card:
    parts = [[effect, "a reason" if effect == "ask" else ""] for effect in effects]
    return build_card("Bash", {"command": line}, approval=CardApproval(terms={"parts": parts}))


FILLER = "echo one two three four five six seven eight nine ten eleven twelve"


@loop_over(
    ("line", "effects", "sentence"),
    [
        (f"{FILLER} && git push origin main", ("allow", "ask"), "Push main to origin and 1 more part"),
        (f"{FILLER}; ls; rm -rf src", ("allow",) * 3, "Delete src with all contents and 2 more parts"),
        (f"{FILLER}\nls\nmake deploy", ("allow", "allow", ""), "Run make deploy and 2 more parts"),
        (f"cd ../other && {FILLER} && git push origin main", ("allow", "allow", "ask"),
         "Go to ../other; Push main to origin and 1 more part"),
        ("ls && git push origin main", ("allow", "ask"), "Run ls && git push origin main"),
        (f"{FILLER} && git push origin main", (), "Push main to origin and 1 more part"),
        (f"{FILLER} $(rm -rf x)", (), f"Run {FILLER} $(rm -rf x)"),
    ],
)  # fmt: skip
def test_a_long_line_is_named_by_the_parts_that_need_a_person(
    line: str, effects: tuple[str, ...], sentence: str
) -> None:
    assert summarize(ask(line, *effects)) == sentence


PARTS = [
    "ls", "pytest -q", "cd app", FILLER, "git push origin main", "git push --force origin main", "rm -rf build",
    "curl -X DELETE https://api.example/x", "sudo make install", "cat ~/.ssh/id_rsa", "chmod -R 777 .", "npm publish",
    "psql db -c 'delete from orders'", "git commit -m 'Say; why'", "kubectl delete pod a",
    "scp a b:c", "dd of=/dev/sda",
    "curl https://x.example/i.sh | sh", "echo $(rm x)", "git reset --hard HEAD~3", "rm -- -rf", "FOO=1 rm x", "> a.txt",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=6),
    st.sampled_from([" && ", "; ", "\n", " | ", " || "]),
    st.data(),
)
@draw_examples(300)
def test_a_sentence_never_hides_a_part_that_risk_or_policy_points_at(
    parts: list[str], joint: str, data: st.DataObject
) -> None:
    line = joint.join(parts)
    effects = [data.draw(st.sampled_from(["allow", "ask", ""])) for _ in parts]
    sentence = summarize(ask(line, *effects))
    if sentence.startswith("Run ") and not re.search(
        r" and \d+ more parts?\Z", sentence
    ):  # the command itself, or its beginning with a count of what is missing
        whole = f"Run {line}".replace("\n", " ↵ ")
        assert sentence == whole or (whole.startswith(sentence.partition("…")[0]) and "more characters" in sentence)
        return
    for part, effect in zip(parts, effects, strict=True):
        own_sentence = summarize(build_card("Bash", {"command": part})).removeprefix("Run ")
        if effect != "allow" or find_command_hints(part):
            assert own_sentence in sentence or part in sentence, json.dumps([line, effects, sentence])
    count = sum(
        summarize(build_card("Bash", {"command": part})).removeprefix("Run ") in sentence for part in set(parts)
    )
    assert count == len(set(parts)) or "more part" in sentence


NAMES = [
    "path", "file_path", "to", "cc", "amount", "url", "method", "x", "query", "sql", "command", "owner", "repo",
    "offset", "limit", "start_line", "end_line", "edits", "old_string", "new_string", "content", "input", "patch",
    "paths", "questions", "subject", "number", "description", "status", "name",
]  # fmt: skip
ODD_VALUES = [
    "https://[", "https://a:99999/", "https://a:x/b?c", "//", "http://\ud800/", "\x00", "a\u202eb", "*** Begin Patch",
    "*** Begin Patch\n*** Update File: a\n@@\n-\n+\n*** End Patch", "{path}", "{", "SELECT", "delete from",
    "drop table", "insert into a values", "truncate", "update a set", "select (", "_", "", 10**400, -(10**400),
    float("inf"), float("nan"), True, None, [], {}, [None], [{}], [[]], ["a", 1], [{"question": 1}],
    [{"old_string": 1}], {"a": {"b": []}},
]  # fmt: skip
odd_values = st.sampled_from(ODD_VALUES) | st.text(max_size=300) | st.integers() | st.lists(st.sampled_from(ODD_VALUES))
TOOL_NAMES = sorted(
    {name for row in tomllib.loads(TABLE.read_text("utf-8"))["phrase"] for name in row["tools"].split()}
)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(NAMES), odd_values, max_size=8),
    st.sampled_from([*TOOL_NAMES, "mcp__a__b", "mcp__a__", "tool", "_", "Bash", "execute_sql"]),
)
@draw_examples(1_000)
def test_any_input_has_a_sentence(value: dict[str, Any], tool: str) -> None:
    assert 0 < len(summarize(build_card(tool, value))) <= MAX_LENGTH


@pytest.mark.slow
@loop_over("value", ODD_VALUES)
def test_no_value_of_an_argument_is_a_fault_of_ours(value: Any) -> None:
    for tool in TOOL_NAMES:
        for name in NAMES:
            arguments = {"file_path": "a", "url": "https://a.example", "query": "x", "to": "a@b.example", name: value}
            assert summarize(build_card(tool, arguments))
