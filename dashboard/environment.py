"""Reads the TOOLCARDS_* variables, and creates the secret key if none is set."""

import difflib
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PACKAGE = Path(__file__).resolve().parent
BASE_DIR = PACKAGE.parent
# Without a checkout (pip), data is stored in the home directory, and pages and scripts are in the package.
CHECKOUT = (BASE_DIR / "manage.py").exists()
PROGRAM = "python3 manage.py" if CHECKOUT else "toolcards"  # what people type before the name of a command
DATA_HOME = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "toolcards"

Names = Annotated[tuple[str, ...], NoDecode]
Secrets = Annotated[tuple[SecretStr, ...], NoDecode]


class Environment(BaseSettings):
    """The TOOLCARDS_* variables, in seconds and bytes unless the name states another unit."""

    model_config = SettingsConfigDict(
        env_prefix="TOOLCARDS_", env_ignore_empty=True, extra="ignore", frozen=True, allow_inf_nan=False
    )
    _mask_wrapped: ClassVar[bool] = True  # read by Django at each `settings.TOOLCARDS`

    # Places
    data_dir: Path = BASE_DIR / "var" if CHECKOUT else DATA_HOME
    database_url: str = Field("", repr=False)  # both may hold a password
    redis_url: str = Field("", repr=False)
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    workers: int = Field(1, ge=1)

    # Access
    allowed_hosts: Names = ("127.0.0.1", "localhost", "[::1]")
    origins: Names = ()
    proxy: Names = ()  # addresses whose X-Forwarded-* headers are believed
    insecure_http: bool = False  # serve other computers without https
    secret_key: SecretStr | None = None
    secret_key_fallbacks: Secrets = ()  # earlier keys, for decryption only
    admin_password: SecretStr | None = None
    agent_key: SecretStr | None = None
    metrics_token: SecretStr | None = None

    # Gating
    default_effect: Literal["allow", "ask", "deny"] | None = None
    grace: float = Field(30, ge=0)
    decide_ttl: float = Field(900, gt=0)
    handover_seconds: float = Field(0, ge=0)
    required_plugins: Names = ()  # plugins that must check every call; if one is missing, calls are denied

    # Retention
    secrets_ttl: float = Field(86_400, ge=0)
    retention_days: float = Field(0, ge=0)  # 0: forever
    receipt_days: float = Field(14, ge=0)  # 0: as long as runs are kept

    # Megabytes that each source may send in an hour; 0: no limit
    source_quota: float = Field(10_000, ge=0)

    # Monitoring
    disk_warning: float = Field(80, ge=0, le=100)  # percent of the data directory's disk in use; 0: never

    # Agents behind the AG-UI proxy: name=url
    agui_upstreams: Names = ()

    # Copies of the anchor outside this server
    audit_copy: Names = ()  # stdout, /a/file, https://a.host/path
    audit_copy_rows: int = Field(100, gt=0)
    audit_copy_seconds: float = Field(300, gt=0)

    # Reviewers before people
    reviewer_commands: Names = ()  # name=program and its arguments
    reviewer_keys: Names = ()  # host=variable: the environment variable with the key or the signing secret of a host

    # Notifications
    webhook_private: Names = ()  # private hosts, or host:port, that webhooks may reach
    push_private: Names = ()  # private push services; apart, since anyone who sees calls names paths there
    smtp_url: SecretStr | None = None
    mail_from: str = "toolcards@localhost"

    # Limits on what agents send
    max_frame: int = Field(1 << 20, gt=0)
    max_body: int = Field(8 << 20, gt=0)
    max_args: int = Field(256 << 10, gt=0)
    max_depth: int = Field(32, gt=0)
    max_waiting: int = Field(1_000, gt=0)  # calls of one agent that wait for people

    # Limits on peers: seconds, and numbers per address
    head_seconds: float = Field(10, gt=0)
    body_seconds: float = Field(30, gt=0)
    stream_seconds: float = Field(3_600, gt=0)
    max_head: int = Field(64 << 10, ge=1 << 10)
    max_form: int = Field(1 << 20, gt=0)
    max_unauthenticated: int = Field(256, gt=0)

    # For development
    debug: bool = False
    static: Literal["auto", "plain", "hashed"] = "auto"
    log: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator(
        "allowed_hosts", "origins", "proxy", "webhook_private", "push_private", "required_plugins", "audit_copy",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _split(cls, value: object) -> object:
        """Split names at commas."""
        if not isinstance(value, str):
            return value
        return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip(" /"))

    @field_validator("secret_key_fallbacks", mode="before")
    @classmethod
    def _keys(cls, value: object) -> object:
        """Parse keys; a slash at the end belongs to the key."""
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("audit_copy")
    @classmethod
    def _places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for place in value:
            if place != "stdout" and not place.startswith(("/", "https://", "http://")):
                raise ValueError(f"{place!r} must be stdout, the absolute path of a file, or a URL")
        return value

    @field_validator("origins")
    @classmethod
    def _whole_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
                raise ValueError(f"{origin!r} is not an origin such as https://cards.example.com")
        return value

    @field_validator("agui_upstreams", mode="before")
    @classmethod
    def _named_urls(cls, value: object) -> object:
        """Parse named URLs; a slash at the end is kept."""
        if not isinstance(value, str):
            return value
        pairs = tuple(pair.strip() for pair in value.split(",") if pair.strip())
        for pair in pairs:
            name, _, url = pair.partition("=")
            parts = urlsplit(url)
            if not re.fullmatch(r"[\w.-]+", name) or parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("use the form planner=https://agents.example.com/agui, separated by commas")
        return pairs

    @field_validator("reviewer_commands", "reviewer_keys", mode="before")
    @classmethod
    def _named_texts(cls, value: object) -> object:
        """Parse names with their texts."""
        if not isinstance(value, str):
            return value
        pairs = tuple(pair.strip() for pair in value.split(",") if pair.strip())
        for pair in pairs:
            if not re.fullmatch(r"[\w.:\[\]-]+=\s*\S.*", pair):
                raise ValueError("use the form name=text, separated by commas")
        return pairs

    @property
    def commands_of_reviewers(self) -> dict[str, str]:
        """Return the command lines that reviewers may run, by name."""
        return dict(pair.split("=", 1) for pair in self.reviewer_commands)

    @property
    def keys_of_reviewers(self) -> dict[str, str]:
        """Return the environment variables with keys, by host."""
        return dict(pair.split("=", 1) for pair in self.reviewer_keys)

    @property
    def upstreams(self) -> dict[str, str]:
        """Return the URLs of AG-UI agents by name."""
        return dict(pair.split("=", 1) for pair in self.agui_upstreams)

    @property
    def https(self) -> bool:
        """Return whether people use https only."""
        return bool(self.origins) and all(origin.startswith("https://") for origin in self.origins)

    @property
    def plain_static(self) -> bool:
        """Return whether static files are served from their folders, without `collectstatic`."""
        developing = self.debug or "pytest" in sys.modules or "runserver" in sys.argv[1:2]
        return self.static == "plain" or (self.static == "auto" and developing)

    @property
    def origin_hosts(self) -> list[str]:
        """Return the host names of the origins for ALLOWED_HOSTS, without ports."""
        return [urlsplit(origin).netloc.removesuffix(f":{urlsplit(origin).port}") for origin in self.origins]


# Settings that hold secrets: TOOLCARDS_<NAME>_FILE names a file with the value, as container platforms provide them.
SECRET_NAMES = (
    "secret_key", "secret_key_fallbacks", "admin_password", "agent_key", "metrics_token", "smtp_url", "database_url",
    "redis_url",
)  # fmt: skip
# Variables of agents, commands and tests; the server ignores them.
OTHER_NAMES = (
    "url", "token", "claude_code_key", "person_password", "python", "browser", "no_install", "require_programs",
    "clients", "clients_dir",
)  # fmt: skip


def read_environment() -> Environment:
    """Return the checked environment, and create the data directory; raises ImproperlyConfigured."""
    _refuse_unknown_names()
    try:
        environment = Environment(**_read_secret_files())  # type: ignore[arg-type]
    except ValidationError as error:
        # Values are not shown, because some are secrets.
        faults = [(str(fault["loc"][0]).upper(), fault["msg"]) for fault in error.errors(include_input=False)]
        raise ImproperlyConfigured("; ".join(f"TOOLCARDS_{name}: {why}" for name, why in faults)) from None
    return environment.model_copy(update={"data_dir": _create_data_dir(environment.data_dir)})


def _refuse_unknown_names() -> None:
    """Refuse misspelled variables, which would otherwise have no effect unnoticed."""
    files = [f"{name}_file" for name in SECRET_NAMES]
    names = [f"TOOLCARDS_{name.upper()}" for name in (*Environment.model_fields, *files, *OTHER_NAMES)]
    unknown = [name for name in os.environ if name.startswith("TOOLCARDS_") and name not in names]
    hints = [(name, difflib.get_close_matches(name, names, n=1)) for name in sorted(unknown)]
    if hints:
        lines = [f"{name} is not a setting." + (f" Did you mean {close[0]}?" if close else "") for name, close in hints]
        raise ImproperlyConfigured(" ".join(lines))


def _read_secret_files() -> dict[str, str]:
    """Return the settings whose values are in files; a newline at the end is not part of the value."""
    values = {}
    for name in SECRET_NAMES:
        variable = f"TOOLCARDS_{name.upper()}"
        path = os.environ.get(f"{variable}_FILE")
        if not path:
            continue
        if os.environ.get(variable):
            raise ImproperlyConfigured(f"Both {variable} and {variable}_FILE are set. Set only one of them.")
        try:
            values[name] = Path(path).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ImproperlyConfigured(f"{variable}_FILE: cannot read {path}: {reason}") from None
        if not values[name].strip():
            raise ImproperlyConfigured(f"{variable}_FILE: {path} is empty")
    return values


_new_key_file: Path | None = None  # created by this process


def load_secret_key(from_environment: SecretStr | None, file: Path) -> str:
    """Return the key from the environment, else from the data directory.

    It is created there if it is missing.
    """
    if from_environment:
        return from_environment.get_secret_value()
    with suppress(FileNotFoundError):
        return file.read_text().strip()
    # Written to a temporary file and linked: if two processes start together, both read the same complete key.
    global _new_key_file
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(secrets.token_urlsafe(64) + "\n")
    with suppress(FileExistsError):
        os.link(draft, file)
        _new_key_file = file
    draft.unlink()
    return file.read_text().strip()


def discard_new_key() -> None:
    """Delete the key file if this process created it."""
    if _new_key_file is not None:
        _new_key_file.unlink(missing_ok=True)


def _create_data_dir(path: Path) -> Path:
    """Return the data directory, which only its owner can read."""
    path = path.expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"TOOLCARDS_DATA_DIR: {path} cannot be created: {error.strerror}") from error
    return path
