"""The command line of the gateway."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from toolcards.client import Toolcards
from toolcards.client.common.canonical_json import digest
from toolcards.mcp.elicitation import AUTO, MODES
from toolcards.mcp.http.proxy import serve
from toolcards.mcp.http.sessions import GatewaySessions
from toolcards.mcp.session import Session
from toolcards.mcp.stdio.relay import StdioRelay

ABOUT = "Run as a gateway between an MCP client and an MCP server: hold each tool call for a decision."
NOTE = "The address and key may also come from TOOLCARDS_URL and TOOLCARDS_AGENT_KEY."
RUNNERS = {"npx", "bunx", "pnpx", "uvx", "uv", "pipx", "node", "deno", "bun", "python", "python3", "docker", "podman"}
CONTAINER_RUNNERS = {"docker", "podman"}
# Their options that take the next word as a value.
CONTAINER_OPTIONS = frozenset({
    "-e", "--env", "--env-file", "-v", "--volume", "--mount", "-p", "--publish", "--name", "--network", "--net", "-w",
    "--workdir", "-u", "--user", "--entrypoint", "--platform", "-l", "--label", "-h", "--hostname", "--add-host",
})  # fmt: skip
MAX_PORT = 65_535
ANSWER_WITHIN = 45.0  # seconds; clients with the TypeScript SDK give up after 60
SUBCOMMANDS = {"run", "exec", "tool", "dlx"}


def main(argv: Sequence[str], program: str = "toolcards") -> int:
    """Run the gateway until one side ends; return the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} mcp", description=ABOUT, epilog=NOTE,
        usage="%(prog)s [options] -- server command\n       %(prog)s [options] --upstream URL",
    )  # fmt: skip
    parser.add_argument("--url", default="", help="the address of the Toolcards server")
    parser.add_argument("--key", default="", help="an agent key; the environment variable is safer")
    parser.add_argument("--key-file", type=Path, help="a file with the agent key")
    parser.add_argument("--server", default="", help="the MCP server's name in policies and on cards")
    parser.add_argument("--agent", default="", help="the agent's name; without it, the name of the client")
    parser.add_argument(
        "--elicitation", choices=MODES, default=AUTO,
        help="where forms of the server are answered; auto: in the inbox if the client cannot show them",
    )  # fmt: skip
    parser.add_argument(
        "--answer-within", type=float, default=ANSWER_WITHIN, metavar="SECONDS",
        help="after which a call that waits for a person answers that the agent asks again; 0: never",
    )  # fmt: skip
    parser.add_argument(
        "--upstream", default="", metavar="URL", help="the address of an MCP server that speaks streamable HTTP"
    )
    parser.add_argument("--listen", default="127.0.0.1:8931", help="host:port for clients of --upstream")
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME=VARIABLE",
        help="send a header to the upstream server, with the value of an environment variable",
    )  # fmt: skip
    parser.add_argument("--by", default="", help=argparse.SUPPRESS)  # marks what `connect` wrote
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- server command")
    options = parser.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if bool(command) == bool(options.upstream):
        parser.error("name either the server's command after --, or its address with --upstream")
    try:
        key = options.key_file.read_text("utf-8").strip() if options.key_file else options.key
        cards = Toolcards(options.url, key)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not 0 <= options.answer_within < math.inf:
        parser.error("--answer-within must be a number of seconds")
    if options.upstream:
        return _serve_http(parser, options, cards)
    if shutil.which(command[0]) is None:
        parser.error(f"program not found: {command[0]!r}")
    server = options.server or derive_name(command)
    session = Session(
        cards, server=server, agent=options.agent, elicitation=options.elicitation, answer_within=options.answer_within,
        place=name_place(str(Path.cwd()), *command),
    )  # fmt: skip
    env = {key: value for key, value in os.environ.items() if key != "TOOLCARDS_AGENT_KEY"}
    return StdioRelay(session, command, env).run(sys.stdin.fileno(), sys.stdout.buffer)


def derive_name(command: Sequence[str]) -> str:
    """Return a server's name from its command.

    It is the package or script after `npx`, `uvx`, `python` and the like.
    """
    program = PurePath(command[0]).name
    takes_value = CONTAINER_OPTIONS if program in CONTAINER_RUNNERS else frozenset[str]()
    words = [
        word
        for before, word in itertools.pairwise(command)
        if not word.startswith("-") and word not in SUBCOMMANDS and before not in takes_value
    ]
    name = PurePath(words[0]).name if program in RUNNERS and words else program
    version = name.rfind("@")
    return (name[:version] if version > 0 else name).removesuffix(".py").removesuffix(".js") or "mcp"


def name_place(*words: str) -> str:
    """Return a name for this computer and these words.

    They say where the calls of a gateway work. The next one that is started there has the same name, so its calls get
    the answers to those of this one.
    """
    return f"mcp-{digest([platform.node(), *words])[:32]}"


def _serve_http(parser: argparse.ArgumentParser, options: argparse.Namespace, cards: Toolcards) -> int:
    host_name = _read_host_name(options.upstream)
    if not host_name:
        parser.error("--upstream must be an address such as https://example.com/mcp")
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        parser.error("--listen must be host:port")
    headers: dict[str, str] = {}
    for each in options.header:
        name, _, variable = each.partition("=")
        if not name or not os.environ.get(variable):
            parser.error(f"--header {name}: the environment variable {variable!r} is not set")
        headers[name] = os.environ[variable]
    server = options.server or host_name
    place = name_place(options.upstream, options.listen, *sorted(headers))
    sessions = GatewaySessions(cards, server, options.agent, options.elicitation, options.answer_within, place)
    return serve(sessions, options.upstream, (host.strip("[]"), int(port)), headers)


def _read_host_name(address: str) -> str:
    """Return the host of an HTTP address, "" of any other text."""
    try:
        parts = urlsplit(address)
        return (parts.hostname or "") if parts.scheme in {"http", "https"} and parts.port != 0 else ""
    except ValueError:  # a malformed port or IPv6 address
        return ""
