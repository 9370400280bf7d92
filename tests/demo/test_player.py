"""The demo, played fast into a real server: every run ends as promised, and the gated one as the viewer decides."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.server import KEY, PATIENCE, ROOT, Server, until
from tests.support.voter import Voter
from toolcards.demo.player import AGENTS, RUNS, Player, PlayRefused

RECORDINGS = [recording for recordings in AGENTS for recording in recordings]
GATED = next(recording for recording in RECORDINGS if recording.is_gated)


def playing(server: Server, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "manage.py"), "demo", "--url", server.base, "--once", *more]
    surroundings = os.environ | {"TOOLCARDS_AGENT_KEY": KEY, "TOOLCARDS_DATA_DIR": str(server.data)}
    return subprocess.Popen(
        command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_heeds_ctrl_c
    )


def _heeds_ctrl_c() -> None:
    """Restore the default handler, which a parent in the background can disable for its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_of(text: str, name: str) -> str:
    match = re.search(rf"begins ({re.escape(name)}(?: · |-)[0-9a-f]+)", text)
    assert match, text
    return match[1]


def start_reading(demo: subprocess.Popen[str]) -> tuple[list[str], threading.Thread]:
    """What the demo has printed so far, line by line, and the thread that reads until its end."""
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(demo.stdout or []), daemon=True)
    reading.start()
    return lines, reading


def gated_run(lines: list[str]) -> str:
    """The name of the gated run, as soon as it begins."""
    return str(until(lambda: re.search(rf"begins ({GATED.run}-[0-9a-f]+)", "".join(lines)))[1])


@pytest.fixture(scope="module")
def played(server: Server) -> tuple[str, dict[str, dict[str, Any]], dict[str, dict[str, str]]]:
    """What the demo printed, its runs, and the states of their calls; the viewer approves."""
    demo = playing(server, "--speed", "25")
    lines, message = start_reading(demo)
    Voter(server).vote(gated_run(lines), "approve")
    assert demo.wait(3 * PATIENCE) == 0, "".join(lines)
    message.join()
    text = "".join(lines)
    names = {recording.run: run_of(text, recording.run) for recording in RECORDINGS}
    runs = {short: server.get(f"/api/v1/runs/{quote(name)}") for short, name in names.items()}
    calls = {short: server.get(f"/api/v1/runs/{quote(name)}/calls")["calls"] for short, name in names.items()}
    return text, runs, {short: {call["call_id"]: call["state"] for call in value} for short, value in calls.items()}


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.run)
def test_every_run_ends_as_promised(played: Any, recording: Any) -> None:
    _, runs, states = played
    expected = {call: "output-available" if state == "*" else state for call, state in recording.ends.items()}
    assert states[recording.run] == expected
    assert runs[recording.run]["status"] == recording.status


@pytest.mark.slow
def test_it_says_what_it_does(played: Any) -> None:
    value = played[0]
    assert "Ctrl+C" in value
    assert all(recording.agent in value for recording in RECORDINGS)


@pytest.mark.slow
def test_an_approval_without_an_answer_expires(tmp_path: Path) -> None:
    with Server(tmp_path, decide_ttl=2) as server:
        demo = playing(server, "--speed", "25")
        result = demo.communicate(timeout=3 * PATIENCE)[0]
        assert demo.returncode == 0, result
        calls = server.get(f"/api/v1/runs/{run_of(result, GATED.run)}/calls")["calls"]
        last = calls[-1]
        assert (last["state"], last["approval"]["state"]) == ("output-denied", "expired")
        assert "was denied" in result


@pytest.mark.slow
def test_ctrl_c_ends_the_runs(server: Server) -> None:
    demo = playing(server, "--speed", "2")
    lines, message = start_reading(demo)
    name = gated_run(lines)
    until(lambda: server.request("GET", f"/api/v1/runs/{name}")[0] == 200)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(PATIENCE) == 0, "".join(lines)
    message.join()
    assert "Stopped" in "".join(lines)
    until(lambda: server.get(f"/api/v1/runs/{quote(name)}")["status"] == "aborted")


@pytest.mark.slow
def test_without_a_key_it_says_what_is_missing(server: Server) -> None:
    surroundings = {name: value for name, value in os.environ.items() if name != "TOOLCARDS_AGENT_KEY"}
    command = [sys.executable, str(ROOT / "manage.py"), "demo", "--url", server.base]
    completed = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert completed.returncode == 1
    assert "TOOLCARDS_AGENT_KEY" in completed.stderr


@pytest.mark.slow
def test_a_wrong_key_is_reported_in_one_line(server: Server) -> None:
    demo = playing(server, "--key", "tck_wrong", "--speed", "50")
    result = demo.communicate(timeout=2 * PATIENCE)[0]
    assert demo.returncode == 1
    assert "The demo could not be played" in result and "Traceback" not in result


async def test_a_refusal_is_one_exception_and_no_group_of_them(server: Server) -> None:
    with pytest.raises(PlayRefused):
        await Player(server.base, "tck_wrong", lambda line: None, speed=50).play()


def test_every_recording_is_played() -> None:
    assert {recording.file for recording in RECORDINGS} == {path.name for path in RUNS.iterdir()}


def test_the_show_has_what_was_promised() -> None:
    """Streamed arguments, parallel calls, an error, an empty one, a denial, a partial output, an abort, a repair."""
    text = "".join((RUNS / recording.file).read_text() for recording in RECORDINGS)
    expected = ["tool.input.delta", "tool.output.error", '"message": ""', "tool.output.denied", "tool.output.partial",
              '"outcome": "aborted"', "tool.input.repaired", "tool.input.invalid"]  # fmt: skip
    assert [sign for sign in expected if sign not in text] == []
