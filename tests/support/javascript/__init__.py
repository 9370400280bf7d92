"""The JavaScript clients in a separate process, driven line by line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[3]
CLIENTS = ["runs", "gated", "toolApproval", "needsApproval", "tanstack", "opencode"]
NODE = shutil.which("node")


class Node:
    """One Node.js with our modules where `connect` puts them: `toolcards/` and `plugin/` side by side."""

    def __init__(self, folder: Path) -> None:
        for name in ("toolcards", "plugin"):
            (folder / name).mkdir()
        for file in (ROOT / "static/clients").glob("*.mjs"):
            shutil.copy(file, folder / "toolcards")
        shutil.copy(ROOT / "static/clients/opencode.js", folder / "plugin/toolcards.js")
        (folder / "plugin/package.json").write_text('{"type": "module"}')
        shutil.copy(Path(__file__).parent / "clients.mjs", folder)
        self._folder = folder

    def __enter__(self) -> Node:
        assert NODE is not None
        self._process = subprocess.Popen(
            [NODE, str(self._folder / "clients.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def play(self, **command: Any) -> dict[str, Any]:
        """Send a command; return its result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program ended"
        payload: dict[str, Any] = json.loads(line)
        return payload

    def stop_run(self) -> None:
        """Stop the run that is played, as its user does."""
        self._process.send_signal(signal.SIGHUP)

    def give_up_sooner(self) -> None:
        """Shorten the timers of the requests that now wait for their answer, by the command's `haste`."""
        self._process.send_signal(signal.SIGUSR2)
