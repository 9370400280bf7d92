"""The real Codex CLI: its model's scripts, and a home and a project to run in."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.clients import npm
from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from toolcards import connect

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


def await_run_end(server: Server, codex: Codex) -> dict[str, Any]:
    """Return the cards once the run has ended."""
    run = codex.session()
    codex.finish()
    until(lambda: server.request("GET", f"/api/v1/runs/{run}")[1].get("status") in {"finished", "aborted"})
    return gating.calls(server, run)
