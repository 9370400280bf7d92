"""Connecting MCP servers: what changes in a client's configuration, and that undo restores every byte."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcards import connect
from toolcards.connect.base import find_command

MCP = connect.get_recipe("mcp")
CONFIG = """{
  // by hand
  "theme": "dark",
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "server-files", "/a \\"b\\""], "env": {"TOKEN": "x"} },
    "bare": {"command": "bare-server"},
    "empty": {"args": [ ], "command": "empty-server", "disabled": true},
    "remote": {"url": "https://example.com/mcp"},
  },
}
"""


@pytest.fixture
def target(tmp_path: Path) -> connect.Target:
    config = tmp_path / "mcp.json"
    config.write_text(CONFIG)
    return connect.Target(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path, config=config)


def read_servers(path: Path) -> dict[str, Any]:
    text = path.read_text().replace("// by hand", "").replace("},\n}", "}\n}").replace("},\n  }", "}\n  }")
    servers: dict[str, Any] = json.loads(text)["mcpServers"]
    return servers


def test_each_command_gets_the_gateway_before_it_and_the_rest_stays(target: connect.Target) -> None:
    assert target.config is not None
    connect.write_changes(MCP.plan(target))
    servers = read_servers(target.config)
    assert {entry.get("command") for entry in servers.values()} == {find_command()[0], None}
    for name, command in {
        "files": ["npx", "-y", "server-files", '/a "b"'], "bare": ["bare-server"], "empty": ["empty-server"],
    }.items():  # fmt: skip
        args = servers[name]["args"]
        assert args[args.index("--") + 1 :] == command and args[args.index("--server") + 1] == name
    assert servers["files"]["env"] == {"TOKEN": "x"} and servers["empty"]["disabled"] is True
    assert servers["remote"] == {"url": "https://example.com/mcp"} and "// by hand" in target.config.read_text()
    assert MCP.find_warning is not None and "remote" in MCP.find_warning(target)


def test_the_key_is_in_a_file_of_its_own(target: connect.Target) -> None:
    connect.write_changes(MCP.plan(target))
    (key_file,) = target.home.glob(".config/toolcards/keys/*.key")
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600 and MCP.read_key(target) == target.key
    assert target.config is not None and target.key not in target.config.read_text()
    assert str(key_file) in target.config.read_text()


def test_undo_restores_every_byte_also_after_connecting_to_another_server(target: connect.Target) -> None:
    connect.write_changes(MCP.plan(target))
    assert not any(change.is_needed for change in MCP.plan(replace(target, key="")))
    connect.write_changes(MCP.plan(replace(target, url="http://127.0.0.1:9")))
    assert target.config is not None
    assert target.config.read_text().count("127.0.0.1:9") == 3 and ":8123" not in target.config.read_text()
    connect.write_changes(MCP.undo(target))
    assert target.config.read_text() == CONFIG and not list(target.home.rglob("*.key"))


def test_a_server_that_was_added_later_is_wrapped_and_one_that_was_edited_is_unwrapped(target: connect.Target) -> None:
    assert target.config is not None
    connect.write_changes(MCP.plan(target))
    text = target.config.read_text().replace('"bare-server"]', '"bare-server", "--verbose"]')
    target.config.write_text(text.replace('"remote": {', '"new": {"command": "new-server"},\n    "remote": {'))
    connect.write_changes(MCP.plan(target))
    assert "new-server" in read_servers(target.config)["new"]["args"]
    connect.write_changes(MCP.undo(target))
    servers = read_servers(target.config)
    assert servers["new"] == {"command": "new-server"}
    assert servers["bare"] == {"command": "bare-server", "args": ["--verbose"]}


def test_without_a_name_the_files_that_exist_are_connected(target: connect.Target, tmp_path: Path) -> None:
    for place in (tmp_path / ".cursor", tmp_path / "project"):
        place.mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    (tmp_path / "project" / ".mcp.json").write_text('{"mcpServers": {"b": {"command": "y"}}}')
    account = replace(target, config=None)
    assert [change.path.name for change in MCP.plan(account) if change.is_needed][1:] == ["mcp.json"]
    project = replace(account, project=tmp_path / "project")
    assert [change.path.name for change in MCP.plan(project) if change.is_needed][1:] == [".mcp.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [("{", "could not be parsed"), ('{"mcpServers": {"a": 1, "a": 2}}', "twice"), ("{} {}", "could not be parsed"),
     ('{"mcpServers": {}}', "No MCP server"), ('{"mcpServers": {"r": {"url": "u"}}}', "No MCP server"), ("", "No MCP")],
)  # fmt: skip
def test_a_file_that_cannot_be_connected_is_not_touched(target: connect.Target, text: str, why: str) -> None:
    assert target.config is not None
    target.config.write_text(text)
    with pytest.raises(connect.Unreadable, match=why):
        MCP.plan(target)
    assert target.config.read_text() == text


def test_a_file_that_does_not_exist_is_named(target: connect.Target) -> None:
    with pytest.raises(connect.Unreadable, match="File not found"):
        MCP.plan(replace(target, config=target.home / "nowhere.json"))


def test_the_gateway_denies_without_a_server(target: connect.Target) -> None:
    assert MCP.probe_offline is not None and MCP.probe_offline(target) == ""
    connect.write_changes(MCP.plan(target))
    assert "gave no decision" in MCP.probe_offline(target)


def test_the_servers_of_roo_code_in_a_project_are_held_and_its_own_settings_stay(tmp_path: Path) -> None:
    path = tmp_path / "shop" / ".roo" / "mcp.json"
    path.parent.mkdir(parents=True)
    entry = {"command": "npx", "args": ["-y", "server-files"], "alwaysAllow": ["read_file"], "disabled": False}
    before = json.dumps({"mcpServers": {"files": entry}}, indent=2)
    path.write_text(before)
    target = connect.Target("http://127.0.0.1:8123", "tck_the_key_of_a_test", tmp_path / "shop", tmp_path)
    connect.write_changes(MCP.plan(target))
    server_entry = json.loads(path.read_text())["mcpServers"]["files"]
    assert server_entry["command"] == find_command()[0] and server_entry["args"][-3:] == ["npx", "-y", "server-files"]
    assert (server_entry["alwaysAllow"], server_entry["disabled"]) == (["read_file"], False)
    connect.write_changes(MCP.undo(target))
    assert path.read_text() == before
