"""Django's settings from the environment: databases, cookies, hosts, and the order of the middleware."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as running_settings
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from dashboard import settings as module
from tests.support.tables import loop_over

Reader = Callable[..., dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Give `read(origins="…", …)`: the settings of a server with these variables."""

    def read_settings(**variables: str) -> dict[str, Any]:
        with monkeypatch.context() as patch:
            patch.setenv("TOOLCARDS_DATA_DIR", str(tmp_path))
            for name, value in variables.items():
                patch.setenv(f"TOOLCARDS_{name.upper()}", value)
            return runpy.run_path(str(module.__file__))

    return read_settings


def test_by_default_everything_is_in_the_data_directory_and_in_memory(read: Reader, tmp_path: Path) -> None:
    values = read(database_url="", redis_url="")
    database = values["DATABASES"]["default"]
    assert database["NAME"] == tmp_path / "toolcards.sqlite3" and database["ENGINE"] == "django.db.backends.sqlite3"
    assert values["CHANNEL_LAYERS"]["default"]["BACKEND"] == "channels.layers.InMemoryChannelLayer"
    assert values["STATIC_ROOT"].is_relative_to(tmp_path) and values["DEBUG"] is False
    assert values["SECRET_KEY"] == (tmp_path / "secret_key").read_text().strip()
    assert (tmp_path / "secret_key").stat().st_mode & 0o077 == 0
    assert read()["SECRET_KEY"] == values["SECRET_KEY"]


def test_a_redis_url_is_where_rings_go(read: Reader) -> None:
    layer = read(redis_url="redis://a.example")["CHANNEL_LAYERS"]["default"]
    assert layer["CONFIG"]["hosts"] == ["redis://a.example"] and "Redis" in layer["BACKEND"]


def test_sqlite_keeps_what_it_confirmed_and_never_waits_inside_of_a_transaction(read: Reader) -> None:
    for url in ("", "sqlite:////data/x.sqlite3"):
        options = read(database_url=url)["DATABASES"]["default"]["OPTIONS"]
        assert options["transaction_mode"] == "IMMEDIATE"
        assert {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"} <= set(options["init_command"].split("; "))


def test_postgresql_has_our_backend_and_gives_up_on_locks(read: Reader) -> None:
    database = module._database("postgres://ann:pass%40word@db.example:5433/cards?connect_timeout=9&sslmode=require")
    assert (database["ENGINE"], database["NAME"], database["PASSWORD"]) == (
        "toolcards.postgresql",
        "cards",
        "pass@word",
    )
    assert database["CONN_MAX_AGE"] == 0 and (database["HOST"], database["PORT"]) == ("db.example", 5433)
    options: Any = database["OPTIONS"]
    assert options["options"] == "-c lock_timeout=5s" and options["tcp_user_timeout"] == 10_000
    assert options["sslmode"] == "require" and str(options["connect_timeout"]) == "9"  # those of the URL win


@loop_over("url", [
    "mysql://ann:hunter2@db.example/cards", "oracle://ann:hunter2@a/b", "hunter2", "postgres", "://hunter2", "hunter2://a/b",
    "postgres://ann:hunter2@db.example:port/cards", "postgres://[hunter2/cards",
])  # fmt: skip
def test_another_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        module._database(url)
    assert "TOOLCARDS_DATABASE_URL" in str(refusal.value) and "hunter2" not in str(refusal.value)


def test_https_protects_cookies_and_names_the_host(read: Reader) -> None:
    values = read(origins="https://cards.example.com", allowed_hosts="127.0.0.1")
    names = [values[f"{kind}_COOKIE_NAME"] for kind in ("SESSION", "CSRF", "DEVICE")]
    assert all(name.startswith("__Host-") for name in names) and len(set(names)) == 3
    assert values["SESSION_COOKIE_SECURE"] and values["CSRF_COOKIE_SECURE"] and values["SECURE_HSTS_SECONDS"] > 0
    assert values["ALLOWED_HOSTS"] == ["127.0.0.1", "cards.example.com"]
    assert values["CSRF_TRUSTED_ORIGINS"] == ["https://cards.example.com"]


def test_without_https_cookies_have_names_of_their_own_and_are_sent_over_http(read: Reader) -> None:
    values = read(origins="http://cards.example.com")
    assert (
        not values["SESSION_COOKIE_SECURE"] and not values["CSRF_COOKIE_SECURE"] and not values["SECURE_HSTS_SECONDS"]
    )
    names = {values[f"{kind}_COOKIE_NAME"] for kind in ("SESSION", "CSRF", "DEVICE")}
    assert names == {"toolcards_session", "toolcards_csrf", "toolcards_device"}
    assert values["SESSION_COOKIE_HTTPONLY"] and values["SESSION_COOKIE_SAMESITE"] == "Lax"


def test_older_keys_only_decrypt(read: Reader) -> None:
    values = read(secret_key="n" * 50, secret_key_fallbacks="a,b")
    assert (values["SECRET_KEY"], values["SECRET_KEY_FALLBACKS"]) == ("n" * 50, ["a", "b"])


def test_static_files_have_hashes_in_their_names_unless_they_are_plain(read: Reader) -> None:
    hashed, plain = read(static="hashed"), read(static="plain")
    assert "Hashed" in hashed["STORAGES"]["staticfiles"]["BACKEND"] and not hashed["SERVESTATIC_AUTOREFRESH"]
    assert "Hashed" not in plain["STORAGES"]["staticfiles"]["BACKEND"] and plain["SERVESTATIC_AUTOREFRESH"]


def test_every_answer_has_security_headers_and_access_is_checked_for_who_is_signed_in() -> None:
    middleware = running_settings.MIDDLEWARE
    assert middleware[0] == "dashboard.middleware.SecurityHeaders"
    order = ["SessionMiddleware", "CsrfViewMiddleware", "AuthenticationMiddleware", "AccessMiddleware", "NoNul"]
    positions = [next(at for at, path in enumerate(middleware) if path.endswith(name)) for name in order]
    assert positions == sorted(positions)


def test_everything_that_the_settings_name_exists() -> None:
    paths = [
        *module.MIDDLEWARE, *module.PASSWORD_HASHERS, module.ASGI_APPLICATION, module.MESSAGE_STORAGE,
        *(validator["NAME"] for validator in module.AUTH_PASSWORD_VALIDATORS),
        *(storage["BACKEND"] for storage in module.STORAGES.values()),
        *module.TEMPLATES[0]["OPTIONS"]["context_processors"],  # type: ignore[index]
    ]  # fmt: skip
    assert all(callable(import_string(path)) for path in paths)
    assert issubclass(import_string(f"{module.SESSION_ENGINE}.SessionStore"), SessionBase)
    assert all(folder.is_dir() for folder in (*module._folders("templates"), *module._folders("static")))
    assert module._folders("no-such-folder") == []
