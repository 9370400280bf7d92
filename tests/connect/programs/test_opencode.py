"""Connecting opencode: the plugin file, and its key in a file of its own."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace

import pytest

from tests.support.connecting import OPENCODE
from toolcards import connect


def test_the_plug_in_knows_the_server_and_where_the_key_is(target: connect.Target) -> None:
    connect.write_changes(OPENCODE.plan(target))
    path = target.home / ".config" / "opencode" / "plugin" / "toolcards.js"
    key_path = target.home / ".config" / "toolcards" / "keys" / "opencode.key"
    assert f'"url": "{target.url}", "keyFile": "{key_path}"' in path.read_text()
    assert target.key not in path.read_text() and key_path.read_text().strip() == target.key
    assert stat.S_IMODE(key_path.stat().st_mode) == 0o600
    assert OPENCODE.read_key(target) == target.key
    assert not any(change.is_needed for change in OPENCODE.plan(target))
    connect.write_changes(OPENCODE.undo(target))
    assert not path.exists() and not key_path.exists()


def test_a_key_that_an_earlier_version_wrote_into_the_plug_in_moves_out_of_it(target: connect.Target) -> None:
    connect.write_changes(OPENCODE.plan(target))
    path = target.home / ".config" / "opencode" / "plugin" / "toolcards.js"
    key_path = target.home / ".config" / "toolcards" / "keys" / "opencode.key"
    path.write_text(path.read_text().replace(f'"keyFile": "{key_path}"', '"key": "tck_of_an_earlier_version"'))
    key_path.unlink()
    changes = OPENCODE.plan(replace(target, key=""))
    assert "tck_of_an_earlier_version" not in "".join(change.diff() for change in changes)
    connect.write_changes(changes)
    assert "tck_" not in path.read_text() and OPENCODE.read_key(target) == "tck_of_an_earlier_version"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="not here: Node.js")
def test_without_its_key_file_the_plug_in_runs_nothing(target: connect.Target) -> None:
    connect.write_changes(OPENCODE.plan(target))
    (target.home / ".config" / "toolcards" / "keys" / "opencode.key").unlink()
    assert OPENCODE.probe_offline is not None and "could not be reached" in OPENCODE.probe_offline(target)


def test_a_foreign_plugin_is_not_changed(target: connect.Target) -> None:
    path = target.home / ".config" / "opencode" / "plugin" / "toolcards.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = async () => ({})")
    with pytest.raises(connect.Unreadable):
        OPENCODE.plan(target)
    assert not any(change.is_needed for change in OPENCODE.undo(target))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="not here: Node.js")
def test_opencodes_plug_in_runs_nothing_without_a_server(target: connect.Target) -> None:
    assert OPENCODE.probe_offline is not None
    assert OPENCODE.probe_offline(target) == ""
    connect.write_changes(OPENCODE.plan(target))
    assert "could not be reached" in OPENCODE.probe_offline(target)
