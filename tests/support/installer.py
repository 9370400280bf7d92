"""The pip that installs into environments of tests."""

from __future__ import annotations

import functools
import subprocess
import sys


@functools.cache
def find_pip() -> list[str]:
    """Return the command of a pip: that of the tests' Python, or of the Python it was made with."""
    for python in (sys.executable, getattr(sys, "_base_executable", sys.executable), "python3"):
        command = [python, "-m", "pip"]
        if not subprocess.run([*command, "--version"], capture_output=True).returncode:
            return command
    raise AssertionError("no Python here has pip")
