"""The `toolcards` command: its version, which commands `help` lists, and keys of agents."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.core.management import ManagementUtility
from django.test import Client

from tests.support.server import PATIENCE, ROOT
from toolcards import __version__, cli


def run_cli(*words: str) -> str:
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_command_prints_the_version_of_toolcards_and_not_of_django(word: str) -> None:
    assert run_cli(word) == f"toolcards {__version__}\n"


def test_the_version_is_written_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "toolcards/__init__.py"


def test_help_lists_our_commands_and_few_of_djangos() -> None:
    names = cli.format_help(ManagementUtility(["toolcards", "help"]), commands_only=True).split()
    assert {"serve", "connect", "demo", "agentkey", "acp", "hook", "migrate", "shell"} <= set(names)
    assert not {"flush", "startapp", "startproject", "sqlflush", "testserver", "loaddata", "simulate"} & set(names)


def test_help_says_what_each_of_our_commands_does() -> None:
    text = cli.format_help(ManagementUtility(["toolcards", "help"]))
    assert "  serve         Set up what is missing" in text and "toolcards help <command>" in text


@pytest.mark.slow
def test_a_command_before_the_first_start_says_what_is_missing(tmp_path: Path) -> None:
    environment = os.environ | {"TOOLCARDS_DATA_DIR": str(tmp_path), "TOOLCARDS_DATABASE_URL": ""}
    command = [sys.executable, str(ROOT / "manage.py"), "person", "list"]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert completed.returncode == 1
    assert completed.stderr == "toolcards: The database has no tables yet. `serve` creates them: start it first.\n"


@pytest.mark.django_db
def test_the_page_foot_shows_the_version(admin_client: Client) -> None:
    assert f"Toolcards {__version__}" in admin_client.get("/runs/").content.decode()
