#!/usr/bin/env python3
"""Runs the tests with real agent libraries against the newest release of each library.

Installs into a folder of its own, which is removed afterwards; no file of the checkout and no pinned installation
changes. Prints which versions differ from the pins and which tests fail. Exits with 1 if a test failed or none passed.
What follows `--` is for pytest. See docs/following.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "clients"
# Libraries that share a file of tests, as pytest's `-k` finds them; every other file is a library by its own name.
SHARED = {
    "gemini-cli": "(test_command_hooks and gemini-cli)",
    "copilot": "(test_command_hooks and copilot)",
    "langchain": "(test_langchain or test_langchain_pauses)",
}


@dataclass(frozen=True)
class Row:
    """One package in one folder: its pin ("" for any version), and what was installed."""

    folder: str
    package: str
    pin: str
    installed: str

    @property
    def differs(self) -> bool:
        """Whether another version than the pin was tested."""
        return bool(self.pin) and self.pin != self.installed


@dataclass(frozen=True)
class Outcome:
    """What pytest reported: how many tests passed and were skipped, and those that failed with their messages."""

    passed: int
    skipped: int
    failed: dict[str, str]


def libraries() -> dict[str, str]:
    """Return the names that `--only` takes, with the expression for pytest's `-k`."""
    files = sorted(path.stem for path in TESTS.glob("test_*.py"))
    return {file.removeprefix("test_").replace("_", "-"): file for file in files} | SHARED


def main() -> int:
    """Install, test, report."""
    options, more = parse(sys.argv[1:])
    if options.list:
        print("\n".join(sorted(libraries())))
        return 0
    with tempfile.TemporaryDirectory(prefix="toolcards-newest-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / "junit.xml"
        report.unlink(missing_ok=True)
        code = run_tests(folder, report, options.only, more)
        rows, outcome = list(read_versions(folder)), read_report(report)
    print(describe(rows, outcome))
    return 1 if code or not outcome.passed else 0


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return our options, and what is for pytest."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted(libraries())
    parser.add_argument("--only", action="append", choices=names, metavar="LIBRARY", help="this one; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the libraries")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="install there and keep it")
    return parser.parse_args(arguments[:cut]), arguments[cut + 1 :]


def run_tests(folder: Path, report: Path, only: list[str] | None, more: list[str]) -> int:
    """Run pytest on the newest libraries; return its exit code."""
    selection = ["-k", " or ".join(libraries()[name] for name in only)] if only else []
    command = [sys.executable, "-m", "pytest", "-m", "clients", str(TESTS), f"--junitxml={report}", *selection, *more]
    env = os.environ | {"TOOLCARDS_CLIENTS": "newest", "TOOLCARDS_CLIENTS_DIR": str(folder.resolve())}
    return subprocess.run(command, cwd=ROOT, env=env).returncode


def read_versions(folder: Path) -> Iterator[Row]:
    """Return the tested versions, as `tests/clients/versions.py` recorded them."""
    for path in sorted(folder.glob("*/versions.json")):
        for package, versions in json.loads(path.read_text()).items():
            yield Row(path.parent.name, package, versions["pin"], versions["installed"])


def read_report(report: Path) -> Outcome:
    """Read pytest's JUnit file; a missing one means that nothing passed."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []  # noqa: S314 - pytest wrote it
    failures = {}
    for case in cases:
        wrong = next((child for child in case if child.tag in ("failure", "error")), None)
        if wrong is not None:
            failures[f"{case.get('classname')}::{case.get('name')}"] = (wrong.get("message") or "").partition("\n")[0]
    skip_count = sum(any(child.tag == "skipped" for child in case) for case in cases)
    names = {f"{case.get('classname')}::{case.get('name')}" for case in cases}
    return Outcome(len(names) - skip_count - len(failures), skip_count, failures)


def describe(rows: list[Row], outcome: Outcome) -> str:
    """Return the report for people."""
    lines = ["", f"{'Installed for':18} {'Package':34} {'Pin':12} Newest"]
    for row in rows:
        mark = "  <- differs" if row.differs else ""
        lines.append(f"{row.folder:18} {row.package:34} {row.pin or 'any':12} {row.installed}{mark}")
    if not rows:
        lines.append("nothing was installed")
    lines += ["", f"{outcome.passed} passed, {outcome.skipped} skipped, {len(outcome.failed)} failed"]
    lines += [f"FAILED {name}: {message[:200]}" for name, message in outcome.failed.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
