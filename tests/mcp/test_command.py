"""The command line of the gateway: names, and mistakes that end with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables import loop_over
from toolcards.mcp.command import derive_name, main


@loop_over(("command", "name"), [
    ("npx -y @modelcontextprotocol/server-filesystem /home/me", "server-filesystem"),
    ("npx -y @scope/shop@1.2.3", "shop"),
    ("npx shop@latest", "shop"), ("uvx mcp-server-git --repository /srv", "mcp-server-git"),
    ("pipx run shop-mcp", "shop-mcp"),
    ("python -m mcp_server_fetch", "mcp_server_fetch"), ("/usr/bin/python3 /srv/weather.py", "weather"),
    ("node build/index.js", "index"),
    ("uv --directory /srv/weather run server.py", "weather"), ("bunx dlx shop", "shop"),
    ("docker run -i --rm ghcr.io/github/github-mcp-server", "github-mcp-server"),
    ("docker run -i --rm -e GITHUB_TOKEN --env A=1 -v /srv:/data mcp/fetch --flag", "fetch"),
    ("podman run --env=A=1 mcp/fetch", "fetch"),
    ("/opt/shop/bin/shop-mcp --port 1", "shop-mcp"), ("./server.py", "server"), ("npx", "npx"),
    ("docker run", "docker"), ("run", "run"),
    ("tool exec", "tool"), ("@scope", "@scope"), ("shop -e KEY other", "shop"), ("npx -e KEY", "KEY"), (".py", "mcp"),
])  # fmt: skip
def test_a_servers_name_comes_from_its_command(command: str, name: str) -> None:
    assert derive_name(command.split()) == name


def fail(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return the one line with which the command ends."""
    with pytest.raises(SystemExit) as raised:
        main([*argv])
    assert raised.value.code == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


UPSTREAM = ("--key", "tck_x", "--upstream", "http://127.0.0.1:9/mcp")


@loop_over(("argv", "words"), [
    ((), "name either the server's command after --, or its address"),
    (("--",), "name either"),
    (("--upstream", "http://127.0.0.1:9", "--", "ls"), "name either"),
    (("--url", "no address", "--key", "tck_x", "--", "ls"), "address"),
    (("--key", "tck_x", "--", "no-such-program-here"), "program not found: 'no-such-program-here'"),
    (("--key-file", "/nowhere/at/all", "--", "ls"), "No such file"),
    (("--elicitation", "somewhere", "--", "ls"), "invalid choice"),
    (("--key", "tck_x", "--upstream", "ftp://127.0.0.1/mcp"), "--upstream must be an address"),
    (("--key", "tck_x", "--upstream", "http://"), "--upstream must be an address"),
    (("--key", "tck_x", "--upstream", "http://[::1"), "--upstream must be an address"),
    (("--key", "tck_x", "--upstream", "http://127.0.0.1:99999/"), "--upstream must be an address"),
    (("--key", "tck_x", "--upstream", "http://127.0.0.1:port/"), "--upstream must be an address"),
    ((*UPSTREAM, "--listen", "8931"), "--listen must be host:port"),
    ((*UPSTREAM, "--listen", ":8931"), "--listen must be host:port"),
    ((*UPSTREAM, "--listen", "127.0.0.1:"), "--listen must be host:port"),
    ((*UPSTREAM, "--listen", "127.0.0.1:-1"), "--listen must be host:port"),
    ((*UPSTREAM, "--listen", "127.0.0.1:65536"), "--listen must be host:port"),
    ((*UPSTREAM, "--listen", "127.0.0.1:\u00b2"), "--listen must be host:port"),
    ((*UPSTREAM, "--header", "X-Key=NO_SUCH_VARIABLE_HERE"), "'NO_SUCH_VARIABLE_HERE' is not set"),
    ((*UPSTREAM, "--header", "=PATH"), "--header"),
    ((*UPSTREAM, "--header", "X-Key"), "is not set"),
])  # fmt: skip
def test_a_mistake_ends_with_one_line(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], words: str) -> None:
    assert words in fail(capsys, *argv)


def test_a_key_file_that_is_no_text_ends_with_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    assert "utf-8" in fail(capsys, "--key-file", str(tmp_path / "key"), "--", "ls")


def test_an_address_in_use_ends_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*UPSTREAM, "--listen", "203.0.113.1:1"]) == 1  # an address of documents: no machine has it
    assert "cannot listen on 203.0.113.1:1" in capsys.readouterr().err
