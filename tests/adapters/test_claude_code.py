"""Claude Code's hooks beyond what was recorded: interruptions, sub-agents, what is refused and what is skipped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.trace_player import Player
from toolcards.adapters import ADAPTERS, ApprovalAnswer, BadFrame
from toolcards.adapters.claude_code import find_folder
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame

CLAUDE = ADAPTERS["claude-code"]
BASH = {"tool_name": "Bash", "tool_input": {"command": "ls"}}


def hook(event: str, **value: Any) -> str:
    return json.dumps({"session_id": "s-1", "hook_event_name": event, **value})


def played(*frames: str) -> Player:
    return Player("claude-code").frames(*frames)


def the_card(player: Player) -> Any:
    (card,) = player.board.cards.values()
    return card


def test_a_call_that_still_runs_at_the_next_prompt_was_interrupted() -> None:
    player = played(hook("PreToolUse", **BASH, tool_use_id="t"), hook("UserPromptSubmit", prompt="stop, do this"))
    assert (the_card(player).state, the_card(player).cause) == ("output-error", "aborted")
    player.frames(hook("PostToolUse", **BASH, tool_use_id="t", tool_response="late"))
    assert the_card(player).state == "output-available"


def test_a_sub_agents_call_outlives_the_prompt_of_its_parent() -> None:
    inner = {"agent_id": "a-1", "agent_type": "explore"}
    player = played(
        hook("SubagentStart", **inner), hook("PreToolUse", **BASH, **inner, tool_use_id="t"),
        hook("UserPromptSubmit", prompt="and now?"),
    )  # fmt: skip
    assert the_card(player).state == "input-available"
    assert the_card(player).agent_path == ("main", "explore")


def test_the_programs_note_to_itself_interrupts_nothing() -> None:
    player = played(
        hook("PreToolUse", **BASH, tool_use_id="t"), hook("UserPromptSubmit", prompt="<task-notification>x")
    )
    assert the_card(player).state == "input-available"


def test_the_answers_in_the_result_of_a_question_make_it_no_other_call() -> None:
    question = {"questions": [{"question": "Which?"}]}
    answers = question | {"answers": {"Which?": "this"}}
    call = {"tool_name": "AskUserQuestion", "tool_use_id": "t"}
    result = hook("PostToolUse", **call, tool_input=answers, tool_response=answers)
    card = the_card(played(hook("PreToolUse", **call, tool_input=question), result))
    assert (card.state, card.input, card.output, card.anomalies) == ("output-available", question, answers, ())
    card = the_card(played(result))  # its PreToolUse was lost
    assert (card.state, card.tool.name, card.output) == ("output-available", "AskUserQuestion", answers)


def test_an_interrupted_tool_is_no_failed_one() -> None:
    failed = hook("PostToolUseFailure", **BASH, tool_use_id="t", error="Request interrupted", is_interrupt=True)
    card = the_card(played(hook("PreToolUse", **BASH, tool_use_id="t"), failed))
    assert (card.state, card.cause, card.soft) == ("output-error", "aborted", True)


def test_an_empty_error_is_still_an_error() -> None:
    card = the_card(played(hook("PostToolUseFailure", **BASH, tool_use_id="t", error="")))
    assert (card.state, card.tool.name, card.input) == ("output-error", "Bash", {"command": "ls"})


def test_the_hosts_own_denial_says_so() -> None:
    denied = hook("PermissionDenied", **BASH, tool_use_id="t", reason="the classifier said no")
    card = the_card(played(hook("PreToolUse", **BASH, tool_use_id="t"), denied))
    assert (card.state, card.denied, card.denied_by) == (
        "output-denied", "the classifier said no", f.Actor("host", "Claude Code"),
    )  # fmt: skip


def test_a_question_that_the_local_user_denied_is_denied_by_the_host() -> None:
    batch = hook("PostToolBatch", tool_calls=[{**BASH, "tool_use_id": "t", "tool_response": "The user said no"}])
    card = the_card(played(hook("PreToolUse", **BASH, tool_use_id="t"), hook("PermissionRequest", **BASH), batch))
    assert (card.state, card.approval.state, card.approval.by.kind) == ("output-denied", "denied", "host")


def test_a_batch_never_turns_a_result_into_something_else() -> None:
    batch = hook("PostToolBatch", tool_calls=[{**BASH, "tool_use_id": "t", "tool_response": "ok"}])
    completed = hook("PostToolUse", **BASH, tool_use_id="t", tool_response={"stdout": "ok"})
    card = the_card(played(hook("PreToolUse", **BASH, tool_use_id="t"), completed, batch))
    assert (card.state, card.output, card.anomalies) == ("output-available", {"stdout": "ok"}, ())


def test_a_session_that_ends_while_it_asks_leaves_no_question() -> None:
    player = played(
        hook("PreToolUse", **BASH, tool_use_id="t"),
        hook("PermissionRequest", **BASH),
        hook("SessionEnd", reason="other"),
    )
    assert (the_card(player).cause, the_card(player).waiting, player.board.status) == ("aborted", False, "aborted")


def test_a_tool_of_a_server_names_it() -> None:
    result = hook("PreToolUse", tool_name="mcp__github__create_issue", tool_input={}, tool_use_id="t")
    card = the_card(played(result))
    assert (card.tool.name, card.tool.source, card.tool.kind) == ("mcp__github__create_issue", "github", "edit")


def test_the_session_is_the_run() -> None:
    assert CLAUDE.find_run_id(hook("Stop")) == "s-1"
    assert CLAUDE.find_run_id("{") == ""


def test_unknown_events_are_skipped_and_notes_have_no_facts() -> None:
    assert CLAUDE.decode(hook("FromTheFuture")) == SkippedFrame("FromTheFuture")
    assert CLAUDE.decode(hook("Notification", message="x")) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "not_json"), ("[]", "not_object"), ("{}", "missing_field"),
        (hook("PreToolUse", tool_name="Bash"), "missing_field"), (hook("PreToolUse", tool_use_id="t"), "missing_field"),
        ('{"hook_event_name":"Stop","a":1,"a":2}', "duplicate_key"),
    ],
)  # fmt: skip
def test_a_broken_hook_is_refused_with_its_code(text: str, code: str) -> None:
    with pytest.raises(BadFrame) as caught:
        CLAUDE.decode(text)
    assert caught.value.code == code


def test_an_answer_is_what_a_permission_request_wants() -> None:
    def decision(**answer: Any) -> Any:
        return CLAUDE.encode(ApprovalAnswer("t", "", **answer))["hookSpecificOutput"]["decision"]

    assert decision(approved=True, input={"a": 0}) == {"behavior": "allow", "updatedInput": {"a": 0}}
    assert decision(approved=True, input={"a": 0}, edited_input={"a": 1}) == {
        "behavior": "allow",
        "updatedInput": {"a": 1},
    }
    assert decision(approved=False, reason="not today") == {"behavior": "deny", "message": "not today"}


@pytest.mark.parametrize(("cwd", "folder"), [("/a/b", "/a/b"), ("shop", ""), (5, ""), ("/a\x00", "")])
def test_a_hook_names_the_folder_of_its_call(cwd: Any, folder: str) -> None:
    hook = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": "t", "cwd": cwd}
    (ready,) = ADAPTERS["claude-code"].decode(json.dumps(hook))
    assert ready.folder == folder == find_folder(hook)
