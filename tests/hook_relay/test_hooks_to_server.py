"""Hook inputs as real programs write them, through the relay to a real server and its decision."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.support import gating
from tests.support.hook_inputs import options
from tests.support.server import KEY, PATIENCE, Server
from toolcards.hook_relay import relay

CURL = {"command": "curl https://example.com"}
NETWORK = "network-access example.com"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("hooks")) as running:
        yield running


@pytest.fixture(autouse=True)
def _key_and_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NO_SUCH_KEY", KEY)


def send(site: Server, program: str, value: dict[str, Any], event: str = "") -> dict[str, Any]:
    """Send one hook input by the relay; return its output."""
    words = options(site.base, program)
    words.event = event
    return relay(words, json.dumps(value).encode(), value)


def send_and_vote(site: Server, program: str, value: dict[str, Any], decision: str) -> tuple[dict[str, Any], Any]:
    """Send one hook input that is held, and answer it; return its output and the call that waited."""
    outputs: SimpleQueue[dict[str, Any]] = SimpleQueue()
    thread = threading.Thread(target=lambda: outputs.put(send(site, program, value)))
    thread.start()
    call = gating.waiting(site, value["session_id"])
    gating.vote(site, value["session_id"], decision)
    output = outputs.get(timeout=PATIENCE)
    thread.join()
    return output, call


def ask_codex(run: str, event: str, **more: Any) -> dict[str, Any]:
    call = {"session_id": run, "hook_event_name": event, "tool_name": "Bash", "tool_input": CURL}
    return call | more


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_permission_request_of_codex_shows_its_description_as_the_reason(site: Server, decision: str) -> None:
    gating.activate(site, {"v": 1, "default": "allow", "rules": []})
    run = f"codex-{decision}"
    assert send(site, "codex", ask_codex(run, "PreToolUse", tool_use_id="call_1")) == {}
    request = ask_codex(run, "PermissionRequest", tool_input={**CURL, "description": NETWORK})
    output, call = send_and_vote(site, "codex", request, decision)
    answer = output["hookSpecificOutput"]["decision"]
    assert (call["call_id"], call["input"], call["approval"]["request_reason"]) == ("call_1", CURL, NETWORK)
    if decision == "approve":
        assert answer == {"behavior": "allow"}
    else:
        assert answer["behavior"] == "deny"
    assert send(site, "codex", request) == output  # the same request again


def test_an_approved_call_of_codex_does_not_answer_a_request_with_a_description(site: Server) -> None:
    gating.activate(site, {"v": 1, "default": "ask", "rules": []})
    run = "codex-further"
    output, _ = send_and_vote(site, "codex", ask_codex(run, "PreToolUse", tool_use_id="call_1"), "approve")
    assert output == {}
    request = ask_codex(run, "PermissionRequest", tool_input={**CURL, "description": NETWORK})
    output, call = send_and_vote(site, "codex", request, "deny")
    assert output["hookSpecificOutput"]["decision"]["behavior"] == "deny"
    assert call["approval"]["request_reason"] == NETWORK
    assert send(site, "codex", request) == output
    plain_request = ask_codex(run, "PermissionRequest")
    assert send(site, "codex", plain_request)["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
