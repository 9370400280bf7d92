"""Parts that all translations share: calls without ids find their results, across processes and sessions."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.hook_relay.translation import (
    LONGEST_SESSION,
    close_call,
    find_first_text,
    forget_session,
    keep_open,
    make_id,
    open_call,
    translate_call,
    translate_result,
    translate_run_event,
)

ARGS = {"command": "ls", "n": [1, None]}


def list_open(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


# ---------------------------------------------------------------- inputs in Claude Code's form
def test_a_call_gets_a_new_id_and_keeps_what_the_program_adds() -> None:
    first, second = (translate_call({"cwd": "/x"}, "s", "bash", ARGS, agent_id="a") for _ in range(2))
    assert first.pop("tool_use_id") != second.pop("tool_use_id")
    assert first == second == {
        "hook_event_name": "PreToolUse", "cwd": "/x", "session_id": "s", "tool_name": "bash", "tool_input": ARGS,
        "agent_id": "a",
    }  # fmt: skip
    assert translate_call({}, "s", "bash", {})["cwd"] is None


@loop_over("arguments", [None, "ls", ["ls"], 5, True])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    with pytest.raises(ValueError, match="not an object"):
        translate_call({}, "s", "bash", arguments)


def test_an_id_is_new_and_can_be_the_end_of_the_name_of_a_file() -> None:
    ids = {make_id() for _ in range(100)}
    assert len(ids) == 100 and all(re.fullmatch(r"call_[0-9a-f]{16}", each) for each in ids)


def test_a_result_has_the_id_of_its_call(cache: Path) -> None:
    open_call("s", "bash", ARGS, "call_1")
    assert translate_result("s", "bash", ARGS, output="text", agent_id="a") == {
        "hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "bash", "tool_input": ARGS, "agent_id": "a",
        "tool_use_id": "call_1", "tool_response": "text",
    }  # fmt: skip
    assert not list_open(cache)


def test_a_failure_has_the_id_of_its_call(cache: Path) -> None:
    open_call("s", "bash", ARGS, "call_1")
    assert translate_result("s", "bash", ARGS, error="") == {
        "hook_event_name": "PostToolUseFailure", "session_id": "s", "tool_name": "bash", "tool_input": ARGS,
        "tool_use_id": "call_1", "error": "",
    }  # fmt: skip
    assert not list_open(cache)


@pytest.mark.usefixtures("cache")
def test_a_success_without_a_call_is_reported_and_a_failure_without_one_was_a_denial() -> None:
    result = translate_result("s", "bash", ARGS, output=None)
    assert result is not None and result["tool_use_id"].startswith("call_") and result["tool_response"] is None
    assert translate_result("s", "bash", ARGS, error="denied") is None


def test_the_end_of_a_session_forgets_its_calls_and_no_others(cache: Path) -> None:
    for session in ("s", "t"):
        open_call(session, "bash", ARGS, f"call_{session}")
    event = translate_run_event("SessionEnd", {"cwd": "/x"}, "s", reason="exit")
    assert event == {"hook_event_name": "SessionEnd", "session_id": "s", "cwd": "/x", "reason": "exit"}
    assert [path.name.rpartition(".")[2] for path in list_open(cache)] == ["call_t"]
    translate_run_event("UserPromptSubmit", {}, "t", prompt="x")
    assert list_open(cache)
    forget_session("never seen")


# ---------------------------------------------------------------- decisions
HOOK = {"session_id": "s", "tool_name": "bash", "tool_input": ARGS, "tool_use_id": "call_1"}
DECISIONS: list[tuple[dict[str, Any], tuple[str, str, Any], Any]] = [  # an output, what it says, what stays open
    ({"permissionDecision": "allow", "permissionDecisionReason": "ok"}, ("allow", "ok", None), ARGS),
    ({"permissionDecision": "allow", "updatedInput": {"command": "pwd"}}, ("allow", "", {"command": "pwd"}),
     {"command": "pwd"}),
    ({"permissionDecision": "allow", "updatedInput": {}}, ("allow", "", {}), {}),
    ({"permissionDecision": "deny", "permissionDecisionReason": "no"}, ("deny", "no", None), None),
    ({}, ("", "", None), ARGS),
]  # fmt: skip


@loop_over(("specific", "answer", "arguments"), DECISIONS)
def test_a_call_stays_open_with_what_may_run_unless_it_is_denied(
    cache: Path, specific: dict[str, Any], answer: tuple[str, str, Any], arguments: Any
) -> None:
    assert keep_open({"hookSpecificOutput": specific}, HOOK) == answer
    assert len(list_open(cache)) == (arguments is not None)
    if arguments is not None:
        assert close_call("s", "bash", arguments) == "call_1"


def test_an_output_without_a_decision_keeps_the_call_open(cache: Path) -> None:
    assert keep_open({}, HOOK) == ("", "", None) and len(list_open(cache)) == 1


# ---------------------------------------------------------------- open calls
@pytest.mark.usefixtures("cache")
def test_the_newest_of_equal_calls_is_closed_first_and_each_once() -> None:
    for number in range(12):
        open_call("s", "bash", ARGS, f"call_{number}")
    assert [close_call("s", "bash", ARGS) for _ in range(13)] == [*(f"call_{n}" for n in range(11, -1, -1)), None]


@pytest.mark.usefixtures("cache")
def test_a_result_closes_only_a_call_of_its_session_tool_and_arguments() -> None:
    open_call("s", "bash", ARGS, "call_1")
    others = [
        ("t", "bash", ARGS),
        ("s", "Bash", ARGS),
        ("s", "bash", ARGS | {"n": [1]}),
        ("s", "bash", {}),
        ("", "bash", ARGS),
    ]
    assert [close_call(*other) for other in others] == [None] * 5
    assert close_call("s", "bash", dict(reversed(ARGS.items()))) == "call_1"  # the order of members does not matter


@pytest.mark.usefixtures("cache")
@loop_over("session", ["", "../../etc", "a/b", "x" * 5_000, "é\n*?[", "\0"])
def test_any_name_of_a_session_is_a_folder(session: str) -> None:
    open_call(session, "b/../*", {"a": "\ud800"}, "call_1")
    assert close_call(session, "b/../*", {"a": "\ud800"}) == "call_1"


def test_files_of_calls_are_empty_and_private(cache: Path) -> None:
    open_call("secret-session", "secret-tool", {"a": "secret-value"}, "call_1")
    (path,) = list_open(cache)
    assert path.stat().st_size == 0 and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700 and "secret" not in str(path.relative_to(cache))


def test_without_a_cache_of_its_own_it_uses_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    open_call("s", "bash", ARGS, "call_1")
    assert len(list_open(tmp_path / ".cache" / "toolcards" / "hooks")) == 1


def age(folder: Path, seconds: float) -> None:
    os.utime(folder, (time.time() - seconds,) * 2)


def test_the_first_call_of_a_session_removes_sessions_of_a_week_ago(cache: Path) -> None:
    open_call("old", "bash", ARGS, "call_1")
    open_call("young", "bash", ARGS, "call_2")
    old, young = sorted(cache.iterdir(), key=lambda folder: next(folder.iterdir()).name.endswith("call_2"))
    age(old, LONGEST_SESSION + 60)
    age(young, LONGEST_SESSION - 60)
    open_call("young", "bash", ARGS, "call_3")
    age(young, LONGEST_SESSION - 60)
    assert old.exists()  # the session is not new
    open_call("new", "bash", ARGS, "call_4")
    assert not old.exists() and young.exists() and close_call("young", "bash", ARGS) == "call_3"


def test_two_hooks_that_remove_the_same_folders_disturb_no_call(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        open_call(f"old-{number}", "bash", ARGS, "call_0")
    folders = list(cache.iterdir())
    for folder in folders:
        age(folder, LONGEST_SESSION + 60)
    real = Path.iterdir

    def list_late(root: Path) -> Any:
        listed = list(real(root))
        for folder in folders:  # the other hook is faster
            shutil.rmtree(folder, ignore_errors=True)
        return iter(listed)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", list_late)
        open_call("new", "bash", ARGS, "call_1")
    assert close_call("new", "bash", ARGS) == "call_1"


@pytest.mark.usefixtures("cache")
def test_two_results_at_once_close_two_calls() -> None:
    for number in range(40):
        open_call("s", "bash", ARGS, f"call_{number}")
    with ThreadPoolExecutor(4) as pool:
        call_ids = list(pool.map(lambda _: close_call("s", "bash", ARGS), range(40)))
    assert sorted(map(str, call_ids)) == sorted(f"call_{number}" for number in range(40))


@pytest.mark.parametrize(
    ("values", "text"), [(["/a", "/b"], "/a"), ([], None), (None, None), ("/a", None), ([5, "/a"], None), ({}, None)]
)
def test_the_first_folder_of_several_counts(values: Any, text: str | None) -> None:
    assert find_first_text(values) == text
