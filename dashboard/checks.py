"""System checks: report at start what would fail later, with a remedy."""

import os
import stat
from collections.abc import Iterable
from ipaddress import ip_address

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution

from dashboard.environment import Environment

REDIS_URLS = ("redis://", "rediss://", "unix://")


@register(Tags.security)
def check_secret_key(app_configs: object, **kwargs: object) -> Iterable[CheckMessage]:
    """Check that only its owner can read the key file."""
    file = settings.SECRET_KEY_FILE
    if settings.TOOLCARDS.secret_key or not file.exists():
        return
    if stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield Error(
            f"Other users of this computer can read {file}.",
            hint=(
                f"Run `chmod 600 {file}`. If someone may have read it, replace the key, and put the old one into"
                " TOOLCARDS_SECRET_KEY_FALLBACKS: only that key decrypts what it encrypted."
            ),
            id="toolcards.E001",
        )


@register()
def check_data_dir(app_configs: object, **kwargs: object) -> Iterable[CheckMessage]:
    """Check that the data directory is writable, and private."""
    folder = settings.TOOLCARDS.data_dir
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Error(
            f"The data directory {folder} cannot be written.",
            hint="Make the user that runs Toolcards its owner, or set TOOLCARDS_DATA_DIR to another directory.",
            id="toolcards.E002",
        )
    elif stat.S_IMODE(folder.stat().st_mode) & 0o077:
        yield Caution(
            f"Other users of this computer can read {folder}.",
            hint=f"It contains everything that your agents sent. Run `chmod 700 {folder}`.",
            id="toolcards.W002",
        )


@register()
def check_redis_url(app_configs: object, **kwargs: object) -> Iterable[CheckMessage]:
    """Check that the Redis URL is valid."""
    url = settings.TOOLCARDS.redis_url
    if url and not url.lower().startswith(REDIS_URLS):
        yield Error(
            "TOOLCARDS_REDIS_URL is not a Redis URL.",
            hint="Use redis://127.0.0.1:6379/0, rediss://… for TLS, or unix:///path/to/socket.",
            id="toolcards.E004",
        )


@register()
def check_workers(app_configs: object, **kwargs: object) -> Iterable[CheckMessage]:
    """Check that several worker processes share a database server and a relay."""
    return find_worker_faults(settings.TOOLCARDS)


@register(Tags.security)
def check_https(app_configs: object, **kwargs: object) -> Iterable[CheckMessage]:
    """Check that passwords and agent keys cross networks encrypted."""
    yield from find_bind_faults(settings.TOOLCARDS)
    if "*" in settings.ALLOWED_HOSTS:
        yield Caution(
            "TOOLCARDS_ALLOWED_HOSTS allows every name, so any web page can pose as this server.",
            hint="List the host names that people enter in their browsers.",
            id="toolcards.W007",
        )


def find_worker_faults(env: Environment) -> list[CheckMessage]:
    """Return why this many workers cannot work together.

    `serve` refuses to start then.
    """
    faults = [
        name
        for name, value in (
            ("TOOLCARDS_DATABASE_URL=postgres://…", env.database_url.startswith(("postgres:", "postgresql:"))),
            ("TOOLCARDS_REDIS_URL=redis://…", env.redis_url),
        )
        if not value
    ]
    if env.workers == 1 or not faults:
        return []
    return [
        Caution(
            f"{env.workers} worker processes would not see each other's calls.",
            hint=f"Set {' and '.join(faults)}, or use one worker.",
            id="toolcards.W005",
        )
    ]


def find_bind_faults(env: Environment) -> list[CheckMessage]:
    """Return why this address must not be served.

    `serve` refuses to start then.
    """
    if _is_loopback(env.host) or env.https or env.insecure_http:
        return []
    return [
        Caution(
            f"Serving {env.host} would send passwords and agent keys over the network unencrypted.",
            hint=(
                "Put a proxy that speaks https in front and set TOOLCARDS_ORIGINS=https://cards.example.com; or, if"
                " you trust this network, set TOOLCARDS_INSECURE_HTTP=1 and TOOLCARDS_ALLOWED_HOSTS=<this host's name>."
            ),
            id="toolcards.W006",
        )
    ]


def _is_loopback(host: str) -> bool:
    """Return whether the host is this computer alone; other names may be any computer."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
