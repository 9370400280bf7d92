"""Gemini CLI and GitHub Copilot CLI as their recipes connect them, each with a model that says what we want.

Both run without an account: Gemini CLI with a key for a Gemini API on loopback, Copilot CLI offline with a provider of
one's own. `results` of their models: what the program said came of the calls, in order.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.clients import models, npm
from tests.clients.models import Call
from tests.support.server import PATIENCE
from toolcards import connect

SCRIPTS: dict[str, list[list[str]]] = {  # turns of commands, which a program runs in its shell
    "success": [["echo hello > ran.txt; echo hello"]],
    "deny": [["echo forbidden > ran.txt"]],
    "ask": [["echo ask > ran.txt"]],
    "touch": [["touch ran.txt"]],
    "equal": [["echo one >> ran.txt", "echo one >> ran.txt"], ["echo one >> ran.txt"]],
    "both": [["echo ask > asked.txt", "echo free > ran.txt"]],
    "large": [["write " + "x" * 200_000]],  # by the program's tool for files
    "failure": [["exit 3"]],
}


class GeminiModel:
    """The Gemini API, streamed."""

    def __init__(self) -> None:
        model = self
        self.results: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(model.answer(payload))
                body = f"data: {answer}\n\n" if "stream" in self.path else answer
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream" if "stream" in self.path else "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, payload: dict[str, Any]) -> dict[str, Any]:
        contents = payload.get("contents", [])
        parts = [part for content in contents for part in content.get("parts", [])]
        names = re.findall(r"SCENARIO:([\w-]+)", json.dumps(contents))
        answer_parts: list[dict[str, Any]] = [{"text": "Done."}]
        if names and payload.get("tools"):
            self.results = [json.dumps(part["functionResponse"]) for part in parts if "functionResponse" in part]
            completed, script = 0, SCRIPTS[names[-1]]
            for commands in script:
                if completed == len(self.results):
                    answer_parts = [{"functionCall": self._call(command)} for command in commands]
                    break
                completed += len(commands)
        candidate = {"content": {"role": "model", "parts": answer_parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake"}

    def _call(self, command: str) -> dict[str, Any]:
        if command.startswith("write "):
            return {"name": "write_file", "args": {"file_path": "ran.txt", "content": command.removeprefix("write ")}}
        return {"name": "run_shell_command", "args": {"command": command}}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Place:
    """One home that is connected to a server, a project in it, and a program that runs there."""

    name, title, tool = "", "", ""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self.home, self.project = folder / "home", folder / "project"
        for each in (self.home, self.project):
            each.mkdir(parents=True)
        self.process: subprocess.Popen[str] | None = None
        self.prepare()
        connect.write_changes(connect.get_recipe(self.name).plan(connect.Target(url=url, key=key, home=self.home)))

    def prepare(self) -> None:
        raise NotImplementedError

    def command(self, prompt: str) -> list[str]:
        raise NotImplementedError

    def env(self) -> dict[str, str]:
        raise NotImplementedError

    def results(self) -> list[str]:
        raise NotImplementedError

    @property
    def output(self) -> str:
        """What the calls wrote into `ran.txt`."""
        path = self.project / "ran.txt"
        return path.read_text().strip() if path.exists() else ""

    @property
    def ran(self) -> bool:
        return (self.project / "ran.txt").exists()

    def start(self, scenario: str) -> Place:
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), **self.env()}
        self.process = subprocess.Popen(
            self.command(f"SCENARIO:{scenario}"), cwd=self.project, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return self

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


class Gemini(Place):
    name, title, tool = "gemini-cli", "Gemini CLI", "run_shell_command"
    version = "0.61.0"

    def prepare(self) -> None:
        self.model = GeminiModel()
        path = self.home / ".gemini" / "settings.json"
        path.parent.mkdir()
        path.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}, indent=2))

    def command(self, prompt: str) -> list[str]:
        modules = npm.installed("gemini-cli", google__gemini_cli=self.version)
        program = modules / "@google" / "gemini-cli" / "bundle" / "gemini.js"
        return [str(npm.node(modules)), str(program), "--yolo", "-m", "gemini-2.5-flash", "-p", prompt]

    def env(self) -> dict[str, str]:
        trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.base, **trusted}

    def results(self) -> list[str]:
        return self.model.results

    def stop(self) -> None:
        super().stop()
        self.model.close()


class Copilot(Place):
    name, title, tool = "copilot", "GitHub Copilot CLI", "bash"
    version = "1.0.102"

    def prepare(self) -> None:
        scripts = {name: [*map(self._turn, range(len(turns)), turns), ["Done."]] for name, turns in SCRIPTS.items()}
        self.model = models.openai(scripts)

    def _turn(self, number: int, commands: list[str]) -> models.Turn:
        return [self._call(f"call_{number}_{index}", command) for index, command in enumerate(commands)]

    def _call(self, call_id: str, command: str) -> Call:
        if command.startswith("write "):
            path, text = self.project / "ran.txt", command.removeprefix("write ")
            return Call(call_id, "create", {"path": str(path), "file_text": text})
        return Call(call_id, self.tool, {"command": command, "description": "a test"})

    def command(self, prompt: str) -> list[str]:
        modules = npm.installed("copilot", github__copilot=self.version)
        program = npm.native(modules, "@github/copilot", "copilot")
        return [str(program), "-p", prompt, "--allow-all-tools"]

    def env(self) -> dict[str, str]:
        provider = {"COPILOT_PROVIDER_BASE_URL": f"{self.model.base}/v1", "COPILOT_MODEL": "fake-model"}
        return {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false", **provider}

    def results(self) -> list[str]:
        return [self.model.results[call] for call in sorted(self.model.results)]

    def stop(self) -> None:
        super().stop()
        self.model.close()
