"""The `toolcards-client` command: which command it runs, its help and version, and mistakes in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import PATIENCE, ROOT
from tests.support.tables import loop_over
from toolcards import __version__
from toolcards.client_cli import main, run_connect


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit code and what was printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["toolcards-client", *words])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@loop_over("words", [(), ("help",), ("-h",), ("--help",)])
def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    code, out, _ = run(capsys, *words)
    assert code == 0 and all(f"\n  {name} " in out for name in ("connect", "hook", "acp", "mcp"))


def test_an_unknown_command_is_named_and_help_follows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "serve", "--port", "1")
    assert code == 2 and out.startswith("toolcards-client has no command 'serve'.\n\nusage: ")


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_is_the_distributions_or_that_of_the_package_it_comes_with(
    capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert run(capsys, word) == (0, f"toolcards-client {__version__}\n", "")


@loop_over(("words", "program"), [
    (("connect", "--help"), "toolcards-client connect"), (("acp", "--help"), "toolcards-client acp"),
    (("mcp", "--help"), "toolcards-client mcp"), (("hook", "--help"), "toolcards-client hook"),
])  # fmt: skip
def test_each_command_has_its_own_help(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], program: str
) -> None:
    code, out, _ = run(capsys, *words)
    assert code == 0 and out.startswith(f"usage: {program}")


@loop_over(("words", "message"), [
    (("acp",), "name the agent's command"), (("mcp",), "name either the server's command"),
    (("acp", "--nonsense"), "unrecognized"),
])  # fmt: skip
def test_a_command_gets_its_own_arguments_and_its_exit_code_counts(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2 and message in err


def test_connect_without_a_server_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_connect(["claude-code", "--url", "http://127.0.0.1:9"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") <= 2 and "Traceback" not in err and list(tmp_path.iterdir()) == []


def test_it_starts_without_django() -> None:
    code = "import sys, toolcards.client_cli, toolcards.acp, toolcards.mcp; print('django' in sys.modules)"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE).stdout == "False\n"


@loop_over("word", ["conect", "Connect", "--verbose", "\x1b[2J"])
def test_an_odd_command_is_printed_without_control_characters(capsys: pytest.CaptureFixture[str], word: str) -> None:
    code, out, _ = run(capsys, word, "x")
    assert code == 2 and out.startswith(f"toolcards-client has no command {word!r}.\n\nusage:") and "\x1b" not in out


def test_connect_lists_the_programs_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "connect", "list")
    assert code == 0 and "Claude Code" in out
    code, _, err = run(capsys, "connect", "no-such-program")
    assert code == 2 and "toolcards-client connect" in err
