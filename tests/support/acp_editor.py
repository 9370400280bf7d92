"""An editor that speaks the Agent Client Protocol to `toolcards acp -- <agent>`."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.server import PATIENCE

ROOT = Path(__file__).parents[2]


class Editor:
    """The proxy with an agent behind it. `lines`: every received line; `permission_requests`: its questions.

    `settings`: what the editor's settings name, word for word: `command`, `args` and `env`.
    """

    def __init__(
        self, command: list[str], *, url: str, key: str, flags: tuple[str, ...] = (),
        settings: dict[str, Any] | None = None, **where: Any,
    ) -> None:  # fmt: skip
        env = {**(where.pop("env", None) or os.environ), "TOOLCARDS_URL": url, "TOOLCARDS_AGENT_KEY": key}
        env["PYTHONPATH"] = str(ROOT)
        program = [sys.executable, "-m", "toolcards", "acp", *flags, "--", *command]
        if settings is not None:
            program, env = [settings["command"], *settings["args"]], env | settings["env"]
        self.process = subprocess.Popen(
            program, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **where
        )
        self.lines: list[bytes] = []
        self.permission_requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self.results: queue.Queue[dict[str, Any]] = queue.Queue()
        self.texts: list[str] = []
        self.number = 0
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            try:
                msg = json.loads(line)
            except ValueError:
                continue
            if not isinstance(msg, dict):
                continue
            if msg.get("method") == "session/request_permission":
                self.permission_requests.put(msg)
            elif "method" in msg and "id" in msg:
                self.send(id=msg["id"], error={"code": -32601, "message": "not supported by this client"})
            elif "id" in msg:
                self.results.put(msg)
            elif msg.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk":
                self.texts.append(msg["params"]["update"]["content"]["text"])

    def send(self, **msg: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **msg}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **params: Any) -> None:
        self.number += 1
        self.send(id=self.number, method=method, params=params)

    def result(self, seconds: float = 2 * PATIENCE) -> Any:
        outcome = self.results.get(timeout=seconds)
        assert "result" in outcome, outcome
        return outcome["result"]

    def session(self, cwd: str = ".") -> str:
        self.begin("initialize", protocolVersion=1, clientCapabilities={})
        self.result()
        self.begin("session/new", cwd=cwd, mcpServers=[])
        return str(self.result()["sessionId"])

    def prompt(self, session: str, text: str) -> None:
        self.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def close(self) -> int:
        """Disconnect as an editor does; return the proxy's exit code."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reading.join(PATIENCE)
        self.error_output = self.process.stderr.read().decode()
        return code
