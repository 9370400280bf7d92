"""The `connect` command: keys, dry runs, probes, and the code that it prints."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from tests.support.connecting import ROOT, ran, start_voter, tree
from tests.support.server import PATIENCE, Server, with_curl
from toolcards.connect import probe as probing
from toolcards.models import AgentKey


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.django_db
def test_the_command_ends_when_its_probe_was_held_and_released(server: Server, at_home: Path) -> None:
    from tests.support import gating

    def approve() -> None:
        (run,) = [run["run"] for run in await_probe() if run["run"].startswith("toolcards-probe-")]
        gating.vote(server, run, "approve")

    def await_probe() -> Any:
        from tests.support.server import until

        return until(lambda: server.get("/api/v1/runs?status=waiting")["runs"])

    somebody = threading.Thread(target=approve)
    somebody.start()
    result = ran("claude-code", "--yes", "--url", server.base, "--key", server.key, "--wait", "120")
    somebody.join()
    assert "held, approved and released" in result
    assert "+++" in result and server.key not in result
    assert "the starter policy “Follow the agent” fits it" in result
    assert "Nothing to do" in ran("claude-code", "--yes", "--url", server.base, "--no-wait")
    assert "* claude-code" in ran("list")
    assert "Removed" in ran("claude-code", "--undo", "--yes")
    assert not (at_home / ".claude" / "settings.json").exists()
    assert "not connected" in ran("claude-code", "--undo", "--yes")


@pytest.mark.django_db
def test_on_the_servers_machine_a_key_is_made_and_taken_back(server: Server, at_home: Path) -> None:
    connected = server.manage("connect", "opencode", "--yes", "--url", server.base, "--no-wait")
    assert connected.returncode == 0, connected.stderr
    (key,) = re.findall(r"^.*opencode.*$", server.manage("agentkey", "list").stdout, re.MULTILINE)
    assert "ingest decide result read" in key and "revoked" not in key
    assert server.manage("connect", "opencode", "--undo", "--yes").returncode == 0
    (key,) = re.findall(r"^.*opencode.*$", server.manage("agentkey", "list").stdout, re.MULTILINE)
    assert "revoked" in key


@pytest.mark.django_db
def test_a_key_of_another_database_leaves_nothing(server: Server, at_home: Path) -> None:
    with pytest.raises(CommandError, match="does not accept this key"):  # the test's own database is not the server's
        ran("opencode", "--yes", "--url", server.base, "--no-wait")
    assert tree(at_home) == {} and not AgentKey.objects.exists()


@pytest.mark.django_db
def test_without_a_server_nothing_is_written(at_home: Path) -> None:
    with pytest.raises(CommandError, match="Cannot reach Toolcards"):
        ran("claude-code", "--yes", "--url", "http://127.0.0.1:9")
    assert not (at_home / ".claude").exists()
    assert not AgentKey.objects.exists()


NOT_TOOLCARDS = [
    (400, "{}"), (400, '{"error": {"code": "bad_request", "message": "no"}}'), (400, "[]"), (400, "[" * 100_000),
    (400, '{"error": "not_object"}'), (400, ""), (401, "<html>Sign in</html>"), (401, '{"error": "unauthorized"}'),
    (403, '{"message": "Forbidden"}'), (404, "Not found"), (200, "{}"), (200, "<html>"), (302, ""), (500, "{}"),
    (200, '{"error": {"code": "not_object"}}'),
]  # fmt: skip


class AnsweringServer(http.server.HTTPServer):
    """Gives these answers, the last one again and again."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status, text = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Location", "/")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        answers = list(answers)
        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.thread.join()
        super().__exit__(*error)


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "tck_given"])
@pytest.mark.parametrize("answer", NOT_TOOLCARDS, ids=lambda answer: f"{answer[0]} {answer[1][:30]}")
def test_a_server_that_is_not_toolcards_gets_nothing_written(at_home: Path, answer: tuple[int, str], key: str) -> None:
    with AnsweringServer(answer) as other, pytest.raises(CommandError, match="Is it Toolcards"):
        ran("claude-code", "--yes", "--url", other.url, *(["--key", key] if key else []))
    assert not (at_home / ".claude").exists() and not AgentKey.objects.exists()


@pytest.mark.django_db
def test_what_was_written_is_removed_if_the_connection_does_not_work_then(at_home: Path) -> None:
    settings = at_home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}\n')
    refusal = (400, '{"error": {"code": "not_object", "message": "no"}}')
    with AnsweringServer(refusal, refusal, (502, "")) as other, pytest.raises(CommandError, match="answered 502"):
        ran("claude-code", "--yes", "--url", other.url)
    assert tree(at_home) == {".claude/settings.json": '{"model": "opus"}\n'}
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
def test_a_failure_before_anything_is_written_leaves_no_key(
    server: Server, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(question: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    assert "Nothing was written" in ran("claude-code", "--url", server.base)
    (at_home / ".claude").mkdir()
    (at_home / ".claude" / "settings.json").write_text("// a note\n{}")
    with pytest.raises(CommandError, match="not valid JSON"):
        ran("claude-code", "--yes", "--url", server.base)
    assert not AgentKey.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("words", "why"), [
    (["claude-code", "--key", "“tck”"], "does not accept this key"),
    (["acp", "--agent", "it's"], "is not a command"),
    (["claude-code", "--wait", "nan"], "--wait"),
])  # fmt: skip
def test_words_that_make_no_sense_are_said(server: Server, at_home: Path, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        ran(*words, "--yes", "--url", server.base)
    assert not (at_home / ".claude").exists()


@pytest.mark.django_db
def test_a_key_the_server_does_not_know_is_said(server: Server, at_home: Path) -> None:
    with pytest.raises(CommandError, match="does not accept this key"):
        ran("claude-code", "--yes", "--url", server.base, "--key", "tck_nobodys")


# ---------------------------------------------------------------- the command, for libraries
@pytest.mark.django_db
def test_a_library_is_connected_by_the_command(server: Server, tmp_path: Path) -> None:
    somebody = start_voter(server, "approve")
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
    somebody = start_voter(server, "deny")
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
    program = "import runpy, sys; sys.path.insert(0, '.'); sys.argv = ['manage.py', 'connect', 'list']; "
    words = ["-S", "-I", "-c", f"{program}runpy.run_path('manage.py', run_name='__main__')"]
    completed = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert completed.stdout == "handed over: manage.py connect list\n", completed.stderr
