#!/usr/bin/env python3
"""Check the types of the page scripts (JSDoc, `jsconfig.json`) with the pinned TypeScript.

Brings Node.js and TypeScript into `.tools` where they are missing; with TOOLCARDS_NO_INSTALL=1 it checks only what it
can, and with TOOLCARDS_REQUIRE_PROGRAMS=1 what is missing is an error.
"""

from __future__ import annotations

import os
import subprocess
import sys

import programs


def main() -> int:
    """Return 0 if the types are right or cannot be checked."""
    os.environ["PATH"] += os.pathsep + str(programs.BIN)
    try:
        tsc = find_tsc()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        programs.say(f"The types of the page scripts were not checked: {error}")
        return 1 if os.environ.get("TOOLCARDS_REQUIRE_PROGRAMS") == "1" else 0
    return subprocess.run([*tsc, "--project", str(programs.ROOT / "jsconfig.json")], check=False).returncode


def find_tsc() -> list[str]:
    """Return the command that checks types.

    Brings what is missing, or raises ValueError where it must not.
    """
    name, version, _ = programs.TYPESCRIPT
    node, script = programs.find_node(), programs.TOOLS / f"{name}-{version}/package/lib/tsc.js"
    if os.environ.get("TOOLCARDS_NO_INSTALL") == "1" and not (node and script.exists()):
        raise ValueError("Node.js or TypeScript is missing, and TOOLCARDS_NO_INSTALL is set")
    if not node:
        programs.bring_node()
        node = programs.find_node() or "node"
    return [node, str(programs.bring_typescript())]


if __name__ == "__main__":
    sys.exit(main())
