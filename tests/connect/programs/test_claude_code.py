"""Connecting Claude Code: what is written to its settings, once, and that undo removes exactly that."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.connecting import CLAUDE
from toolcards import connect
from toolcards.connect.programs.claude_code import HOLD, OLD_KEY, TIMEOUT

OTHERS = {
    "model": "opus",
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./mine.sh"}]}]},
    "env": {"EDITOR": "vi"},
}


def key_file(target: connect.Target) -> Path:
    return target.home / ".config" / "toolcards" / "keys" / "claude-code.key"


def settings(target: connect.Target) -> Path:
    path = target.home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


# ---------------------------------------------------------------- Claude Code's settings
def test_gating_hooks_block_when_they_fail_and_outlast_our_hold(target: connect.Target) -> None:
    connect.write_changes(CLAUDE.plan(target))
    payload = json.loads(settings(target).read_text())
    for event in ("PreToolUse", "PermissionRequest"):
        (entry,) = payload["hooks"][event]
        (hook,) = entry["hooks"]
        assert (entry["matcher"], hook["type"], hook["onFailure"], hook["timeout"]) == (
            "*",
            "command",
            "block",
            TIMEOUT,
        )
        assert f"hook claude-code --url {target.url} --key-file {key_file(target)} --limit {HOLD}" in hook["command"]
        assert HOLD < TIMEOUT and hook["command"].endswith("exit 2; }") and target.key not in hook["command"]
    assert "SessionStart" not in payload["hooks"]
    assert "env" not in payload and target.key not in settings(target).read_text()
    assert key_file(target).read_text() == f"{target.key}\n"


def test_hooks_that_only_tell_give_up_after_a_second_and_have_a_name_to_be_shown_by(target: connect.Target) -> None:
    connect.write_changes(CLAUDE.plan(target))
    hooks = json.loads(settings(target).read_text())["hooks"]
    for event in set(hooks) - {"PreToolUse", "PermissionRequest"}:
        ((hook,),) = [entry["hooks"] for entry in hooks[event]]
        assert (hook["type"], hook["timeout"], hook["statusMessage"]) == ("command", 3, "Reporting to Toolcards"), event
        assert f"--key-file {key_file(target)}" in hook["command"] and "onFailure" not in hook


def test_a_key_that_an_earlier_version_wrote_moves_out_of_the_environment(target: connect.Target) -> None:
    settings(target).write_text(json.dumps({"env": {OLD_KEY: "tck_from_an_earlier_version", "EDITOR": "vi"}}))
    connect.write_changes(CLAUDE.plan(connect.Target(target.url, "", None, target.home)))
    assert json.loads(settings(target).read_text())["env"] == {"EDITOR": "vi"}
    assert key_file(target).read_text() == "tck_from_an_earlier_version\n"


def test_a_gating_hook_that_cannot_be_started_blocks(target: connect.Target) -> None:
    """Toolcards was moved, or its Python is gone: the shell says so with the exit code that blocks."""
    connect.write_changes(CLAUDE.plan(target))
    command = json.loads(settings(target).read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    first = command.partition(" ")[0]
    completed = subprocess.run(
        ["/bin/sh", "-c", command.replace(first, "/nowhere/toolcards", 1)], capture_output=True, text=True
    )
    assert completed.returncode == 2 and "could not run" in completed.stderr


def test_a_file_that_holds_a_key_is_its_owners_alone(target: connect.Target) -> None:
    key_file(target).parent.mkdir(parents=True)
    key_file(target).write_text("tck_another\n")
    key_file(target).chmod(0o644)
    connect.write_changes(CLAUDE.plan(target))
    assert stat.S_IMODE(key_file(target).stat().st_mode) == 0o600


def test_connecting_twice_is_connecting_once(target: connect.Target) -> None:
    settings(target).write_text(json.dumps(OTHERS, indent=2))
    connect.write_changes(CLAUDE.plan(target))
    assert not any(change.is_needed for change in CLAUDE.plan(target))
    assert not any(change.is_needed for change in CLAUDE.plan(connect.Target(target.url, "", None, target.home)))


def test_another_address_replaces_the_one_before(target: connect.Target) -> None:
    connect.write_changes(CLAUDE.plan(target))
    connect.write_changes(CLAUDE.plan(connect.Target("http://127.0.0.1:9", target.key, None, target.home)))
    payload = json.loads(settings(target).read_text())
    (command,) = [hook["command"] for entry in payload["hooks"]["Stop"] for hook in entry["hooks"]]
    assert "--url http://127.0.0.1:9 " in command


@pytest.mark.parametrize("indent", [2, 4, "\t", None], ids=["two", "four", "tab", "one line"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["no newline", "newline"])
@pytest.mark.parametrize("before", [OTHERS, {}, {"env": {"A": ""}, "permissions": {"deny": []}}, {"a": "é\u2028"}])
def test_undo_gives_back_what_was_there(target: connect.Target, before: Any, indent: Any, end: str) -> None:
    text = json.dumps(before, indent=indent, ensure_ascii=False) + end
    settings(target).write_text(text)
    connect.write_changes(CLAUDE.plan(target))
    assert "hook claude-code" in settings(target).read_text() and key_file(target).exists()
    connect.write_changes(CLAUDE.undo(target))
    assert not key_file(target).parents[1].exists()
    if before and indent is not None:
        assert settings(target).read_text() == text
    elif settings(target).exists():
        assert json.loads(settings(target).read_text()) == before
    else:
        assert before == {}


def test_line_ends_of_windows_stay(target: connect.Target) -> None:
    text = json.dumps(OTHERS, indent=2).replace("\n", "\r\n") + "\r\n"
    settings(target).write_bytes(text.encode())
    connect.write_changes(CLAUDE.plan(target))
    content = settings(target).read_bytes()
    assert b"hook claude-code" in content and content.count(b"\n") == content.count(b"\r\n")
    connect.write_changes(CLAUDE.undo(target))
    assert settings(target).read_bytes().decode() == text


def test_what_a_program_wrote_meanwhile_is_not_overwritten(target: connect.Target) -> None:
    """A person confirms a diff; Claude Code stores a permission before the answer."""
    changes = CLAUDE.plan(target)
    settings(target).write_text('{"permissions": {"allow": ["Bash(ls)"]}}')
    with pytest.raises(connect.Unwritable, match="Try again"):
        connect.write_changes(changes)
    assert settings(target).read_text() == '{"permissions": {"allow": ["Bash(ls)"]}}' and not key_file(target).exists()
    connect.write_changes(CLAUDE.plan(target))
    assert json.loads(settings(target).read_text())["permissions"] == {"allow": ["Bash(ls)"]}


def test_a_file_that_cannot_be_written_is_named_and_leaves_no_parts(
    target: connect.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(connect.Unwritable, match=r"claude-code\.key cannot be written: .*No space left"):
        connect.write_changes(CLAUDE.plan(target))
    assert list(key_file(target).parent.iterdir()) == [] and not settings(target).exists()


def test_undo_leaves_what_others_added_meanwhile(target: connect.Target) -> None:
    connect.write_changes(CLAUDE.plan(target))
    payload = json.loads(settings(target).read_text())
    payload["hooks"]["PreToolUse"].append(OTHERS["hooks"]["PreToolUse"][0])  # type: ignore[index]
    settings(target).write_text(json.dumps(payload))
    connect.write_changes(CLAUDE.undo(target))
    assert json.loads(settings(target).read_text()) == {"hooks": OTHERS["hooks"]}  # type: ignore[index]


def test_undo_of_nothing_is_nothing(target: connect.Target) -> None:
    assert not any(change.is_needed for change in CLAUDE.undo(target))
    settings(target).write_text('{ "odd":  "layout" }')
    assert not any(change.is_needed for change in CLAUDE.undo(target))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"a":1,"a":2}',
        "// a note\n{}",
        '{"a": 1e400}',
        '{"a": NaN}',
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
    ],
)
def test_a_file_that_cannot_be_read_is_not_touched(target: connect.Target, text: str) -> None:
    settings(target).write_text(text)
    with pytest.raises(connect.Unreadable):
        CLAUDE.plan(target)
    assert settings(target).read_text() == text


def test_a_diff_shows_no_key(target: connect.Target) -> None:
    diff = "".join(change.diff() for change in CLAUDE.plan(target))
    assert "+" in diff and target.key not in diff and "tck_…" in diff


def test_a_linked_file_stays_a_link(target: connect.Target) -> None:
    real = target.home / "dotfiles.json"
    real.write_text("{}")
    settings(target).symlink_to(real)
    connect.write_changes(CLAUDE.plan(target))
    assert settings(target).is_symlink() and "hooks" in json.loads(real.read_text())


def test_a_project_keeps_its_key_out_of_what_is_shared(target: connect.Target, tmp_path: Path) -> None:
    key, change = CLAUDE.plan(connect.Target(target.url, target.key, tmp_path / "project", tmp_path))
    assert change.path == tmp_path / "project" / ".claude" / "settings.local.json"
    assert key.path.parent == key_file(target).parent and key.path != key_file(target)


# ---------------------------------------------------------------- what programs do without a server
def a_claude(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_claude_code_is_closed_by_its_hook_and_its_settings(
    target: connect.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CLAUDE.probe_offline is not None and CLAUDE.find_warning is not None
    a_claude(tmp_path, "2.1.329", monkeypatch)
    assert CLAUDE.probe_offline(target) == ""  # not connected
    connect.write_changes(CLAUDE.plan(target))
    assert "gave no valid answer" in CLAUDE.probe_offline(target)
    assert CLAUDE.find_warning(target) == ""
    settings(target).write_text(settings(target).read_text().replace('"onFailure": "block"', '"onFailure": "allow"'))
    assert CLAUDE.probe_offline(target) == ""


@pytest.mark.parametrize(("version", "text"), [("2.1.294", "Update it"), ("", "`claude` is not on the PATH")])
def test_a_version_that_runs_a_tool_whose_hook_takes_too_long_is_said(
    target: connect.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, text: str
) -> None:
    assert CLAUDE.probe_offline is not None and CLAUDE.find_warning is not None
    if version:
        a_claude(tmp_path, version, monkeypatch)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    connect.write_changes(CLAUDE.plan(target))
    assert text in CLAUDE.find_warning(target)
