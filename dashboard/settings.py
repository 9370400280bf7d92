"""Django's settings, from the environment: SQLite and memory by default, PostgreSQL and Redis by two URLs.

The TOOLCARDS_* variables that people set are fields in `environment.py`.
"""

from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from dashboard import environment, logs
from dashboard.environment import BASE_DIR, CHECKOUT, PACKAGE

TOOLCARDS = environment.read_environment()

SECRET_KEY_FILE = TOOLCARDS.data_dir / "secret_key"
SECRET_KEY = environment.load_secret_key(TOOLCARDS.secret_key, SECRET_KEY_FILE)
SECRET_KEY_FALLBACKS = [key.get_secret_value() for key in TOOLCARDS.secret_key_fallbacks]
DEBUG = TOOLCARDS.debug

# ---------------------------------------------------------------- the parts

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "dashboard.apps.DashboardConfig",  # before staticfiles, which has a runserver of its own
    "django.contrib.staticfiles",
    "channels",
    "servestatic",
    "toolcards.apps.ToolcardsConfig",
]

MIDDLEWARE = [
    "dashboard.middleware.SecurityHeaders",  # outermost, so that every answer has them, also static files and errors
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "dashboard.middleware.WholeResponseCompression",  # static files are compressed already
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dashboard.accounts.access.AccessMiddleware",
    "dashboard.middleware.NoNul",
    "dashboard.middleware.Acting",
    "dashboard.middleware.VisibleAdmin",
    "dashboard.middleware.TooBusy",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"


def _folders(name: str) -> list[Path]:
    """Return where templates or static files are: in the checkout, or inside the installed package."""
    folder = BASE_DIR / name if CHECKOUT else PACKAGE / f"_{name}"
    return [folder] if folder.is_dir() else []


TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": _folders("templates"),
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.context_processors.add_site_status",
            ],
        },
    }
]

# ---------------------------------------------------------------- data


def _sqlite(name: str | Path) -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        # Opening a connection per request would checkpoint and delete the WAL each time.
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",  # a read that becomes a write fails without waiting
            "timeout": 5,  # seconds to wait for a lock; the writer then retries
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000",
        },
        # A file, because the writer has its own connection.
        "TEST": {"NAME": TOOLCARDS.data_dir / "test.sqlite3"},
    }


def _database(url: str) -> dict[str, object]:
    if not url:
        return _sqlite(TOOLCARDS.data_dir / "toolcards.sqlite3")
    try:
        database = dj_database_url.parse(url)
        is_supported = database["ENGINE"].endswith(("sqlite3", "postgresql"))  # the level that the gate is tested with
    except (ValueError, KeyError):
        is_supported = False
    if not is_supported:
        message = "TOOLCARDS_DATABASE_URL is not a URL like postgres://name@host/database; without it, SQLite is used"
        raise ImproperlyConfigured(message)
    if database["ENGINE"].endswith("sqlite3"):
        return _sqlite(database["NAME"])
    # A thread has its connection for one request, because ASGI's threads end. Our backend keeps idle connections.
    # If another program holds a lock, requests are refused after this time.
    waits = {"connect_timeout": 5, "tcp_user_timeout": 10_000, "options": "-c lock_timeout=5s"}
    return {
        **database,
        "ENGINE": "toolcards.postgresql",
        "CONN_MAX_AGE": 0,
        "OPTIONS": {**waits, **database.get("OPTIONS", {})},
    }


DATABASES = {"default": _database(TOOLCARDS.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The layer carries only rings. In memory, a full queue drops messages, so it has a large capacity.
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "toolcards.channel_layers.waiting_redis.WaitingRedisLayer",
        "CONFIG": {"hosts": [TOOLCARDS.redis_url], "prefix": "toolcards"},
    }
    if TOOLCARDS.redis_url
    else {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 10_000}}
}

DATA_UPLOAD_MAX_MEMORY_SIZE = TOOLCARDS.max_body

# ---------------------------------------------------------------- people

LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

PASSWORD_HASHERS = ["dashboard.accounts.guessing.hashing.BoundedPBKDF2"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
] + [{"NAME": "dashboard.accounts.sign_in_views.MaximumLengthValidator"}]

# Cookies ignore ports: with Django's names, two programs on one computer would sign out each other's people.
_HOST = "__Host-" if TOOLCARDS.https else ""
SESSION_ENGINE = "dashboard.accounts.sessions"
SESSION_COOKIE_NAME = f"{_HOST}toolcards_session"
CSRF_COOKIE_NAME = f"{_HOST}toolcards_csrf"
DEVICE_COOKIE_NAME = f"{_HOST}toolcards_device"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True  # the CSRF token is in the page
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TOOLCARDS.https

ALLOWED_HOSTS = [*TOOLCARDS.allowed_hosts, *TOOLCARDS.origin_hosts]
CSRF_TRUSTED_ORIGINS = list(TOOLCARDS.origins)

SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if TOOLCARDS.https else 0
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS does not cover other hosts of the domain,
    "security.W021",  # and does not add it to the browsers' preload lists
    "security.W008",  # the proxy redirects; agents on this computer speak plain http to loopback
]

# ---------------------------------------------------------------- static files

STATIC_URL = "/static/"
STATIC_ROOT = TOOLCARDS.data_dir / "static"
STATICFILES_DIRS = _folders("static")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if TOOLCARDS.plain_static
        else "dashboard.serving.static_files.HashedStaticFilesStorage"
    },
}
SERVESTATIC_ALLOW_ALL_ORIGINS = False
SERVESTATIC_USE_FINDERS = SERVESTATIC_AUTOREFRESH = TOOLCARDS.plain_static
SERVESTATIC_USE_ZSTD = False

# ---------------------------------------------------------------- time, language, logs

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en"

LOGGING = logs.build_configuration(style=TOOLCARDS.log, level=TOOLCARDS.log_level)
