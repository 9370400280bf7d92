"""Connecting agent programs: what is written, that it is written once, and that undo removes exactly that."""

from __future__ import annotations

import io
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.serving import Server
from toolcards import connect
from toolcards.connect.claude_code import HOLD, KEY, TIMEOUT
from toolcards.models import AgentKey

CLAUDE, OPENCODE = connect.recipe("claude-code"), connect.recipe("opencode")
OTHERS = {
    "model": "opus",
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./mine.sh"}]}]},
    "env": {"EDITOR": "vi"},
}


@pytest.fixture
def wish(tmp_path: Path) -> connect.Wish:
    return connect.Wish(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


def settings(wish: connect.Wish) -> Path:
    path = wish.home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


# ---------------------------------------------------------------- Claude Code's settings


def test_gating_hooks_block_when_they_fail_and_outlast_our_hold(wish: connect.Wish) -> None:
    connect.write(CLAUDE.plan(wish))
    said = json.loads(settings(wish).read_text())
    for event in ("PreToolUse", "PermissionRequest"):
        (entry,) = said["hooks"][event]
        (hook,) = entry["hooks"]
        assert (entry["matcher"], hook["onFailure"], hook["timeout"]) == ("*", "block", TIMEOUT)
        assert f"limit={HOLD}" in hook["url"] and HOLD < TIMEOUT
        assert hook["headers"] == {"Authorization": f"Bearer ${KEY}"}
    assert "onFailure" not in said["hooks"]["PostToolUse"][0]["hooks"][0]
    assert "SessionStart" not in said["hooks"]
    assert said["env"] == {KEY: wish.key}


def test_a_file_that_holds_a_key_is_its_owners_alone(wish: connect.Wish) -> None:
    settings(wish).write_text("{}")
    settings(wish).chmod(0o644)
    connect.write(CLAUDE.plan(wish))
    assert stat.S_IMODE(settings(wish).stat().st_mode) == 0o600


def test_connecting_twice_is_connecting_once(wish: connect.Wish) -> None:
    settings(wish).write_text(json.dumps(OTHERS, indent=2))
    connect.write(CLAUDE.plan(wish))
    assert not any(change.needed for change in CLAUDE.plan(wish))
    assert not any(change.needed for change in CLAUDE.plan(connect.Wish(wish.url, "", None, wish.home)))


def test_another_address_replaces_the_one_before(wish: connect.Wish) -> None:
    connect.write(CLAUDE.plan(wish))
    connect.write(CLAUDE.plan(connect.Wish("http://127.0.0.1:9", wish.key, None, wish.home)))
    said = json.loads(settings(wish).read_text())
    assert [hook["url"].split("/api")[0] for entry in said["hooks"]["Stop"] for hook in entry["hooks"]] == [
        "http://127.0.0.1:9"
    ]


@pytest.mark.parametrize("indent", [2, 4, "\t", None], ids=["two", "four", "tab", "one line"])
@pytest.mark.parametrize("end", ["", "\n"], ids=["no newline", "newline"])
@pytest.mark.parametrize("before", [OTHERS, {}, {"env": {"A": ""}, "permissions": {"deny": []}}, {"a": "é\u2028"}])
def test_undo_gives_back_what_was_there(wish: connect.Wish, before: Any, indent: Any, end: str) -> None:
    text = json.dumps(before, indent=indent, ensure_ascii=False) + end
    settings(wish).write_text(text)
    connect.write(CLAUDE.plan(wish))
    assert wish.key in settings(wish).read_text()
    connect.write(CLAUDE.undo(wish))
    if before and indent is not None:
        assert settings(wish).read_text() == text
    elif settings(wish).exists():
        assert json.loads(settings(wish).read_text()) == before
    else:
        assert before == {}


def test_undo_leaves_what_others_added_meanwhile(wish: connect.Wish) -> None:
    connect.write(CLAUDE.plan(wish))
    said = json.loads(settings(wish).read_text())
    said["hooks"]["PreToolUse"].append(OTHERS["hooks"]["PreToolUse"][0])  # type: ignore[index]
    settings(wish).write_text(json.dumps(said))
    connect.write(CLAUDE.undo(wish))
    assert json.loads(settings(wish).read_text()) == {"hooks": OTHERS["hooks"]}  # type: ignore[index]


def test_undo_of_nothing_is_nothing(wish: connect.Wish) -> None:
    assert not any(change.needed for change in CLAUDE.undo(wish))
    settings(wish).write_text('{ "odd":  "layout" }')
    assert not any(change.needed for change in CLAUDE.undo(wish))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a":1,"a":2}', "// a note\n{}", '{"hooks": []}', '{"hooks": {"Stop": {}}}']
)
def test_a_file_that_cannot_be_read_is_not_touched(wish: connect.Wish, text: str) -> None:
    settings(wish).write_text(text)
    with pytest.raises(connect.Unreadable):
        CLAUDE.plan(wish)
    assert settings(wish).read_text() == text


def test_a_diff_shows_no_key(wish: connect.Wish) -> None:
    diff = "".join(change.diff() for change in CLAUDE.plan(wish))
    assert "+" in diff and wish.key not in diff and "tck_…" in diff


def test_a_linked_file_stays_a_link(wish: connect.Wish) -> None:
    real = wish.home / "dotfiles.json"
    real.write_text("{}")
    settings(wish).symlink_to(real)
    connect.write(CLAUDE.plan(wish))
    assert settings(wish).is_symlink() and "hooks" in json.loads(real.read_text())


def test_a_project_keeps_its_key_out_of_what_is_shared(wish: connect.Wish, tmp_path: Path) -> None:
    (change,) = CLAUDE.plan(connect.Wish(wish.url, wish.key, tmp_path / "project", tmp_path))
    assert change.path == tmp_path / "project" / ".claude" / "settings.local.json"


# ---------------------------------------------------------------- opencode's plug-in


def test_the_plug_in_knows_server_and_key(wish: connect.Wish) -> None:
    connect.write(OPENCODE.plan(wish))
    path = wish.home / ".config" / "opencode" / "plugin" / "toolcards.js"
    assert f'"url": "{wish.url}", "key": "{wish.key}"' in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert OPENCODE.key_in(wish) == wish.key
    assert not any(change.needed for change in OPENCODE.plan(wish))
    connect.write(OPENCODE.undo(wish))
    assert not path.exists()


def test_somebody_elses_plug_in_is_not_touched(wish: connect.Wish) -> None:
    path = wish.home / ".config" / "opencode" / "plugin" / "toolcards.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = async () => ({})")
    with pytest.raises(connect.Unreadable):
        OPENCODE.plan(wish)
    assert not any(change.needed for change in OPENCODE.undo(wish))


# ---------------------------------------------------------------- what pages say


@pytest.mark.parametrize("recipe", connect.recipes(), ids=lambda recipe: recipe.name)
def test_a_recipe_says_what_it_can_do(recipe: connect.Recipe) -> None:
    assert recipe.command == f"toolcards connect {recipe.name}"
    assert recipe.undo_command.endswith("--undo")
    assert recipe.fails in {"closed", "open"}
    assert recipe.when_away and recipe.title and recipe.version
    assert {recipe.can.observe, recipe.can.gate} == {"yes"}


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), default_effect="ask") as running:
        yield running


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def ran(*words: str) -> str:
    out = io.StringIO()
    call_command("connect", *words, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_command_ends_when_its_probe_was_held_and_released(server: Server, at_home: Path) -> None:
    from tests.clients import gating

    def approve() -> None:
        (run,) = [run["run"] for run in waited() if run["run"].startswith("toolcards-probe-")]
        gating.vote(server, run, "approve")

    def waited() -> Any:
        from tests.serving import until

        return until(lambda: server.get("/api/v1/runs?status=waiting")["runs"], 20)

    somebody = threading.Thread(target=approve)
    somebody.start()
    said = ran("claude-code", "--yes", "--url", server.base, "--key", server.key, "--wait", "60")
    somebody.join()
    assert "held, approved and released" in said
    assert "+++" in said and server.key not in said
    assert "nothing to do" in ran("claude-code", "--yes", "--url", server.base, "--no-wait")
    assert "* claude-code" in ran("list")
    assert "Removed" in ran("claude-code", "--undo", "--yes")
    assert not (at_home / ".claude" / "settings.json").exists()
    assert "not connected" in ran("claude-code", "--undo", "--yes")


@pytest.mark.django_db
def test_on_the_servers_machine_a_key_is_made_and_taken_back(server: Server, at_home: Path) -> None:
    with pytest.raises(CommandError, match="does not take this key"):  # the test's own database is not the server's
        ran("opencode", "--yes", "--url", server.base, "--no-wait")
    (key,) = AgentKey.objects.filter(source__name="opencode")
    assert (key.revoked_at, key.scopes) == (None, "ingest decide result read")
    ran("opencode", "--undo", "--yes")
    key.refresh_from_db()
    assert key.revoked_at is not None


@pytest.mark.django_db
def test_without_a_server_nothing_is_written(at_home: Path) -> None:
    with pytest.raises(CommandError, match="There is no Toolcards"):
        ran("claude-code", "--yes", "--url", "http://127.0.0.1:9")
    assert not (at_home / ".claude").exists()
    assert not AgentKey.objects.exists()


@pytest.mark.django_db
def test_a_dry_run_and_a_no_leave_nothing_behind(
    server: Server, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert "---" in ran("claude-code", "--dry-run", "--url", server.base)
    assert "Nothing was written" in ran("claude-code", "--url", server.base)
    assert not (at_home / ".claude").exists()
    assert not AgentKey.objects.exists()


@pytest.mark.django_db
def test_a_key_the_server_does_not_know_is_said(server: Server, at_home: Path) -> None:
    with pytest.raises(CommandError, match="does not take this key"):
        ran("claude-code", "--yes", "--url", server.base, "--key", "tck_nobodys")
