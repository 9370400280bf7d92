"""Which versions of client libraries the tests install: the pins, or the newest ones for `make test-newest`."""

from __future__ import annotations

import json
import os
from pathlib import Path

NEWEST = os.environ.get("TOOLCARDS_CLIENTS") == "newest"
LATEST = "latest"
RUNTIMES = {"node"}  # what libraries run on: stays at its pin
WITHIN_MAJOR = {"zod"}  # what libraries are used with: the newest of the pin's major version
OLD_MAJORS = {"ai-sdk-6"}  # folders of older major versions that are still supported


def choose(folder: str, pins: dict[str, str], newest: bool = NEWEST) -> dict[str, str]:
    """Return the version to install of each package: its pin, or `latest` or `^pin` where the newest are wanted."""
    return {package: _newest(folder, package, pin) for package, pin in pins.items()} if newest else pins


def _newest(folder: str, package: str, pin: str) -> str:
    if package in RUNTIMES:
        return pin
    return f"^{pin}" if package in WITHIN_MAJOR or folder in OLD_MAJORS else LATEST


def note(folder: Path, pins: dict[str, str], installed: dict[str, str]) -> None:
    """Write down what was installed in place of which pins, for the report of `scripts/newest.py`."""
    rows = {package: {"pin": pin, "installed": installed.get(package, "")} for package, pin in pins.items()}
    (folder / "versions.json").write_text(json.dumps(rows))
