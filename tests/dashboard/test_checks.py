"""System checks: each fault of a setup has its message, and a setup without faults has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage, registry
from pydantic import SecretStr

from dashboard import checks
from dashboard.environment import Environment
from tests.support.tables import loop_over

POSTGRES, REDIS = "postgres://cards@127.0.0.1/cards", "redis://127.0.0.1:6379/0"


def list_ids(messages: Iterable[CheckMessage]) -> list[str | None]:
    faults = list(messages)
    assert all(fault.msg and fault.hint for fault in faults)
    return [fault.id for fault in faults]


@pytest.fixture
def key_file(tmp_path: Path, settings: Any, limits: Callable[..., None]) -> Path:
    settings.SECRET_KEY_FILE = tmp_path / "secret_key"
    limits(secret_key=None)
    return tmp_path / "secret_key"


def test_all_checks_are_registered() -> None:
    ours = {name for name in vars(checks) if name.startswith("check_")}
    assert len(ours) == 5
    assert ours <= {check.__name__ for check in registry.registry.get_checks()}


def test_a_key_that_others_can_read_is_an_error(key_file: Path) -> None:
    assert list_ids(checks.check_secret_key(None)) == []
    key_file.write_text("a key")
    for mode, ids in ((0o600, []), (0o400, []), (0o640, ["toolcards.E001"]), (0o604, ["toolcards.E001"])):
        key_file.chmod(mode)
        assert list_ids(checks.check_secret_key(None)) == ids, oct(mode)


def test_a_key_in_the_environment_makes_the_file_irrelevant(key_file: Path, limits: Callable[..., None]) -> None:
    key_file.write_text("a key")
    key_file.chmod(0o644)
    limits(secret_key=SecretStr("another key"))
    assert list_ids(checks.check_secret_key(None)) == []


def test_a_data_directory_is_writable_and_private(tmp_path: Path, limits: Callable[..., None]) -> None:
    folder = tmp_path / "data"
    limits(data_dir=folder)
    assert list_ids(checks.check_data_dir(None)) == ["toolcards.E002"]
    folder.mkdir()
    for mode, ids in ((0o700, []), (0o750, ["toolcards.W002"]), (0o701, ["toolcards.W002"])):
        folder.chmod(mode)
        assert list_ids(checks.check_data_dir(None)) == ids, oct(mode)


@pytest.mark.parametrize(("url", "ids"), [
    ("", []), (REDIS, []), ("rediss://a.example", []), ("unix:///run/redis.sock", []), ("REDIS://a.example", []),
    ("http://a.example", ["toolcards.E004"]), ("127.0.0.1:6379", ["toolcards.E004"]), ("redis:", ["toolcards.E004"]),
    ("http://[", ["toolcards.E004"]),
])  # fmt: skip
def test_a_redis_url_has_a_scheme_of_redis(limits: Callable[..., None], url: str, ids: list[str]) -> None:
    limits(redis_url=url)
    assert list_ids(checks.check_redis_url(None)) == ids


@loop_over(("workers", "database_url", "redis_url", "lacking"), [
    (1, "", "", None), (2, POSTGRES, REDIS, None), (2, "postgresql://a/b", REDIS, None),
    (2, "", "", "Set TOOLCARDS_DATABASE_URL=postgres://… and TOOLCARDS_REDIS_URL=redis://…, or"),
    (2, POSTGRES, "", "Set TOOLCARDS_REDIS_URL=redis://…, or"),
    (3, "sqlite:///a.sqlite3", REDIS, "Set TOOLCARDS_DATABASE_URL=postgres://…, or"),
])  # fmt: skip
def test_several_workers_need_a_database_server_and_a_relay(
    workers: int, database_url: str, redis_url: str, lacking: str | None
) -> None:
    faults = checks.find_worker_faults(Environment(workers=workers, database_url=database_url, redis_url=redis_url))
    assert list_ids(faults) == (["toolcards.W005"] if lacking else [])
    assert not lacking or (str(faults[0].hint).startswith(lacking) and faults[0].msg.startswith(f"{workers} worker"))


HERE = ["127.0.0.1", "127.8.9.1", "localhost", "LocalHost", "::1", "[::1]"]
ELSEWHERE = [
    "", "0.0.0.0", "::", "[::]", "192.168.0.1", "cards.example.com", "localhost.example.com", "127.0.0.1.example.com",
    "127.example.com", "::1234:5", "::10", "[::1]x",
]  # fmt: skip


@loop_over(("host", "ids"), [(host, []) for host in HERE] + [(host, ["toolcards.W006"]) for host in ELSEWHERE])
def test_only_this_computer_is_served_without_encryption(host: str, ids: list[str]) -> None:
    assert list_ids(checks.find_bind_faults(Environment(host=host))) == ids


def test_other_computers_are_served_behind_https_or_on_a_trusted_network() -> None:
    assert not checks.find_bind_faults(Environment(host="0.0.0.0", origins=("https://cards.example.com",)))
    assert not checks.find_bind_faults(Environment(host="0.0.0.0", insecure_http=True))
    assert checks.find_bind_faults(Environment(host="0.0.0.0", origins=("http://cards.example.com",)))


def test_a_server_for_every_name_is_reported_with_its_address(settings: Any, limits: Callable[..., None]) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    limits(host="0.0.0.0", insecure_http=False, origins=())
    assert list_ids(checks.check_https(None)) == ["toolcards.W006", "toolcards.W007"]
    settings.ALLOWED_HOSTS = ["cards.example.com"]
    limits(host="127.0.0.1")
    assert list_ids(checks.check_https(None)) == []


def test_the_check_of_workers_reads_the_settings(limits: Callable[..., None]) -> None:
    limits(workers=2, database_url="", redis_url="")
    assert list_ids(checks.check_workers(None)) == ["toolcards.W005"]
