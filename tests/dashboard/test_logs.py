"""Log lines: without secrets, and not louder than asked for."""

from __future__ import annotations

import logging

import pytest

from dashboard import logs

pytestmark = pytest.mark.django_db
SECRET = "Zx9vK3qLm7pR"


@pytest.mark.parametrize("style", ["console", "json"])
def test_log_lines_hide_secrets_tracebacks_included(style: str) -> None:
    formatter = logs.build_configuration(style=style, level="info")["formatters"]["line"]
    line = formatter.pop("()")(**formatter)
    try:
        raise ValueError(f"PASSWORD={SECRET}")
    except ValueError:
        import sys

        record = logging.LogRecord("x", logging.ERROR, "f", 1, "token=%s", (SECRET,), sys.exc_info())
    result = line.format(record)
    assert (
        SECRET not in result
        and "‹secret" in result.encode().decode("unicode-escape", "ignore")
        or "secret value" in result
    )


@pytest.mark.parametrize("level", ["error", "warning", "info", "debug"])
def test_no_logger_says_more_than_was_asked_for(level: str) -> None:
    console = logs.build_configuration(style="json", level=level)["handlers"]["console"]
    assert console["level"] == level.upper()


def test_a_refused_request_leaves_a_line_and_no_traceback() -> None:
    from django.core.exceptions import PermissionDenied

    try:
        raise PermissionDenied
    except PermissionDenied:
        import sys

        record = logging.LogRecord("django.request", logging.WARNING, "f", 1, "Forbidden", (), sys.exc_info())
    record.status_code = 403
    configuration = logs.build_configuration(style="console", level="info")
    refusal = configuration["filters"]["refused"]["()"]()
    assert refusal(record) and record.exc_info is None
    assert "refused" in configuration["handlers"]["console"]["filters"]
