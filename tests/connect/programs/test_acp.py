"""Connecting editors: one more agent in their settings, behind the proxy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.connecting import ROOT
from tests.support.server import Server
from toolcards import connect

ACP = connect.get_recipe("acp")
ZED = [
    "",
    "{\n}\n",
    '// Zed settings\n//\n{\n  "ui_font_size": 16, // large\n  "theme": {"mode": "system"},\n}\n',
    '{\n  "agent_servers": {\n    "Mine": {"command": "mine"} // agent_servers {\n  }\n}\n',
    '{\n  "a": {"agent_servers": {}},\n  /* "agent_servers": { */\n  "agent_servers": {\n  }\n}',
]


def zed(target: connect.Target) -> Path:
    path = target.home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("before", ZED)
def test_an_editor_gets_one_more_agent_and_keeps_its_comments(target: connect.Target, before: str) -> None:
    if before:
        zed(target).write_text(before)
    connect.write_changes(ACP.plan(target))
    text = zed(target).read_text()
    agents = loose(text)["agent_servers"]
    agent = agents["opencode through Toolcards"]
    assert agent["type"] == "custom" and agent["args"][-4:] == ["acp", "--", "opencode", "acp"]
    assert agent["env"] == {"TOOLCARDS_URL": target.url, "TOOLCARDS_AGENT_KEY": target.key}
    assert ("Mine" in agents) == ("Mine" in before)
    assert ACP.read_key(target) == target.key and not any(change.is_needed for change in ACP.plan(target))
    connect.write_changes(ACP.plan(replace(target, agent=("gemini", "--experimental-acp"))))
    assert "gemini through Toolcards" in zed(target).read_text() and "opencode" not in zed(target).read_text()
    connect.write_changes(ACP.undo(target))
    assert (zed(target).read_text() if zed(target).exists() else "") == (before if before != "{\n}\n" else "")


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1', '{"agent_servers": []}', '{"agent_servers": {}}', "{\n#\n}"])
def test_editor_settings_that_are_not_understood_are_not_touched(target: connect.Target, text: str) -> None:
    zed(target).write_text(text)
    with pytest.raises(connect.Unreadable):
        ACP.plan(target)
    assert zed(target).read_text() == text


def test_the_agent_in_the_editors_settings_starts_anywhere_and_is_gated(
    server: Server, target: connect.Target, tmp_path: Path
) -> None:
    from tests.support import gating

    name, ran = "editor", tmp_path / "ran"
    agent = (sys.executable, str(ROOT / "tests/support/acp_agent.py"), name)
    connect.write_changes(ACP.plan(replace(target, url=server.base, key=server.key, agent=agent)))
    (entry,) = loose(zed(target).read_text())["agent_servers"].values()
    editor = subprocess.Popen(
        [entry["command"], *entry["args"]], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"} | entry["env"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert editor.stdin is not None and editor.stdout is not None
    try:
        prompt = json.dumps({"command": "echo hi", "call": "call_1", "file": str(ran)})
        for number, (method, params) in enumerate(
            [
                ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
                ("session/new", {"cwd": ".", "mcpServers": []}),
                ("session/prompt", {"sessionId": f"ses_{name}", "prompt": [{"type": "text", "text": prompt}]}),
            ]
        ):
            fields = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            editor.stdin.write(json.dumps(fields) + "\n")
            editor.stdin.flush()
            if method == "session/prompt":
                gating.vote(server, f"ses_{name}", "approve")
            for line in editor.stdout:
                if line.startswith("{") and json.loads(line).get("id") == number and '"result"' in line:
                    break
        assert ran.read_text().splitlines() == ["echo hi"]
    finally:
        editor.kill()
        editor.communicate()


def loose(text: str) -> Any:
    """JSON with comments and commas at ends, as editors read it."""
    text = re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda value: value[1] or "", text, flags=re.DOTALL)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
