"""The real Codex CLI, connected as `connect codex` connects it, with a model that says what we want.

0.169.0 is what these tests run: `codex exec` with a home of its own, and a Responses API on loopback. Its hooks are
trusted through its flag, except in the test of untrusted hooks.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.clients import npm
from tests.support import gating
from tests.support.bad_answers import TABLE
from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE, Server, until
from tests.support.silent_server import Hole
from toolcards import connect

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
VERSION = "0.169.0"
Script = list[tuple[str, dict[str, Any]]]


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "exec_command", {"cmd": command}


SCRIPTS: dict[str, Script] = {
    "success": [shell("echo hello > ran.txt; echo hello")],
    "deny": [shell("echo forbidden")],
    "ask": [shell("echo ask > ran.txt")],
    "twice": [shell("echo one"), shell("echo forbidden > ran.txt")],
    "touch": [shell("touch ran.txt")],
}


class Model:
    """The Responses API: the prompt `SCENARIO:<name>` selects the calls; `results` has their results in order.

    Every call has the id `call_0`, as from a provider that restarts its numbering each time.
    """

    def __init__(self) -> None:
        model = self
        self.results: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send("application/json", b'{"object": "list", "data": []}')

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send("text/event-stream", "".join(model.events(payload)).encode())

            def _send(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def events(self, payload: dict[str, Any]) -> Iterator[str]:
        name = re.findall(r"SCENARIO:([\w-]+)", json.dumps(payload["input"]))[-1]
        self.results = [item["output"] for item in payload["input"] if item["type"] == "function_call_output"]
        script, completed = SCRIPTS[name], len(self.results)
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": "m"}
        item["content"] = [{"type": "output_text", "text": "Done."}]
        if completed < len(script):
            tool, args = script[completed]
            item = {"type": "function_call", "id": f"fc_{completed}", "call_id": "call_0", "name": tool}
            item["arguments"] = json.dumps(args)
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        for kind, more in (
            ("response.created", {"response": {"id": "r"}}), ("response.output_item.done", {"item": item}),
            ("response.completed", {"response": {"id": "r", "usage": usage}}),
        ):  # fmt: skip
            yield f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Codex:
    """One place with a home that is connected to a server."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self.home, self.project, self.model = folder / "home", folder / "project", Model()
        for each in (self.home, self.project):
            each.mkdir()
        connect.write_changes(connect.get_recipe("codex").plan(connect.Target(url=url, key=key, home=self.home)))
        settings = (
            'model = "fake-model"\nmodel_provider = "fake"\napproval_policy = "never"\n'
            'sandbox_mode = "danger-full-access"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{self.model.base}/v1"\nwire_api = "responses"\n'
        )
        (self.home / ".codex" / "config.toml").write_text(settings)
        self.process: subprocess.Popen[str] | None = None
        self.run = ""

    @property
    def ran(self) -> bool:
        return (self.project / "ran.txt").exists()

    def start(self, scenario: str, *flags: str, trusted: bool = True) -> Codex:
        modules = npm.installed("codex", openai__codex=VERSION)
        program = next(modules.glob("@openai/codex-*/vendor/*/bin/codex"))
        trust = ["--dangerously-bypass-hook-trust"] if trusted else []
        self.process = subprocess.Popen(
            [str(program), "exec", "--skip-git-repo-check", *trust, *flags, f"SCENARIO:{scenario}"], cwd=self.project,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "OPENAI_API_KEY": "none"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return self

    def session(self) -> str:
        """Return the session's id, once the program has said it: the run's name."""
        assert self.process is not None and self.process.stdout is not None
        while not self.run and (line := self.process.stdout.readline()):
            match = re.match(r"session id: (\S+)", line)
            self.run = match[1] if match else ""
        return self.run

    def finish(self) -> str:
        assert self.process is not None
        try:
            return self.process.communicate(timeout=3 * PATIENCE)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0]

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.model.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, gating.policy(tool="Bash", field="/command"))
        yield running


@pytest.fixture
def codex(server: Server, tmp_path: Path) -> Iterator[Codex]:
    created = Codex(tmp_path, server.base, server.key)
    yield created
    created.stop()


def await_run_end(server: Server, codex: Codex) -> dict[str, Any]:
    """Return the cards once the run has ended."""
    run = codex.session()
    codex.finish()
    until(lambda: server.request("GET", f"/api/v1/runs/{run}")[1].get("status") in {"finished", "aborted"})
    return gating.calls(server, run)


def test_a_success_is_shown_under_the_agents_name_and_the_run_ends(server: Server, codex: Codex) -> None:
    card = await_run_end(server, codex.start("success"))["call_0"]
    assert (card["state"], card["tool"]["name"], card["tool"]["kind"]) == ("output-available", "Bash", "execute")
    assert card["input"] == {"command": "echo hello > ran.txt; echo hello"} and "hello" in card["output"]
    response = server.get(f"/api/v1/runs/{codex.run}")
    assert (response["agent"], response["status"], codex.ran) == ("Codex", "finished", True)


def test_a_rules_no_reaches_the_model(server: Server, codex: Codex) -> None:
    card = await_run_end(server, codex.start("deny"))["call_0"]
    assert card["decision"]["rule"] == "no"
    assert "Not allowed here. Try something else." in codex.model.results[0]


def test_a_reused_id_with_another_command_is_judged_as_another_call(server: Server, codex: Codex) -> None:
    await_run_end(server, codex.start("twice"))
    assert not codex.ran and "one" in codex.model.results[0]
    assert "Command blocked by PreToolUse hook" in codex.model.results[1]


@pytest.mark.parametrize(("vote", "ran"), [("approve", "ask"), ("deny", ""), ("edit", "edited")])
def test_a_persons_answer_is_obeyed(server: Server, codex: Codex, vote: str, ran: str) -> None:
    codex.start("ask")
    run = codex.session()
    edited = {"command": "echo edited > ran.txt"} if vote == "edit" else None
    gating.vote(server, run, vote, reason="because", edited=edited)
    codex.finish()
    assert ((codex.project / "ran.txt").read_text().strip() if codex.ran else "") == ran
    assert ran or "A person declined: because" in codex.model.results[0]


def test_without_the_server_nothing_runs_and_the_model_gets_the_reason(tmp_path: Path) -> None:
    codex = Codex(tmp_path, "http://127.0.0.1:9", "tck_nobody_listens")
    output = codex.start("touch").finish()
    assert not codex.ran and "gave no valid answer" in codex.model.results[0]
    assert "hook: Stop Completed" in output and "clamping" not in output
    codex.stop()


def test_a_server_that_hangs_holds_no_hook_that_only_tells(tmp_path: Path) -> None:
    with Hole() as hole:
        codex = Codex(tmp_path, hole.url, "tck_nobody_listens")
        path = codex.home / ".codex/hooks.json"
        hooks = json.loads(path.read_text())
        for event in ("PreToolUse", "PermissionRequest"):
            del hooks["hooks"][event]
        path.write_text(json.dumps(hooks))
        output = codex.start("touch").finish()
        assert codex.ran and hole.swallowed and "hook: PostToolUse Completed" in output
        codex.stop()


def test_nothing_runs_on_a_bad_answer(tmp_path: Path) -> None:
    lies = {"status 201 Created", "HTML", "too long", "cut off", "no JSON", "nothing at all"}
    with Gate({"Bash": "allow"}) as gate:
        codex = Codex(tmp_path, gate.url, "tck_a_liar_listens")
        for row in (row for row in TABLE if row.name in lies):
            gate.tamper = lambda stage, honest, row=row: row.make(honest) if stage == "hook" else None  # type: ignore[misc]
            codex.start("touch").finish()
            assert not codex.ran and "no valid answer" in codex.model.results[0], row
        gate.tamper = lambda stage, honest: None
        codex.start("touch").finish()
        assert codex.ran
        codex.stop()


def test_untrusted_hooks_are_skipped(server: Server, codex: Codex) -> None:
    """Therefore `connect` and the connect page explain how to trust them."""
    codex.start("deny", trusted=False).finish()
    assert "Not allowed here." not in codex.model.results[0]
    assert "/hooks" in connect.get_recipe("codex").next_step
