"""Probes without a server: only a denial of the program that is connected counts as one."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import PATIENCE
from toolcards.connect import offline_probe

Install = Callable[[str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Give `install(script)`: the command `toolcards` is this shell script, and there is no other program."""

    def write(script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "toolcards").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "toolcards").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return folder

    return write


def test_the_address_refuses_every_connection() -> None:
    with offline_probe.reserve_dead_address() as url:
        host, _, port = url.removeprefix("http://").partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=PATIENCE)


@pytest.mark.parametrize(
    ("answer", "denial"),
    [
        ({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "away"}}, "away"),
        ({"hookSpecificOutput": {"permissionDecision": "allow", "permissionDecisionReason": "away"}}, ""),
        ({"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "away"}}, ""),
        ({"decision": "block", "reason": "away"}, "away"),
        ({"permission": "deny", "agent_message": "away"}, "away"),
        ({"cancel": True, "errorMessage": "away"}, "away"),
        ({"cancel": "true", "errorMessage": "away"}, ""),
        ({"decision": "deny"}, ""),
        ({}, ""),
        ([], ""),
        (None, ""),
        ({"hookSpecificOutput": "deny"}, ""),
    ],
)
def test_a_hook_denies_in_the_words_of_its_program_or_not_at_all(install: Install, answer: Any, denial: str) -> None:
    install(f"echo '{json.dumps(answer)}'")
    assert offline_probe.run_hook(["x"]) == denial


@pytest.mark.parametrize("script", ["exit 2", "echo no JSON", "echo '{'"])
def test_a_hook_that_prints_no_json_has_not_denied(install: Install, script: str) -> None:
    install(script)
    assert offline_probe.run_hook(["x"]) == ""


def test_a_hook_is_asked_about_its_event_at_an_address_without_a_server(install: Install, tmp_path: Path) -> None:
    install(f'echo "$*" > {tmp_path}/words; /bin/cat > {tmp_path}/input')
    offline_probe.run_hook(["cursor", "extra"], "beforeShellExecution")
    assert (tmp_path / "words").read_text().startswith("hook cursor extra --url http://127.0.0.1:")
    event = json.loads((tmp_path / "input").read_text())
    names = [event[name] for name in ("hook_event_name", "hookName", "event")]
    assert names == ["beforeShellExecution"] * 3 and event["tool_name"] == "probe"


@pytest.mark.parametrize(
    ("answer", "denial"),
    [
        ({"result": {"isError": True, "content": [{"text": "away"}]}}, "away"),
        ({"result": {"isError": False, "content": [{"text": "it ran"}]}}, ""),
        ({"result": {"content": []}}, ""),
        ({"result": {"isError": True, "content": []}}, ""),
        ({"result": []}, ""),
        ({"error": {"code": 1}}, ""),
        ([], ""),
    ],
)
def test_the_gateway_denies_by_a_result_that_is_an_error(install: Install, answer: Any, denial: str) -> None:
    install(f"read line; echo '{json.dumps(answer)}'")
    assert offline_probe.run_mcp() == denial


def test_a_gateway_that_ends_at_once_holds_up_nothing(install: Install) -> None:
    install("exit 1")
    threads = set(threading.enumerate())
    assert offline_probe.run_mcp() == ""
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)  # a timer that is canceled ends now
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("program", "denial"),
    [
        ("print('a note'); print('denied: away')", "away"),
        ("print('denied: away'); print('ran')", ""),
        ("print('denied: away'); raise SystemExit(1)", ""),
        ("print('denied:away')", ""),
        ("import os; print('denied:', os.environ['TOOLCARDS_URL'][:17])", "http://127.0.0.1:"),
    ],
)
def test_code_denies_by_its_last_line_if_it_ends_well(tmp_path: Path, program: str, denial: str) -> None:
    assert offline_probe._run_program([sys.executable, "-S", "-c", program], tmp_path) == denial


@pytest.mark.parametrize(("is_allowed", "denial"), [(True, ""), (False, "away")])
def test_the_client_of_the_folder_is_the_one_that_is_run(tmp_path: Path, is_allowed: bool, denial: str) -> None:
    client = tmp_path / "toolcards" / "client"
    client.mkdir(parents=True)
    (client / "__init__.py").write_text(
        "class Toolcards:\n    def __init__(self, timeout): ...\n    def ask(self, *args, **rest): return self\n"
        f"    allowed, text = {is_allowed}, 'away'\n"
    )
    (tmp_path / "toolcards" / "__init__.py").touch()
    assert offline_probe.run_python(tmp_path) == denial


def test_without_node_or_its_folder_nothing_is_said(install: Install, tmp_path: Path) -> None:
    install("exit 0")
    assert shutil.which("node") is None and offline_probe.run_node(tmp_path, "console.log('denied: x')") == ""
    assert offline_probe.run_python(tmp_path / "missing") == ""
