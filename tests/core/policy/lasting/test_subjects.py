"""The subjects of lasting answers: as narrow as the call goes outside, and never text that means more than itself."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.core.policy.lasting.subjects import list_subjects
from toolcards.core.policy.request import PolicyRequest

PUSHES = [("like", "`git push -u origin fix/…`"), ("command", "`git push -u origin fix/x`")]
PUSHED_WORDS = (
    "pushes of named branches to origin, pull requests and their comments and `git push` of any branch checked out "
    "in this project"
)
ALL_PUSHES = ("pushes", PUSHED_WORDS)
SHARES = ("work", "pushes of named branches to origin, pull requests and their comments in this project")
LOCAL = ("local", "edits, tests, builds, scripts, local git and file commands in this project")
SUBJECTS: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("Bash", {"command": "git push -u origin fix/x"}, PUSHES),
    ("exec_command", {"cmd": "git push -u origin fix/x"}, PUSHES),
    ("Bash", {"command": "ls && git push && git push"}, [("command", "`git push`")]),
    ("Bash", {"command": "git push $REMOTE"}, []),
    ("Bash", {"command": "git push 'a\x07b'"}, []),
    ("Bash", {"command": "ls"}, []),
    ("Bash", {}, []),
    ("python", {"code": "print(1)"}, []),
    ("send_reply", {"ticket": 7, "body": "x"}, [("tool", "`send_reply`")]),
    (
        "add_comment",
        {"owner": "acme", "repo": "shop", "body": "x"},
        [("place", "`add_comment` with owner `acme`, repo `shop`")],
    ),
    ("add_comment", {"repo": "a*", "body": "x"}, []),
    ("add_message", {"channel_id": "C1", "text": "x"}, [("place", "`add_message` with channel_id `C1`")]),
    ("send_mail", {"to": ["a@example.com"]}, [("place", '`send_mail` with to `["a@example.com"]`')]),
    (
        "export_rows",
        {"format": "csv", "destination": "https://files.example.com/up"},
        [("place", "`export_rows` with destination `https://files.example.com/up`")],
    ),
    ("export_rows", {"format": "csv", "sink": "s3://b/x"}, [("place", "`export_rows` with sink `s3://b/x`")]),
    ("share", {"with_people": ["a@example.com"]}, [("place", '`share` with with_people `["a@example.com"]`')]),
    ("note", {"text": "see https://docs.example.com/a"}, [("tool", "`note`")]),
    ("query", {"sql": "select 1"}, [("queries", "queries of `query` that only read")]),
    ("query", {"sql": "with x as (delete from t returning a) select a from x"}, []),
    ("db_query", {"query": "update accounts set balance = 0"}, []),
    ("run_it", {"code": "print(1)"}, []),
    ("tool*", {"body": "x"}, []),
    ("Edit", {"file_path": "a.py"}, []),
    ("WebFetch", {"url": "https://docs.example.com/a"}, [("host", "`WebFetch` from `docs.example.com`")]),
    ("WebFetch", {"url": "https://user@docs.example.com/a"}, []),
    ("WebFetch", {"url": "not a url"}, []),
    ("send_reply", None, []),
    ("send_reply", ["x"], []),
]


@pytest.mark.parametrize(("tool", "args", "subjects"), SUBJECTS)
def test_a_call_has_these_subjects(tool: str, args: Any, subjects: list[tuple[str, str]]) -> None:
    listed = list_subjects(PolicyRequest.for_tool(tool, input=args))
    assert [(subject.name, subject.words) for subject in listed] == subjects


def test_a_tool_of_a_server_is_named_with_its_server() -> None:
    request = PolicyRequest.for_tool("reply", source="tickets", input={"id": 1})
    assert [(each.words, each.match) for each in list_subjects(request)] == [
        ("`tickets:reply`", {"tool": ["reply"], "source": ["tickets"]})
    ]


def test_the_reading_tools_of_one_server_or_agent_are_one_subject() -> None:
    tools = [("get_ticket", "", True), ("get_ticket", "tickets", True), ("mcp__tickets__get_ticket", "", True),
             ("update_ticket", "", False), ("get_and_delete", "", False), ("getaway", "", False),
             ("get_secret", "", False)]  # fmt: skip
    for tool, source, has_reads in tools:
        listed = list_subjects(PolicyRequest.for_tool(tool, source=source, input={"id": 1}))
        assert any(each.name == "reads" for each in listed) is has_reads, tool
    subject = list_subjects(PolicyRequest.for_tool("mcp__tickets__get_ticket", input={"id": 1}))[0]
    assert subject.match["tool"][0] == "mcp__tickets__get_*" and subject.match["kind"] == ["other"]
    assert subject.match["args"] == [{"path": "", "op": "tool_only", "value": "reads"}]
    rows = list_subjects(PolicyRequest.for_tool("get_rows", input={"sql": "select 1"}))
    assert [each.name for each in rows] == ["queries"]


ROOT = "/home/dev/work/shop"
IN_A_PROJECT: list[tuple[str, Any, list[tuple[str, str]]]] = [
    (
        "Bash",
        {"command": "git push"},
        [
            ("work", "`git push` of any branch checked out in this project"),
            ALL_PUSHES,
            ("command", "`git push`"),
        ],
    ),
    ("Bash", {"command": "git push -u origin fix/x"}, [SHARES, ALL_PUSHES, *PUSHES]),
    ("Bash", {"command": "git push origin main"}, [("command", "`git push origin main`")]),
    ("Bash", {"command": "pytest -q tests | tail -3"}, [LOCAL, ("work", "tests and builds in this project")]),
    (
        "Bash",
        {"command": f"cd {ROOT} && git add -A && git commit -m a"},
        [LOCAL, ("work", "local git in this project")],
    ),
    (
        "Bash",
        {"command": "git push origin fix/x && git add -A"},
        [
            ("work", f"local git and {SHARES[1]}"),
            ("pushes", f"local git and {PUSHED_WORDS}"),
            ("like", "`git push origin fix/…`"),
            ("command", "`git push origin fix/x` and `git add`"),
        ],
    ),
    ("Edit", {"file_path": f"{ROOT}/a.py"}, [("edits", "edits of files in this project")]),
    (
        "Edit",
        {"file_path": f"{ROOT}/web/pom.xml"},
        [
            ("edits", "edits of files in this project"),
            ("file", "edits of files in this project, `pom.xml` included"),
        ],
    ),
    (
        "apply_patch",
        {"input": "*** Begin Patch\n*** Update File: pom.xml\n@@\n-a\n+b\n*** End Patch\n"},
        [
            ("edits", "edits of files in this project"),
            ("file", "edits of files in this project, `pom.xml` included"),
        ],
    ),
    ("Read", {"file_path": "a.py"}, []),
]


@pytest.mark.parametrize(("tool", "args", "subjects"), IN_A_PROJECT)
def test_a_call_in_a_project_has_these_subjects(tool: str, args: Any, subjects: list[tuple[str, str]]) -> None:
    listed = list_subjects(PolicyRequest.for_tool(tool, input=args, root=f"{ROOT}/"))
    assert [(subject.name, subject.words) for subject in listed][: len(subjects) or None] == subjects
    assert all(subject.match["project"] == [ROOT] for subject in listed)
