"""The format of log lines, and what is kept out of them."""

import logging
import re
import sys
from typing import Any

import structlog
from django.core.exceptions import ImproperlyConfigured

from toolcards.core.redaction.redactor import Redactor

BODIES = {"body", "frame", "input", "input_text", "output", "args", "arguments", "headers", "cookies", "authorization"}


def _drop_bodies(logger: object, name: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Remove bodies of agents and people."""
    return {key: "(not logged)" if key in BODIES else value for key, value in event.items()}


# Anyone who reads this path before its owner opens it can sign in as the owner.
SIGN_IN_LINK = re.compile(r"(/login/link/)[^/\s]+")


def _mask_links(logger: object, name: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Mask sign-in links, also in Django's lines about refused requests."""
    return {key: SIGN_IN_LINK.sub(r"\1…", value) if isinstance(value, str) else value for key, value in event.items()}


def _mask_secrets(logger: object, name: str, line: str) -> str:
    """Mask secrets in the finished line, including tracebacks."""
    try:
        from toolcards.encryption import get_redactor

        return get_redactor().text(line)
    except ImproperlyConfigured:  # settings are being read
        return Redactor(b"").text(line)


PROCESSORS: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _drop_bodies,
    _mask_links,
]


def _drop_refused_tracebacks(record: logging.LogRecord) -> bool:
    """Drop the traceback of a refused request, whose line is sufficient."""
    if getattr(record, "status_code", 500) < 500:
        record.exc_info = None
    return True


def _drop_outage_lines(record: logging.LogRecord) -> bool:
    """Drop Django's lines about an unavailable database; `toolcards.outages` reports it once."""
    from toolcards.database import report_outage

    error = record.exc_info[1] if record.exc_info else None
    return getattr(record, "status_code", 0) != 503 and not (error is not None and report_outage(error))


def build_configuration(*, style: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING: lines for people (`console`) or for machines (`json`)."""
    configure_structlog()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": PROCESSORS,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *_get_renderer(style),
                    _mask_secrets,
                ],
            }
        },
        "filters": {
            "refused": {"()": lambda: _drop_refused_tracebacks},
            "outages": {"()": lambda: _drop_outage_lines},
        },
        # Also set here, because the loggers below have their own levels and propagate to the root's handlers.
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["refused"],
                "level": level.upper(),
            }
        },
        "root": {"handlers": ["console"], "level": level.upper()},
        "loggers": {
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.request": {"filters": ["outages"]},
            "django.server": {"handlers": [], "level": "WARNING", "propagate": True},
            "django.db.backends": {"level": "WARNING"},  # its debug lines carry parameters
            "channels_redis": {"level": "CRITICAL"},  # else a traceback per second in an outage
            # A line per phase of every call is for machines, and would flood a terminal.
            "toolcards.steps": {"level": "INFO" if style == "json" or level == "debug" else "WARNING"},
            **{name: {"level": "WARNING"} for name in ("uvicorn", "daphne", "asyncio", "websockets")},
        },
    }


def configure_structlog() -> None:
    """Send structlog's events to the standard library's loggers."""
    structlog.configure(
        processors=[*PROCESSORS, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _get_renderer(style: str) -> list[structlog.types.Processor]:
    if style == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # The pretty traceback prints local variables, and those hold bodies.
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
