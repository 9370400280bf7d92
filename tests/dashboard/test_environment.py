"""Settings from the environment: misspelled names are refused, and secrets may come from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard import environment
from tests.support.server import Server


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCARDS_DATA_DIR", str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("TOOLCARDS_DEFAULT_EFECT", " Did you mean TOOLCARDS_DEFAULT_EFFECT?"),
        ("TOOLCARDS_SECRETKEY", " Did you mean TOOLCARDS_SECRET_KEY?"),
        ("TOOLCARDS_AGENT_KEY_FIL", " Did you mean TOOLCARDS_AGENT_KEY_FILE?"),
        ("TOOLCARDS_GRACE_FILE", ""),
    ],
)
def test_a_misspelled_name_is_refused(name: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "deny")
    with pytest.raises(ImproperlyConfigured) as error:
        environment.read_environment()
    assert str(error.value).startswith(f"{name} is not a setting.") and hint in str(error.value)


@pytest.mark.parametrize("name", ["TOOLCARDS_URL", "TOOLCARDS_CLAUDE_CODE_KEY", "TOOLCARDS_PYTHON", "OTHER_GRACE"])
def test_variables_of_agents_and_of_other_programs_are_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    environment.read_environment()


def test_a_file_provides_a_secret_without_its_last_newline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(" a key \n")
    monkeypatch.setenv("TOOLCARDS_METRICS_TOKEN_FILE", str(tmp_path / "key"))
    token = environment.read_environment().metrics_token
    assert token is not None and token.get_secret_value() == " a key "


def test_a_file_provides_a_list_of_older_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("one, two/\n")
    monkeypatch.setenv("TOOLCARDS_SECRET_KEY_FALLBACKS_FILE", str(tmp_path / "keys"))
    assert [key.get_secret_value() for key in environment.read_environment().secret_key_fallbacks] == ["one", "two/"]


@pytest.mark.parametrize(
    ("content", "value", "reason"),
    [
        (b"a", "b", "Both TOOLCARDS_AGENT_KEY and TOOLCARDS_AGENT_KEY_FILE are set"),
        (None, "", "No such file"),
        (b"\n", "", "is empty"),
        (b"\xff", "", "it is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    content: bytes | None, value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("TOOLCARDS_AGENT_KEY_FILE", str(path))
    monkeypatch.setenv("TOOLCARDS_AGENT_KEY", value)
    with pytest.raises(ImproperlyConfigured, match=reason):
        environment.read_environment()


def test_a_misspelled_name_stops_a_command_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCARDS_DEFAULT_EFECT", "deny")
    result = Server(tmp_path).manage("check")
    assert result.returncode and "Did you mean TOOLCARDS_DEFAULT_EFFECT?" in result.stderr
    assert "Traceback" not in result.stderr
