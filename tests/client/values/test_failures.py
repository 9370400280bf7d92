"""Exceptions as errors on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.server import PATIENCE
from toolcards.client import hooks
from toolcards.client.values import failures


@pytest.fixture(autouse=True)
def _unplugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hooks, "LIMIT", PATIENCE)
    yield
    hooks.drain()
    hooks.clear()


def test_groups_and_causes_reach_the_wire_and_what_depends_on_the_tool_is_left_open() -> None:
    assert (
        failures.format_error(ExceptionGroup("", [ConnectionRefusedError(), FileNotFoundError()]))["code"]
        == "tool_failed"
    )
    assert failures.is_interruption(BaseExceptionGroup("", [asyncio.CancelledError()]))
    assert "retryable" not in failures.format_error(TimeoutError())


def test_the_wait_that_a_service_asks_for_is_reported() -> None:
    busy = RuntimeError("busy")
    busy.status_code, busy.headers = 503, {"Retry-After": "7"}  # type: ignore[attr-defined]
    assert failures.format_error(busy) == {"message": "busy", "code": "upstream", "authority": "tool", "after_ms": 7000}
    assert "after_ms" not in failures.format_error(RuntimeError("no words about it"))


def test_a_time_out_means_stopped_only_where_something_was_interrupted_and_no_tool_is_to_blame() -> None:
    theirs, its_own = TimeoutError("later"), TimeoutError()
    failures.mark_as_reported(its_own)
    assert failures.classify_run_end(None, True) == ("success", "")
    assert failures.classify_run_end(asyncio.CancelledError(), False)[0] == "aborted"
    assert failures.classify_run_end(theirs, True) == ("aborted", "later")
    assert failures.classify_run_end(TimeoutError(), True) == ("aborted", failures.OUT_OF_TIME)
    assert failures.classify_run_end(theirs, False)[0] == failures.classify_run_end(its_own, True)[0] == "error"
    assert failures.classify_run_end(ValueError("no"), True) == ("error", "no")
