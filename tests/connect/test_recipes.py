"""Connecting agent programs: what is written, that it is written once, and that undo removes exactly that."""

from __future__ import annotations

import io
import json
import re
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.support.server import PATIENCE, Server, with_curl
from tests.support.tables import loop_over
from toolcards import connect
from toolcards.connect import probe as probing
from toolcards.connect.programs.claude_code import HOLD, OLD_KEY, TIMEOUT
from toolcards.models import AgentKey

ROOT = Path(__file__).parents[2]
CLAUDE, OPENCODE = connect.get_recipe("claude-code"), connect.get_recipe("opencode")
OTHERS = {
    "model": "opus",
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./mine.sh"}]}]},
    "env": {"EDITOR": "vi"},
}


@pytest.fixture
def target(tmp_path: Path) -> connect.Target:
    return connect.Target(url="http://127.0.0.1:8123", key="tck_the_key_of_a_test", home=tmp_path)


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
    "text", ["{", "[]", '{"a":1,"a":2}', "// a note\n{}", '{"hooks": []}', '{"hooks": {"Stop": {}}}']
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


# ---------------------------------------------------------------- opencode's plugin


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


# ---------------------------------------------------------------- what pages say


@loop_over("recipe", connect.RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_says_what_it_can_do(recipe: connect.Recipe) -> None:
    assert recipe.command == f"toolcards connect {recipe.name}"
    assert recipe.undo_command.endswith("--undo")
    assert recipe.fails and recipe.when_away and recipe.title and recipe.version and recipe.about
    assert recipe.can.observe == "yes" and recipe.transport in {"hooks", "http", "socket"}


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
    from tests.support import gating

    def approve() -> None:
        (run,) = [run["run"] for run in waited() if run["run"].startswith("toolcards-probe-")]
        gating.vote(server, run, "approve")

    def waited() -> Any:
        from tests.support.server import until

        return until(lambda: server.get("/api/v1/runs?status=waiting")["runs"])

    somebody = threading.Thread(target=approve)
    somebody.start()
    result = ran("claude-code", "--yes", "--url", server.base, "--key", server.key, "--wait", "120")
    somebody.join()
    assert "held, approved and released" in result
    assert "+++" in result and server.key not in result
    assert "Nothing to do" in ran("claude-code", "--yes", "--url", server.base, "--no-wait")
    assert "* claude-code" in ran("list")
    assert "Removed" in ran("claude-code", "--undo", "--yes")
    assert not (at_home / ".claude" / "settings.json").exists()
    assert "not connected" in ran("claude-code", "--undo", "--yes")


@pytest.mark.django_db
def test_on_the_servers_machine_a_key_is_made_and_taken_back(server: Server, at_home: Path) -> None:
    with pytest.raises(CommandError, match="does not accept this key"):  # the test's own database is not the server's
        ran("opencode", "--yes", "--url", server.base, "--no-wait")
    (key,) = AgentKey.objects.filter(source__name="opencode")
    assert (key.revoked_at, key.scopes) == (None, "ingest decide result read")
    ran("opencode", "--undo", "--yes")
    key.refresh_from_db()
    assert key.revoked_at is not None


@pytest.mark.django_db
def test_without_a_server_nothing_is_written(at_home: Path) -> None:
    with pytest.raises(CommandError, match="Cannot reach Toolcards"):
        ran("claude-code", "--yes", "--url", "http://127.0.0.1:9")
    assert not (at_home / ".claude").exists()
    assert not AgentKey.objects.exists()


@pytest.mark.django_db
def test_a_dry_run_and_a_denial_leave_nothing_behind(
    server: Server, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert "---" in ran("claude-code", "--dry-run", "--url", server.base)
    assert "Nothing was written" in ran("claude-code", "--url", server.base)
    assert not (at_home / ".claude").exists()
    assert not AgentKey.objects.exists()


@pytest.mark.django_db
def test_a_key_the_server_does_not_know_is_said(server: Server, at_home: Path) -> None:
    with pytest.raises(CommandError, match="does not accept this key"):
        ran("claude-code", "--yes", "--url", server.base, "--key", "tck_nobodys")


def voted(server: Server, decision: str) -> threading.Thread:
    """Start a thread that answers the probe as soon as it waits."""
    from tests.support import gating
    from tests.support.server import until

    def look() -> Any:
        runs = server.get("/api/v1/runs?status=waiting")["runs"]
        return [run["run"] for run in runs if run["run"].startswith(probing.RUN_PREFIX)]

    somebody = threading.Thread(target=lambda: gating.vote(server, until(look)[0], decision))
    somebody.start()
    return somebody


@pytest.mark.parametrize("vote", ["approve", "deny"])
@pytest.mark.parametrize("transport", ["hooks", "http", "socket"])
def test_a_probe_is_held_on_every_road(server: Server, transport: str, vote: str) -> None:
    somebody = voted(server, vote)
    ended = probing.probe(server.base, server.key, lambda value: None, agent="a probe", wait=60, transport=transport)
    somebody.join()
    assert ended == {"approve": "approved", "deny": "denied"}[vote]
    newest = server.get("/api/v1/runs?agent=a%20probe")["runs"][0]["run"]
    (call,) = server.get(f"/api/v1/runs/{newest}/calls")["calls"]
    assert call["state"] == {"approve": "output-available", "deny": "output-denied"}[vote]
    assert call["anomalies"] == []


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("allowing"), default_effect="allow") as running:
        yield running


@pytest.mark.parametrize("vote", ["approve", "deny"])
@pytest.mark.parametrize("transport", ["hooks", "http", "socket"])
def test_without_an_asking_rule_the_probe_requests_approval_itself(allowing: Server, transport: str, vote: str) -> None:
    somebody = voted(allowing, vote)
    ended = probing.probe(allowing.base, allowing.key, lambda value: None, wait=60, transport=transport)
    somebody.join()
    assert ended == {"approve": "approved", "deny": "denied"}[vote]


def test_an_unanswered_probe_fails(server: Server) -> None:
    with pytest.raises(probing.ProbeFailed, match="No one answered"):
        probing.probe(server.base, server.key, lambda value: None, wait=1, transport="http")


# ---------------------------------------------------------------- libraries: an environment file and copies

LIBRARIES = [recipe for recipe in connect.RECIPES if recipe.by_project]
PYTHON, AI_SDK = connect.get_recipe("python"), connect.get_recipe("ai-sdk")


@pytest.fixture
def project(target: connect.Target, tmp_path: Path) -> connect.Target:
    folder = tmp_path / "project"
    folder.mkdir()
    return replace(target, project=folder)


def tree(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("recipe", LIBRARIES, ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("before", [None, "", "A=1\n", "A=1", "# note\nTOOLCARDS_URL=x\n\n"])
def test_a_library_is_connected_once_and_undone_exactly(
    project: connect.Target, recipe: connect.Recipe, before: str | None
) -> None:
    assert project.project is not None
    names = {path.name for path in (change.path for change in recipe.plan(project))}
    env = project.project / (".env.local" if ".env.local" in names else ".env")
    if before is not None:
        env.write_text(before)
    connect.write_changes(recipe.plan(project))
    assert f"TOOLCARDS_URL={project.url}\nTOOLCARDS_AGENT_KEY={project.key}\n" in env.read_text()
    assert recipe.read_key(project) == project.key
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert not any(change.is_needed for change in recipe.plan(project))
    assert not any(change.is_needed for change in recipe.plan(replace(project, key="")))
    connect.write_changes(recipe.plan(replace(project, url="http://127.0.0.1:9")))
    assert env.read_text().count("TOOLCARDS_AGENT_KEY=") == 1 and "127.0.0.1:9" in env.read_text()
    connect.write_changes(recipe.undo(project))
    assert tree(project.project) == ({env.name: before} if before else {})
    assert [path for path in project.project.iterdir() if path.is_dir()] == []
    assert not any(change.is_needed for change in recipe.undo(project))


def test_the_copied_client_is_the_one_that_is_imported(project: connect.Target) -> None:
    connect.write_changes(PYTHON.plan(project))
    code = "import toolcards.client; print(toolcards.client.__file__)"
    completed = subprocess.run(
        [sys.executable, "-c", code], cwd=project.project, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert completed.stdout.strip() == f"{project.project}/toolcards/client/__init__.py", completed.stderr
    connect.write_changes(PYTHON.undo(project))
    assert tree(project.project or Path()) == {}  # what Python compiled is gone too


def test_a_foreign_file_is_not_overwritten_and_not_removed(project: connect.Target) -> None:
    assert project.project is not None
    theirs = project.project / "toolcards" / "ai-sdk.mjs"
    theirs.parent.mkdir()
    theirs.write_text("export const mine = 1;\n")
    with pytest.raises(connect.Unreadable, match="not written by Toolcards"):
        AI_SDK.plan(project)
    assert not any(change.is_needed for change in AI_SDK.undo(project))


def test_two_recipes_in_one_project_share_their_copies(project: connect.Target) -> None:
    assert project.project is not None
    tanstack = connect.get_recipe("tanstack-ai")
    for recipe in (AI_SDK, tanstack):
        connect.write_changes(recipe.plan(project))
    connect.write_changes(AI_SDK.undo(project))
    assert "toolcards/ai-sdk.mjs" in tree(project.project) and tanstack.read_key(project) == project.key
    connect.write_changes(tanstack.undo(project))
    assert tree(project.project) == {}


def test_a_copy_under_a_former_name_is_renewed_and_removed(project: connect.Target) -> None:
    assert project.project is not None
    former = project.project / "toolcards" / "asking.mjs"
    former.parent.mkdir()
    former.write_text(
        f"// {connect.base.TAG}: a copy; connecting again renews it, --undo removes it\nexport const old = 1;\n"
    )
    connect.write_changes(AI_SDK.plan(project))
    assert "export * from './gate-client.mjs'" in former.read_text()
    assert not (former.parent / "mirroring.mjs").exists()
    connect.write_changes(AI_SDK.undo(project))
    assert not former.exists()


def test_a_copy_is_reported_in_one_line(project: connect.Target) -> None:
    diff = "".join(change.diff() for change in PYTHON.plan(project))
    assert "a copy of gate_client.py" in diff and "import" not in diff and "tck_…" in diff and project.key not in diff


@pytest.mark.parametrize("recipe", [each for each in LIBRARIES if each.probe_offline], ids=lambda recipe: recipe.name)
def test_what_was_copied_runs_nothing_without_a_server(project: connect.Target, recipe: connect.Recipe) -> None:
    if "ai-sdk.mjs" in str([change.path for change in recipe.plan(project)]) and not shutil.which("node"):
        pytest.skip("not here: Node.js")
    assert recipe.probe_offline is not None
    assert recipe.probe_offline(project) == ""  # not connected: nothing was seen
    connect.write_changes(recipe.plan(project))
    assert "reached" in recipe.probe_offline(project) or "gave no decision" in recipe.probe_offline(project)


# ---------------------------------------------------------------- editors

ACP = connect.get_recipe("acp")
ZED = [
    "",
    "{\n}\n",
    '// Zed settings\n//\n{\n  "ui_font_size": 16, // large\n  "theme": {"mode": "system"},\n}\n',
    '{\n  "agent_servers": {\n    "Mine": {"command": "mine"} // agent_servers {\n  }\n}\n',
    '{\n  "a": {"agent_servers": {}},\n  /* "agent_servers": { */\n  "agent_servers": {\n  }\n}',
]


def zed(target: connect.Target) -> Path:
    path = target.home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("before", ZED)
def test_an_editor_gets_one_more_agent_and_keeps_its_comments(target: connect.Target, before: str) -> None:
    if before:
        zed(target).write_text(before)
    connect.write_changes(ACP.plan(target))
    text = zed(target).read_text()
    agents = loose(text)["agent_servers"]
    agent = agents["opencode through Toolcards"]
    assert agent["type"] == "custom" and agent["args"][-4:] == ["acp", "--", "opencode", "acp"]
    assert agent["env"] == {"TOOLCARDS_URL": target.url, "TOOLCARDS_AGENT_KEY": target.key}
    assert ("Mine" in agents) == ("Mine" in before)
    assert ACP.read_key(target) == target.key and not any(change.is_needed for change in ACP.plan(target))
    connect.write_changes(ACP.plan(replace(target, agent=("gemini", "--experimental-acp"))))
    assert "gemini through Toolcards" in zed(target).read_text() and "opencode" not in zed(target).read_text()
    connect.write_changes(ACP.undo(target))
    assert (zed(target).read_text() if zed(target).exists() else "") == (before if before != "{\n}\n" else "")


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1', '{"agent_servers": []}', '{"agent_servers": {}}', "{\n#\n}"])
def test_editor_settings_that_are_not_understood_are_not_touched(target: connect.Target, text: str) -> None:
    zed(target).write_text(text)
    with pytest.raises(connect.Unreadable):
        ACP.plan(target)
    assert zed(target).read_text() == text


def test_the_agent_in_the_editors_settings_starts_anywhere_and_is_gated(
    server: Server, target: connect.Target, tmp_path: Path
) -> None:
    from tests.support import gating

    name, ran = "editor", tmp_path / "ran"
    agent = (sys.executable, str(ROOT / "tests/support/acp_agent.py"), name)
    connect.write_changes(ACP.plan(replace(target, url=server.base, key=server.key, agent=agent)))
    (entry,) = loose(zed(target).read_text())["agent_servers"].values()
    editor = subprocess.Popen(
        [entry["command"], *entry["args"]], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"} | entry["env"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert editor.stdin is not None and editor.stdout is not None
    try:
        prompt = json.dumps({"command": "echo hi", "call": "call_1", "file": str(ran)})
        for number, (method, params) in enumerate(
            [
                ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
                ("session/new", {"cwd": ".", "mcpServers": []}),
                ("session/prompt", {"sessionId": f"ses_{name}", "prompt": [{"type": "text", "text": prompt}]}),
            ]
        ):
            fields = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            editor.stdin.write(json.dumps(fields) + "\n")
            editor.stdin.flush()
            if method == "session/prompt":
                gating.vote(server, f"ses_{name}", "approve")
            for line in editor.stdout:
                if line.startswith("{") and json.loads(line).get("id") == number and '"result"' in line:
                    break
        assert ran.read_text().splitlines() == ["echo hi"]
    finally:
        editor.kill()
        editor.communicate()


def loose(text: str) -> Any:
    """JSON with comments and commas at ends, as editors read it."""
    text = re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda value: value[1] or "", text, flags=re.DOTALL)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))


# ---------------------------------------------------------------- the command, for libraries


@pytest.mark.django_db
def test_a_library_is_connected_by_the_command(server: Server, tmp_path: Path) -> None:
    somebody = voted(server, "approve")
    words = ["python", "--yes", "--url", server.base, "--key", server.key, "--project", str(tmp_path), "--wait", "120"]
    result = ran(*words)
    somebody.join()
    assert "held, approved and released" in result and "@gated(cards" in result and server.key not in result
    assert "Without a server it runs nothing (its code was run)" in result
    assert "set -a; . ./.env" in result
    runs = [run["run"] for run in server.get("/api/v1/runs?agent=Python")["runs"]]
    calls = [call for run in runs for call in server.get(f"/api/v1/runs/{run}/calls")["calls"]]
    assert {call["tool"]["name"]: call["state"] for call in calls} == {
        probing.TOOL: "output-available",
        probing.OFFLINE_TOOL: "output-denied",
    }
    assert "Removed" in ran("python", "--undo", "--yes", "--project", str(tmp_path))
    assert tree(tmp_path) == {}


@pytest.mark.django_db
def test_a_probe_alone_writes_nothing(server: Server, tmp_path: Path) -> None:
    words = ["anything", "--only-probe", "--url", server.base, "--project", str(tmp_path)]
    with pytest.raises(CommandError, match="--key"):
        ran(*words)
    somebody = voted(server, "deny")
    assert "held, denied and released" in ran(*words, "--key", server.key, "--wait", "60")
    somebody.join()
    assert tree(tmp_path) == {}


@pytest.mark.django_db
def test_the_printed_code_runs_once_it_is_pasted(server: Server, tmp_path: Path) -> None:
    words = ["--yes", "--no-probe", "--url", server.base, "--key", server.key, "--project", str(tmp_path)]
    result = ran("python", *words)
    (tmp_path / "agent.py").write_text(result[result.index("from toolcards") : result.index("The server accepts")])
    (tmp_path / "README.md").write_text("# Read me\n")
    program = f"set -a; . ./.env; set +a; exec {sys.executable} agent.py"
    running = subprocess.Popen(
        ["bash", "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    from tests.support import gating

    gating.vote(server, "try-4", "approve")
    out, wrong = running.communicate(timeout=2 * PATIENCE)
    assert (out, running.returncode) == ("# Read me\n\n", 0), wrong


@pytest.mark.django_db
def test_the_printed_requests_run_once_they_are_pasted(server: Server, tmp_path: Path) -> None:
    words = ["--yes", "--no-probe", "--url", server.base, "--key", server.key, "--project", str(tmp_path)]
    result = ran("curl", *words)
    asks = result[result.index("curl -sS") :].split("\n\n")[0]
    program = f"set -a; . ./.env; set +a; {asks}"
    completed = subprocess.run(
        ["bash", "-c", program], cwd=tmp_path, env=with_curl(), capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert json.loads(completed.stdout)["decision"] == "ask", completed.stderr


@pytest.mark.django_db
def test_a_key_that_git_would_take_is_minded(server: Server, tmp_path: Path) -> None:
    words = ["--yes", "--no-probe", "--url", server.base, "--key", server.key, "--project", str(tmp_path)]
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=2 * PATIENCE)
    assert "git does not ignore .env" in ran("anything", *words)
    ran("anything", "--undo", "--yes", "--project", str(tmp_path))
    (tmp_path / ".gitignore").write_text(".env\n")
    assert "git does not ignore" not in ran("anything", *words)


@pytest.mark.django_db
def test_our_own_checkout_is_nobodys_project(server: Server) -> None:
    with pytest.raises(CommandError, match="--project"):
        ran("python", "--yes", "--url", server.base, "--project", str(ROOT))


def test_the_server_is_found_where_it_said_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Any) -> None:
    from toolcards.management.commands import connect as command

    limits(data_dir=tmp_path)
    assert command.find_server_address() == command.DEFAULT_ADDRESS
    (tmp_path / "address").write_text("http://127.0.0.1:8123")
    assert command.find_server_address() == "http://127.0.0.1:8123"


def test_a_started_server_leaves_its_address(server: Server) -> None:
    assert (server.data / "address").read_text() == server.base


# ---------------------------------------------------------------- any Python will do in a checkout


def test_a_python_without_django_hands_over_to_the_checkouts_own(tmp_path: Path) -> None:
    (tmp_path / "toolcards").mkdir()
    for name in ("manage.py", "toolcards/__init__.py", "toolcards/cli.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    ours = tmp_path / ".venv" / "bin" / "python"
    ours.parent.mkdir(parents=True)
    ours.write_text('#!/bin/sh\necho "handed over: $*"\n')
    ours.chmod(0o755)
    typed = "import runpy, sys; sys.path.insert(0, '.'); sys.argv = ['manage.py', 'connect', 'list']; "
    words = ["-S", "-I", "-c", f"{typed}runpy.run_path('manage.py', run_name='__main__')"]
    completed = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert completed.stdout == "handed over: manage.py connect list\n", completed.stderr


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


@pytest.mark.skipif(not shutil.which("node"), reason="not here: Node.js")
def test_opencodes_plug_in_runs_nothing_without_a_server(target: connect.Target) -> None:
    assert OPENCODE.probe_offline is not None
    assert OPENCODE.probe_offline(target) == ""
    connect.write_changes(OPENCODE.plan(target))
    assert "could not be reached" in OPENCODE.probe_offline(target)
