"""The `toolcards-client` command, for computers without a server."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tests.support.tables import loop_over
from toolcards import client_cli
from toolcards.connect.command import NO_KEYS


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """Return the exit code."""
    monkeypatch.setattr("sys.argv", ["toolcards-client", *words])
    with pytest.raises(SystemExit) as caught:
        client_cli.main()
    return caught.value.code


@loop_over("words", [[], ["help"], ["-h"], ["--help"], ["", "x"]])
def test_help_lists_each_command(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: toolcards-client COMMAND") and "no command" not in printed
    assert all(f"\n  {name} " in printed for name in ("connect", "hook", "acp", "mcp"))


@loop_over("word", ["conect", "serve", "Connect", "--verbose", "\x1b[2J"])
def test_an_unknown_command_is_named_and_help_follows(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, word, "x") == 2
    printed = capsys.readouterr().out
    assert printed.startswith(f"toolcards-client has no command {word!r}.\n\nusage:") and "\x1b" not in printed


@loop_over("word", ["--version", "version"])
def test_the_version_is_that_of_the_distribution(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["toolcards-client", word])
    monkeypatch.setattr(metadata, "version", {"toolcards-client": "1.2.3"}.__getitem__)
    client_cli.main()
    assert capsys.readouterr().out == "toolcards-client 1.2.3\n"


@loop_over(
    ("name", "word"),
    [("connect", "--only-probe"), ("hook", "--key-env"), ("acp", "--mirror"), ("mcp", "--upstream")],
)
def test_a_command_gets_the_words_after_its_name(
    name: str, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, name, "--help") == 0
    assert word in capsys.readouterr().out


def test_connect_without_a_key_says_where_to_make_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(monkeypatch, "connect", "claude-code", "--only-probe", "--url", "http://127.0.0.1:9") == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "pass a key with --key" in printed.err and printed.err.count("\n") == 1
    assert "pass it with --key" in NO_KEYS and not any(tmp_path.iterdir())


def test_connect_lists_the_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "connect", "list") == 0
    assert "Claude Code" in capsys.readouterr().out


def test_connect_with_a_program_that_it_does_not_know_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "connect", "no-such-program") == 2
    assert "toolcards-client connect" in capsys.readouterr().err
