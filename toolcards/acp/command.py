"""The command line of the proxy."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from toolcards.acp.proxy import Proxy
from toolcards.client import Toolcards

ABOUT = "Run as a proxy between an editor and an agent (Agent Client Protocol)."
NOTE = "The address and key may also come from TOOLCARDS_URL and TOOLCARDS_AGENT_KEY."


def main(argv: Sequence[str], program: str = "toolcards") -> int:
    """Run the proxy until the agent ends; return the agent's exit code."""
    parser = argparse.ArgumentParser(prog=f"{program} acp", description=ABOUT, epilog=NOTE)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--gate", action="store_true", help="the gate answers permission requests (the default)")
    how.add_argument("--mirror", action="store_true", help="the editor asks too; the first answer counts")
    parser.add_argument("--url", default="", help="the server's address")
    parser.add_argument("--key", default="", help="an agent key; the environment variable is safer")
    parser.add_argument("--agent", default="", help="the agent's name on the dashboard")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- agent command")
    options = parser.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("name the agent's command after --")
    if shutil.which(command[0]) is None:
        parser.error(f"program not found: {command[0]!r}")
    try:
        cards = Toolcards(options.url, options.key)
    except ValueError as error:
        parser.error(str(error))
    name = options.agent or os.path.basename(command[0])  # noqa: PTH119 - a command, no file of ours
    env = {key: value for key, value in os.environ.items() if key != "TOOLCARDS_AGENT_KEY"}
    return Proxy(cards, command, gate=not options.mirror, agent=name, env=env).run(
        sys.stdin.fileno(), sys.stdout.buffer
    )
