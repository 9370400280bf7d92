"""The `toolcards-client` command, for computers without a server. Its commands need no Django."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata

import toolcards
from toolcards.connect import command

PROGRAM = "toolcards-client"


def main() -> None:
    """Run the command named on the command line."""
    name, arguments = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if name == "acp":
        from toolcards.acp import main as run_acp

        raise SystemExit(run_acp(arguments, PROGRAM))
    if name == "mcp":
        from toolcards.mcp import main as run_mcp

        raise SystemExit(run_mcp(arguments, PROGRAM))
    if name == "hook":
        from toolcards.hook_relay import main as run_hook

        raise SystemExit(run_hook(arguments, PROGRAM))
    if name == "approvals":
        from toolcards.terminal import main as run_approvals

        raise SystemExit(run_approvals(arguments, PROGRAM))
    if name == "connect":
        raise SystemExit(run_connect(arguments))
    if name in {"--version", "version"}:
        print(f"toolcards-client {_find_version()}")  # noqa: T201
        return
    is_asked = name in {"", "help", "-h", "--help"}
    print(_HELP if is_asked else f"toolcards-client has no command {name!r}.\n\n{_HELP}")  # noqa: T201
    raise SystemExit(0 if is_asked else 2)


def run_connect(arguments: Sequence[str]) -> int:
    """Run `connect` with the key of another computer's server.

    Return the exit code.
    """
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} connect", description=command.ABOUT)
    command.add_arguments(parser, command.DEFAULT_ADDRESS)
    try:
        command.run_connect(parser.parse_args(arguments), command.NoKeyStore(), print)
    except command.ConnectFailed as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _find_version() -> str:
    """Return the version of the distribution; of the server's package where the command comes with it."""
    try:
        return metadata.version("toolcards-client")
    except metadata.PackageNotFoundError:
        return toolcards.__version__


_HELP = f"""\
usage: toolcards-client COMMAND

  connect  {command.ABOUT}
  hook     Relay one hook of a coding agent; `connect` writes this command.
  acp      Run as a proxy between an editor and an agent (Agent Client Protocol).
  mcp      Run as a gateway between an MCP client and an MCP server: hold each tool call for a decision.
  approvals  List, watch and answer the calls that wait for a person, with a personal token.

Each command has --help. Create the key for --key on the server: Sources, or its Connect page."""


if __name__ == "__main__":
    main()
