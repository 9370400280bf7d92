"""Real packages by name, at the versions that were read: installed once into a folder that git does not see."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from tests.clients import versions

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("TOOLCARDS_CLIENTS_DIR") or ROOT / ".clients")
NODE = "24.21.0"


def installed(name: str, **packages: str) -> Path:
    """Return the `node_modules` of a folder `name` that holds these packages, installing them if need be.

    Keyword names write `@scope/pkg` as `scope__pkg` and `-` as `_`; a Node of our own comes along.
    """
    pins = {_build_package_name(package): version for package, version in packages.items()} | {"node": NODE}
    expected = versions.choose(name, pins)
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        completed = folder / "installed.json"
        if not completed.exists() or json.loads(completed.read_text()) != expected:
            _install(folder, expected)
            versions.note(folder, pins, {package: _version(folder, package) for package in pins})
            completed.write_text(json.dumps(expected))
    return folder / "node_modules"


def node(modules: Path) -> Path:
    """Return the Node that was installed with the packages."""
    return modules / "node" / "bin" / "node"


def native(modules: Path, package: str, program: str) -> Path:
    """Return a package's program for this machine: `<package>-linux-x64/<program>`."""
    machine = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), platform.machine())
    return modules / f"{package}-{platform.system().lower()}-{machine}" / program


def _install(folder: Path, expected: dict[str, str]) -> None:
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": expected}))
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        pytest.skip("not here: npm")
    if run.returncode:
        raise AssertionError(f"npm could not install {expected}: {run.stderr[-2000:]}")


def _version(folder: Path, package: str) -> str:
    version: str = json.loads((folder / "node_modules" / package / "package.json").read_text())["version"]
    return version


def _build_package_name(keyword: str) -> str:
    scope, _, rest = keyword.rpartition("__")
    name = rest.replace("_", "-")
    return f"@{scope.replace('_', '-')}/{name}" if scope else name
