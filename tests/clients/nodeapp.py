"""A JavaScript program with real packages: reads one request as a line of JSON and answers with one line."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.clients import npm
from tests.support.server import PATIENCE

ROOT = Path(__file__).parents[2]
ZOD = "4.6.7"


class App:
    """One program of tests/clients/javascript, in one folder with the modules of static/clients."""

    def __init__(self, modules: Path, script: str, folder: Path) -> None:
        self._modules, self._folder = modules, folder
        for file in (ROOT / "tests/clients/javascript" / script, *(ROOT / "static/clients").glob("*.mjs")):
            shutil.copy(file, folder)
        (folder / "node_modules").symlink_to(modules)
        self._script = folder / script
        self._process: subprocess.Popen[str] | None = None

    def start(self, scenario: str, **options: Any) -> App:
        """Start it; `finish` waits for it."""
        command = [str(npm.node(self._modules)), str(self._script)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"scenario": scenario, **options}) + "\n")
        self._process.stdin.flush()
        return self

    def stop_it(self) -> None:
        """Let it stop its chat: it was started with `abort`, and what is to be stopped has begun."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()

    def finish(self) -> dict[str, Any]:
        """Wait for the end; return what it told."""
        assert self._process is not None
        try:
            result, wrong = self._process.communicate(timeout=3 * PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            result, wrong = self._process.communicate()
            raise AssertionError(f"it did not end: {result[-500:]} {wrong[-2000:]}") from None
        assert result.strip(), wrong[-2000:]
        payload: dict[str, Any] = json.loads(result.strip().splitlines()[-1])
        return payload

    def stop(self) -> None:
        """End it, if a test did not."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
