"""The real Cline CLI in a folder of its own, with a model that says what we want."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.clients import models, npm
from tests.clients.command_hooks import SCRIPTS, Place
from tests.clients.models import Call
from tests.support.server import PATIENCE


def run(call_id: str, command: str) -> Call:
    return Call(call_id, "run_commands", {"commands": [command]})


EXTRA: dict[str, models.Script] = {
    "again": [[run("call_0", "echo one >> ran.txt")] for _ in range(2)] + [["Done."]],
    "delegate": [
        [Call("call_d", "spawn_agent", {"systemPrompt": "You run.", "task": "SCENARIO:success"})], ["Done."]
    ],
}  # fmt: skip


class Cline(Place):
    name, title, tool = "cline", "Cline", "run_commands"
    version = "3.0.65"

    def prepare(self) -> None:
        scripts = {name: [*map(self._turn, range(len(turns)), turns), ["Done."]] for name, turns in SCRIPTS.items()}
        self.model = models.openai(scripts | EXTRA)
        provider = ["-p", "openai-compatible", "-k", "none", "-m", "fake-model", "-b", f"{self.model.base}/v1"]
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), **self.env()}
        command = [str(self._program()), "auth", *provider]
        subprocess.run(command, env=env, cwd=self.project, capture_output=True, check=True, timeout=PATIENCE)

    def _turn(self, number: int, commands: list[str]) -> models.Turn:
        return [self._call(f"call_{number}_{index}", command) for index, command in enumerate(commands)]

    def _call(self, call_id: str, command: str) -> Call:
        if command.startswith("write "):
            path = str(self.project / "ran.txt")
            return Call(call_id, "editor", {"path": path, "new_text": command.removeprefix("write ")})
        return run(call_id, command)

    def _program(self) -> Path:
        return npm.native(npm.installed("cline", cline=self.version), "@cline/cli", "bin/cline")

    def command(self, prompt: str) -> list[str]:
        return [str(self._program()), f"Run {prompt}"]  # it takes one word for a command

    def env(self) -> dict[str, str]:
        return {"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_TELEMETRY_DISABLED": "1"}

    def results(self) -> list[str]:
        return [self.model.results[call] for call in sorted(self.model.results)]

    def stop(self) -> None:
        super().stop()
        self.model.close()
