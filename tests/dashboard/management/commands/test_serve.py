"""What `serve` refuses, prints and prepares before it serves; whole starts are in the tests of the system."""

from __future__ import annotations

import argparse
import io
import socket
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from dashboard.management import occupancy
from dashboard.management.commands import serve
from tests.support.tables import loop_over


def make_command() -> tuple[serve.Command, io.StringIO]:
    output = io.StringIO()
    return serve.Command(stdout=output), output


@loop_over("text, port", [("0", 0), ("8000", 8000), ("65535", 65535), ("0080", 80)])
def test_a_port_is_a_number(text: str, port: int) -> None:
    assert serve._parse_port(text) == port


@loop_over("text", ["65536", "-1", "80.0", "http", "", " ", "1e3", "²"])
def test_another_port_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a port number from 0 to 65535"):
        serve._parse_port(text)


@loop_over(
    "host, visible",
    [
        ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"),
        ("[::1]", "[::1]"), ("cards.example", "cards.example"),
    ],
)  # fmt: skip
def test_the_address_that_is_printed_works_on_this_computer(host: str, visible: str) -> None:
    assert serve._get_visible_host(host) == visible


def test_what_would_do_harm_is_refused_with_a_remedy(limits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limits(origins=(), insecure_http=False, database_url="", redis_url="")
    command, _ = make_command()
    for name in ("HOST", "PORT", "WORKERS"):
        monkeypatch.setenv(f"TOOLCARDS_{name}", "before")
    with pytest.raises(CommandError, match=r"over the network unencrypted.*TOOLCARDS_ORIGINS"):
        command._environment("0.0.0.0", 8000, 1, "uvicorn")
    with pytest.raises(CommandError, match="TOOLCARDS_REDIS_URL"):
        command._environment("127.0.0.1", 8000, 2, "uvicorn")
    limits(database_url="postgres://x", redis_url="redis://x")
    with pytest.raises(CommandError, match="Daphne supports only one process"):
        command._environment("127.0.0.1", 8000, 2, "daphne")
    assert serve.os.environ["TOOLCARDS_WORKERS"] == "before"
    env = command._environment("127.0.0.1", 8123, 2, "uvicorn")
    assert (env.host, env.port, env.workers) == ("127.0.0.1", 8123, 2)
    # Worker processes read it again.
    assert [serve.os.environ[f"TOOLCARDS_{name}"] for name in ("HOST", "PORT", "WORKERS")] == ["127.0.0.1", "8123", "2"]


def test_an_address_in_use_is_named(limits: Any) -> None:
    command, _ = make_command()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        limits(host="127.0.0.1", port=port)
        with pytest.raises(CommandError, match=f"Cannot listen on 127.0.0.1:{port}: Address already in use"):
            command._bind(serve.settings.TOOLCARDS)


def test_a_folder_in_use_is_named_with_its_server(limits: Any, tmp_path: Path, settings: Any) -> None:
    limits(data_dir=tmp_path)
    if serve.connection.vendor != "sqlite":
        pytest.skip("of SQLite")
    command, _ = make_command()
    with occupancy.occupy_folder(tmp_path) as announce:
        announce("http://127.0.0.1:8123")
        with (
            pytest.raises(CommandError, match=r"Another server uses .*: process .* at http://127.0.0.1:8123"),
            command._alone(),
        ):
            pytest.fail("it began")


def test_the_banner_has_what_is_shown_only_once_and_nothing_that_is_not_there(limits: Any) -> None:
    limits(origins=())
    command, output = make_command()
    command._banner("http://127.0.0.1:8000", "", "")
    assert "Toolcards is up at http://127.0.0.1:8000" in output.getvalue()
    assert not any(word in output.getvalue() for word in ("Sign in", "Agent key", "People"))
    limits(origins=("https://cards.example",))
    command._banner("http://127.0.0.1:8000", "http://x/login/link/y", "tck_a_key")
    assert all(word in output.getvalue() for word in ("https://cards.example", "http://x/login/link/y", "tck_a_key"))


def test_the_banner_says_that_commands_of_other_terminals_need_the_same_folder(
    limits: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits(origins=())
    for folder in (None, str(tmp_path)):
        monkeypatch.delenv("TOOLCARDS_DATA_DIR", raising=False)
        if folder:
            monkeypatch.setenv("TOOLCARDS_DATA_DIR", folder)
        command, output = make_command()
        command._banner("http://127.0.0.1:8000", "", "")
        assert ("other terminals need the same TOOLCARDS_DATA_DIR" in output.getvalue()) is bool(folder)


def test_static_files_are_collected_again_only_if_they_changed(limits: Any, tmp_path: Path, settings: Any) -> None:
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    (source / "a.css").write_text("a")
    settings.STATICFILES_DIRS, settings.STATIC_ROOT = [source], root
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    limits(data_dir=tmp_path, static="hashed")
    serve._collect_static()
    assert (root / "a.css").read_text() == "a"
    (root / "a.css").unlink()
    serve._collect_static()
    assert not (root / "a.css").exists()  # nothing changed
    (source / "a.css").write_text("longer")
    serve._collect_static()
    assert (root / "a.css").read_text() == "longer"
    limits(static="plain")
    (source / "a.css").write_text("served from its folder")
    serve._collect_static()
    assert (root / "a.css").read_text() == "longer"


def test_without_a_demo_nothing_is_started_and_no_key_is_made() -> None:
    with serve._prepare_demo(None) as play:
        play()
