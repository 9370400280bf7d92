"""opencode's bus beyond what was recorded: errors, its own rules, prompts after an end, both names of a question."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.trace_player import Player
from toolcards.adapters import ADAPTERS, ApprovalAnswer, BadFrame
from toolcards.core.calls import facts as f

OPENCODE = ADAPTERS["opencode"]


def event(kind: str, **value: Any) -> str:
    return json.dumps({"id": "evt", "type": kind, "properties": {"sessionID": "ses_1", **value}})


def part(status: str, tool: str = "bash", **state: Any) -> str:
    fields = {"type": "tool", "tool": tool, "callID": "c", "sessionID": "ses_1", "state": {"status": status, **state}}
    return event("message.part.updated", part=fields)


STARTED = event("session.created", info={"id": "ses_1", "title": "a title"})
RUNNING = part("running", input={"command": "ls"})


def played(*frames: str) -> Player:
    return Player("opencode").frames(*frames)


def the_card(player: Player) -> Any:
    (card,) = player.board.cards.values()
    return card


@pytest.mark.parametrize(
    "text", ["The user has specified a rule which prevents you from using this", "The user rejected permission"]
)
def test_a_denial_by_opencode_itself_is_attributed_to_the_host(text: str) -> None:
    card = the_card(played(STARTED, RUNNING, part("error", input={"command": "ls"}, error=text)))
    assert (card.state, card.denied_by) == ("output-denied", f.Actor("host", "opencode"))


def test_a_denial_by_our_plugin_is_shown_without_our_prefix() -> None:
    card = the_card(played(STARTED, RUNNING, part("error", error="Stopped by Toolcards: Pushing needs a person.")))
    assert (card.state, card.denied) == ("output-denied", "Pushing needs a person.")


@pytest.mark.parametrize("name", ["permission.asked", "permission.v2.asked"])
def test_both_names_of_a_permission_ask(name: str) -> None:
    where = {"tool": {"callID": "c"}} if name == "permission.asked" else {"source": {"callID": "c"}}
    player = played(STARTED, RUNNING, event(name, id="per_1", permission="bash", patterns=["ls"], **where))
    assert the_card(player).waiting
    assert the_card(player).approval.request_reason == "opencode asks: bash ls"
    player.frames(event(name.replace("asked", "replied"), requestID="per_1", reply="once"))
    assert (the_card(player).state, the_card(player).approval.by.kind) == ("approval-responded", "host")


def test_a_run_that_was_aborted_stays_so_when_it_rests() -> None:
    aborted = event("session.error", error={"name": "MessageAbortedError", "data": {}})
    player = played(STARTED, RUNNING, aborted, event("session.idle"), event("session.idle"))
    assert (the_card(player).cause, player.board.status) == ("aborted", "aborted")


def test_a_run_continues_with_the_next_prompt() -> None:
    player = played(STARTED, event("session.idle"))
    assert player.board.status == "finished"
    player.frames(RUNNING)
    assert player.board.status == "running"
    player.frames(part("completed", input={"command": "ls"}, output="x"), event("session.idle"))
    assert player.board.status == "finished"


def test_a_providers_error_ends_the_run_with_its_words() -> None:
    player = played(STARTED, RUNNING, event("session.error", error={"name": "APIError", "data": {"message": "quota"}}))
    assert (the_card(player).error.message, player.board.status) == ("quota", "error")


def test_shell_output_streams() -> None:
    player = played(STARTED, RUNNING, part("running", input={"command": "ls"}, metadata={"output": "a\n"}))
    assert (the_card(player).preliminary, the_card(player).output) == (True, "a\n")


def test_a_rested_sub_session_ends_no_run() -> None:
    inner = json.dumps({"type": "session.created", "properties": {"info": {"id": "ses_2", "parentID": "ses_1"}}})
    player = played(STARTED, inner, RUNNING, json.dumps({"type": "session.idle", "properties": {"sessionID": "ses_2"}}))
    assert (the_card(player).state, player.board.status) == ("input-available", "running")


def test_a_session_is_a_run() -> None:
    assert OPENCODE.find_run_id(RUNNING) == "ses_1"
    assert OPENCODE.find_run_id("[]") == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [("{", "not_json"), ("[]", "not_object"), ("{}", "missing_field"), ('{"type":"session.idle"}', "missing_field"),
     (part("dreaming"), "bad_field"), (part("pending", tool=""), "missing_field")],
)  # fmt: skip
def test_a_broken_event_is_refused_with_its_code(text: str, code: str) -> None:
    with pytest.raises(BadFrame) as caught:
        OPENCODE.decode(text)
    assert caught.value.code == code


def test_an_answer_is_what_the_reply_endpoint_wants() -> None:
    assert OPENCODE.encode(ApprovalAnswer("c", "per_1", approved=True)) == {"reply": "once"}
    assert OPENCODE.encode(ApprovalAnswer("c", "per_1", approved=False, reason="no")) == {
        "reply": "reject",
        "message": "no",
    }
    assert OPENCODE.encode(ApprovalAnswer("c", "per_1", approved=False))["message"]


@pytest.mark.parametrize(("directory", "root"), [("/home/ann/shop", "/home/ann/shop"), ("shop", ""), (5, "")])
def test_a_session_begins_in_its_folder(directory: Any, root: str) -> None:
    frame = event("session.created", info={"id": "ses_1", "directory": directory})
    assert ADAPTERS["opencode"].decode(frame) == [f.RunStarted(scope="ses_1", root=root)]
