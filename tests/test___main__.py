"""`python -m toolcards`."""

from __future__ import annotations

import runpy

import pytest

from toolcards import __version__


def test_the_package_runs_as_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["toolcards", "--version"])
    runpy.run_module("toolcards", run_name="__main__", alter_sys=True)
    assert capsys.readouterr().out == f"toolcards {__version__}\n"
