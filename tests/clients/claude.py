"""What all tests with the real Claude Code share: the model's scripts, and a home and a project to run in."""

from __future__ import annotations

import json
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients import models, npm
from tests.clients.models import Call
from tests.support.server import PATIENCE
from toolcards import connect

VERSION = "2.1.329"
KEY = "no-key-at-all"
LONG = 'import time; open("started", "w").close(); time.sleep(60)'


def bash(call: str, command: str) -> Call:
    return Call(call, "Bash", {"command": command, "description": f"run {call}"})


QUESTION = {
    "questions": [{
        "question": "Which color?", "header": "Color", "multiSelect": False,
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    }]
}  # fmt: skip
SCRIPTS: dict[str, models.Script] = {
    "success": [["Let me look.", bash("toolu_ok", "echo hello")], ["Done."]],
    "env": [[bash("toolu_env", "python3 -c 'import os; print(dict(os.environ))'")], ["Done."]],
    "error": [[bash("toolu_err", "exit 3")], ["It failed."]],
    "deny": [[bash("toolu_no", "echo forbidden")], ["I may not."]],
    "ask": [[bash("toolu_ask", "echo ask")], ["Done."]],
    "ask-exit": [[bash("toolu_x", "echo ask; exit 5")], ["It failed."]],
    "ask-write": [[bash("toolu_aw", "echo ask > ran.txt")], ["Done."]],
    "write": [[Call("toolu_w", "Write", {"file_path": "$CWD/out.txt", "content": "hi\n"})], ["Written."]],
    "question": [[Call("toolu_q", "AskUserQuestion", QUESTION)], ["Done."]],
    "parallel": [
        [
            bash("toolu_p1", "echo one"),
            bash("toolu_p2", "exit 7"),
            Call("toolu_p3", "Read", {"file_path": "$CWD/nope.txt"}),
        ],
        ["One of three."],
    ],
    "unknown": [[Call("toolu_u", "NoSuchTool", {"x": 1})], ["No such tool."]],
    "invalid": [[Call("toolu_i", "Bash", {"cmd": 5})], ["Bad input."]],
    "broken": [[Call("toolu_b", "Bash", raw='{"command": "echo')], ["Bad input."]],
    "long": [[bash("toolu_l", f"python3 -c '{LONG}'")], ["Never."]],
    "touch": [[bash("toolu_t", "touch ran.txt")], ["Done."]],
    "agent": [
        [
            Call(
                "toolu_a",
                "Agent",
                {"description": "sub", "prompt": "SCENARIO:inner", "subagent_type": "general-purpose"},
            )
        ],
        ["The sub-agent is done."],
    ],
    "inner": [[bash("toolu_in", "echo inner")], ["Inner done."]],
    "plan": [
        [Call("toolu_plan", "ExitPlanMode", {"plan": "# Plan\n1. Write out.txt"})],
        [Call("toolu_w", "Write", {"file_path": "$CWD/out.txt", "content": "hi\n"})],
        ["Written."],
    ],
    "parallel-asks": [[bash("toolu_a1", "echo ask one"), bash("toolu_a2", "echo ask two")], ["Both."]],
    "background": [
        [Call("toolu_bg", "Bash", {"command": "echo ask", "description": "run it", "run_in_background": True})],
        ["It runs."],
    ],
}


@dataclass
class Place:
    """A home that is connected to a server, an empty project, and a model that says what we want."""

    home: Path
    project: Path
    model: models.FakeModel

    @property
    def env(self) -> dict[str, str]:
        """All that the program gets to see of its surroundings."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "TERM": "dumb", "LANG": "C.UTF-8",
            "SHELL": "/bin/bash", "ANTHROPIC_BASE_URL": self.model.base, "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "IS_SANDBOX": "1",  # root may choose bypassPermissions then
        }  # fmt: skip

    @property
    def settings(self) -> Path:
        """The file that `connect` writes."""
        return self.home / ".claude" / "settings.json"

    def at_home(self) -> None:
        """What a person has answered at the first start in a terminal."""
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}
        fields = {
            "hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5,
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.project): trusted},
        }  # fmt: skip
        (self.home / ".claude.json").write_text(json.dumps(fields))


def place(folder: Path, url: str, key: str) -> Place:
    """Make a place as `connect claude-code` leaves it."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    scripts = {name: [[_here(part, project) for part in turn] for turn in script] for name, script in SCRIPTS.items()}
    connect.write_changes(connect.get_recipe("claude-code").plan(connect.Target(url=url, key=key, home=home)))
    return Place(home, project, models.anthropic(scripts))


def program() -> Path:
    """Return the program itself."""
    modules = npm.installed("claude-code", anthropic_ai__claude_code=VERSION)
    return npm.native(modules, "@anthropic-ai/claude-code", "claude")


def _here(part: str | Call, project: Path) -> str | Call:
    if isinstance(part, str) or not isinstance(part.input, dict):
        return part
    by_name = {
        name: value.replace("$CWD", str(project)) if isinstance(value, str) else value
        for name, value in part.input.items()
    }
    return Call(part.id, part.tool, by_name, part.raw)


@dataclass
class Claude:
    """A headless session of Claude Code in a place of its own."""

    program: Path
    place: Place
    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    process: subprocess.Popen[str] | None = None

    @property
    def project(self) -> Path:
        return self.place.project

    @property
    def model(self) -> models.FakeModel:
        return self.place.model

    def start(self, scenario: str, *flags: str) -> Claude:
        """Start a headless session; `finish` waits for it."""
        command = [
            str(self.program), "-p", f"SCENARIO:{scenario}", "--session-id", self.session, "--model",
            "claude-sonnet-4-5", "--output-format", "stream-json", "--verbose", *flags,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, cwd=self.project, env=self.place.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def finish(self) -> str:
        """Wait for the end; return what the program printed."""
        assert self.process is not None
        try:
            result, wrong = self.process.communicate(timeout=3 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            result, wrong = self.process.communicate()
        return result + wrong
