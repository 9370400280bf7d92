"""An agent key in what an agent sends is marked, and is rotated in one click."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.server import PATIENCE, Server, until
from tests.support.voter import Voter
from toolcards.client import Toolcards


def report_on_a_socket(server: Server) -> None:
    with Toolcards(server.base, server.key).run("run", agent="scribe") as run:
        call = run.call("bash", "c1")
        call.available({"command": "env"})
        call.output({"stdout": f"PATH=/bin\nTOOLCARDS_AGENT_KEY={server.key}\n"})


def report_by_http(server: Server) -> None:
    cards = Toolcards(server.base, server.key, timeout=PATIENCE)
    assert cards.ask("run", "c1", "read_file", {"path": "notes.txt"}).allowed
    assert cards.result("run", "c1", output=f"KEY={server.key}")


def ask_by_http(server: Server) -> None:
    Toolcards(server.base, server.key, timeout=PATIENCE).decide(
        "run", "c1", "bash", {"command": f"curl -H {server.key}"}
    )


def report_by_a_hook(server: Server) -> None:
    hook = {
        "session_id": "run", "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "c1",
        "tool_input": {"command": "env"}, "tool_response": {"stdout": f"KEY={server.key}"},
    }  # fmt: skip
    assert server.request("POST", "/api/v1/hooks/claude-code", json.dumps(hook))[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("report", [report_on_a_socket, report_by_http, ask_by_http, report_by_a_hook])
def test_a_key_that_an_agent_sends_is_marked_and_rotated_in_one_click(
    tmp_path: Path, report: Callable[[Server], None]
) -> None:
    with Server(tmp_path) as server:
        voter = Voter(server)
        (pk,) = re.findall(r'href="/sources/(\d+)/"', voter.get("/sources/"))[:1]
        assert "data-key-exposed" not in voter.get(f"/sources/{pk}/")
        report(server)
        page = until(lambda: "data-key-exposed" in (page := voter.get(f"/sources/{pk}/")) and page)
        assert "/runs/run/" in page and server.key not in page and "key exposed" in voter.get("/sources/")
        (rotate,) = re.findall(r'action="(/sources/keys/\d+/rotate/)"', page)
        status, html = voter.post(rotate, page=f"/sources/{pk}/")
        (secret,) = re.findall(r"data-secret>(tck_[\w-]+)<", html)
        assert status == 200 and secret != server.key
        old, new = Toolcards(server.base, server.key), Toolcards(server.base, secret, timeout=PATIENCE)
        until(lambda: old.decide("after", secrets.token_hex(4), "read_file", {"path": "a"}).effect == "deny")
        assert new.decide("after", "c2", "read_file", {"path": "a"}).effect == "allow"
        assert "data-key-exposed" not in voter.get(f"/sources/{pk}/")
        trail = voter.get("/settings/audit/")
        assert all(act in trail for act in ("key.exposed", "key.created", "key.revoked"))
        assert voter.post(rotate, page=f"/sources/{pk}/")[0] == 404  # once


def test_a_text_that_only_looks_like_a_key_marks_nothing(server: Server) -> None:
    with Toolcards(server.base, server.key).run("looks", agent="scribe") as run:
        call = run.call("bash", "c1")
        call.available({"command": "env"})
        call.output(f"tck_{'x' * 43} {server.key[:-1]}")
    assert "data-key-exposed" not in Voter(server).get("/sources/1/")
