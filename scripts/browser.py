#!/usr/bin/env python3
"""Finds or installs what the tests drive: a browser, a Redis server and a PostgreSQL server.

Prints the browser's path, and everything else to stderr. What cannot be had is said loudly and its tests are skipped;
with TOOLCARDS_REQUIRE_BROWSER=1 a missing browser is an error. TOOLCARDS_NO_INSTALL=1 leaves the system alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

BROWSERS = [
    "chromium",
    "chromium-headless-shell",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
]
POSTGRES_FOLDERS = ["/usr/lib/postgresql/*/bin", "/usr/local/lib/postgresql/*/bin", "/usr/pgsql-*/bin"]

# Debian would start a freshly installed server at once; the tests start their own, on ports of their own.
QUIETLY = """
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
for package in "$@"; do
  apt-get install -y -qq --no-install-recommends "$package" || echo "toolcards: no $package" >&2
done
"""


def main() -> int:
    """Print the browser's path, after installing what is missing and can be installed."""
    packages = missing_packages()
    if packages and may_install():
        install(packages)
    browser = find_browser() or from_playwright()
    report(browser)
    if browser:
        print(browser)
    return 1 if not browser and os.environ.get("TOOLCARDS_REQUIRE_BROWSER") == "1" else 0


def missing_packages() -> list[str]:
    """Return Debian's names of what is not there."""
    wanted = {
        "libatomic1": not driver_starts(),
        "chromium-headless-shell": not find_browser(),
        "redis-server": not shutil.which("redis-server"),
        "postgresql": not find_postgres(),
    }
    return [name for name, absent in wanted.items() if absent]


def find_browser() -> str | None:
    """Return a browser that starts: the one named in TOOLCARDS_BROWSER, else the first one found."""
    named = os.environ.get("TOOLCARDS_BROWSER")
    found = (shutil.which(name) for name in ([named] if named else BROWSERS))
    return next((path for path in found if path and starts(path, "--version")), None)


def find_postgres() -> str | None:
    """Return a folder with PostgreSQL's programs; Debian keeps them off the PATH."""
    if found := shutil.which("initdb"):
        return str(Path(found).parent)
    folders = (folder for pattern in POSTGRES_FOLDERS for folder in Path("/").glob(pattern.lstrip("/")))
    return next((str(folder) for folder in folders if (folder / "initdb").exists()), None)


def driver_starts() -> bool:
    """Tell whether Playwright's own driver runs: on a bare Debian it misses a library of 9 kB."""
    return starts(sys.executable, "-m", "playwright", "--version")


def may_install() -> bool:
    """Tell whether apt is here and we may use it without asking for a password."""
    if os.environ.get("TOOLCARDS_NO_INSTALL") == "1" or not shutil.which("apt-get"):
        return False
    return root() or bool(shutil.which("sudo") and starts("sudo", "-n", "true"))


def install(packages: list[str]) -> None:
    """Install Debian packages, one by one, so that an unknown one does not stop the others."""
    say(f"installing for the tests: {' '.join(packages)} (TOOLCARDS_NO_INSTALL=1 leaves your system alone)")
    command = [*([] if root() else ["sudo", "-n"]), "sh", "-c", QUIETLY, "sh", *packages]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def from_playwright() -> str | None:
    """Return Playwright's own browser, downloaded if need be."""
    if os.environ.get("TOOLCARDS_NO_INSTALL") == "1" or not driver_starts():
        return None
    say("downloading a browser with Playwright")
    command = [sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        return None
    where = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or cache_folder())
    names = ["chrome-headless-shell", "headless_shell", "chrome-headless-shell.exe"]
    found = [path for name in names for path in sorted(where.glob(f"chromium_headless_shell-*/*/{name}"))]
    return next((str(path) for path in reversed(found) if starts(str(path), "--version")), None)


def cache_folder() -> Path:
    """Return where Playwright keeps its browsers."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/ms-playwright"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"


def report(browser: str | None) -> None:
    """Say which tests will be skipped."""
    absent = {
        "browser": browser,
        "redis-server": shutil.which("redis-server"),
        "PostgreSQL": find_postgres(),
    }
    for name, found in absent.items():
        if not found:
            say(f"NO {name.upper()} HERE: the tests that need it are skipped. On Debian: {apt_line()}")


def apt_line() -> str:
    """Return the one line that brings everything."""
    return "sudo apt install chromium-headless-shell libatomic1 redis-server postgresql"


def root() -> bool:
    """Tell whether we are root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def starts(*command: str) -> bool:
    """Tell whether the command runs and succeeds."""
    try:
        return not subprocess.run(command, capture_output=True, timeout=60).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def say(text: str) -> None:
    """Tell the person at the terminal what happens."""
    print(f"toolcards: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
