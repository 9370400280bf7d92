"""The classification table: types, numbers and causes decide, words never do."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import asyncio
import errno
import random
import socket
import sqlite3
import ssl
import subprocess

import pytest

from tests.support.tables import loop_over
from toolcards.client.common import error_codes, exception_codes


class Response:
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.status_code, self.headers = status, headers or {}


class HTTPStatusError(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        super().__init__("the words do not matter")
        self.response = Response(status, {name.replace("_", "-"): value for name, value in headers.items()})


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__

    @property
    def status_code(self) -> int:
        raise RuntimeError("no number either")


class Veto(Exception):
    toolcards_code = "plugin_veto"


def locked() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("whatever")
    error.sqlite_errorcode = 5
    return error


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def while_handling(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__context__ = inner
    return outer


def of_package(module: str, name: str, base: type[Exception] = Exception) -> Exception:
    return type(name, (base,), {"__module__": module})()


def handshake(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "words")
    error.reason = reason
    return error


REQUESTS = type("ConnectionError", (OSError,), {"__module__": "requests.exceptions"})


class McpError(Exception):
    def __init__(self, code: int) -> None:
        self.error = type("ErrorData", (), {"code": code})()


CASES = [
    (Veto(), "plugin_veto", "plugin", False),
    (socket.gaierror(-2, "x"), "connect_failed", "tool", True),
    (ConnectionRefusedError(), "connect_failed", "tool", True),
    (of_package("httpx", "ConnectTimeout"), "connect_failed", "tool", True),
    (of_package("urllib3.exceptions", "NewConnectionError"), "connect_failed", "tool", True),
    (ssl.SSLCertVerificationError(), "tls_invalid", "tool", False),
    (TimeoutError(), "timeout", "tool", False),
    (subprocess.TimeoutExpired("x", 1), "timeout", "tool", False),
    (ConnectionResetError(), "conn_lost", "tool", False),
    (BrokenPipeError(), "conn_lost", "tool", False),
    (asyncio.IncompleteReadError(b"", 3), "conn_lost", "tool", False),
    (HTTPStatusError(429), "rate_limited", "tool", True),
    (HTTPStatusError(408), "rate_limited", "tool", True),
    (HTTPStatusError(402), "quota", "tool", False),
    (HTTPStatusError(503), "upstream", "tool", False),
    (HTTPStatusError(401), "upstream_auth", "tool", False),
    (HTTPStatusError(409), "conflict", "tool", False),
    (HTTPStatusError(418), "upstream_rejected", "tool", False),
    (locked(), "tx_conflict", "tool", True),
    (sqlite3.IntegrityError(), "tool_failed", "tool", False),
    (FileNotFoundError(), "tool_failed", "tool", False),
    (PermissionError(), "tool_failed", "tool", False),
    (KeyError("x"), "tool_failed", "tool", False),
    (OSError(errno.EAGAIN, "x"), "resource_busy", "tool", False),
    (OSError(errno.ENOSPC, "x"), "resource_exhausted", "tool", False),
    (MemoryError(), "resource_exhausted", "tool", False),
    (RecursionError(), "resource_exhausted", "tool", False),
    (subprocess.CalledProcessError(2, "x"), "exit_status", "tool", False),
    (McpError(-32601), "protocol", "runtime", False),
    (McpError(-32603), "transport", "runtime", False),
    (of_package("mcp.server.fastmcp.exceptions", "ToolError"), "tool_reported", "tool", None),
    (Exception("429 Too Many Requests ECONNREFUSED timeout"), "internal", "tool", None),
    (Unspeakable(), "internal", "tool", None),
    # What the libraries really raise: a wrapper of their own around what happened.
    (
        while_handling(
            REQUESTS(),
            caused(
                of_package("urllib3.exceptions", "MaxRetryError"),
                of_package("urllib3.exceptions", "NewConnectionError"),
            ),
        ),
        "connect_failed",
        "tool",
        True,
    ),
    (while_handling(REQUESTS(), of_package("urllib3.exceptions", "ProtocolError")), "conn_lost", "tool", False),
    (
        while_handling(
            REQUESTS(), caused(of_package("urllib3.exceptions", "MaxRetryError"), ssl.SSLCertVerificationError())
        ),
        "tls_invalid",
        "tool",
        False,
    ),
    (REQUESTS(), "tool_failed", "tool", False),
    (
        caused(
            of_package("httpx", "ConnectError"),
            caused(of_package("httpcore", "ConnectError"), ssl.SSLCertVerificationError()),
        ),
        "tls_invalid",
        "tool",
        False,
    ),
    (caused(of_package("httpx", "ConnectError"), ConnectionRefusedError()), "connect_failed", "tool", True),
    (of_package("aiohttp.client_exceptions", "ClientConnectorCertificateError"), "tls_invalid", "tool", False),
    (handshake("SSLV3_ALERT_HANDSHAKE_FAILURE"), "connect_failed", "tool", True),
    (handshake("DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), "conn_lost", "tool", False),
    (of_package("psycopg.errors", "SerializationFailure"), "tx_conflict", "tool", True),
    (caused(of_package("django.db.utils", "OperationalError"), locked()), "tx_conflict", "tool", True),
    (BlockingIOError(errno.EAGAIN, "x"), "resource_busy", "tool", False),
    (IsADirectoryError(), "tool_failed", "tool", False),
    (of_package("toolcards.client.gate_client", "Unreachable"), "gate_unavailable", "runtime", True),
    (McpError(-32602), "protocol", "runtime", False),
    (McpError(-32000), "transport", "runtime", False),
]


HTTP = {
    18: [429, 408, 425],
    19: [402],
    20: [502, 503, 504, 500],
    21: [401, 403],
    22: [409, 412],
    23: [400, 404, 418, 422, 451],
}


@loop_over(("number", "status"), [(number, status) for number, value in HTTP.items() for status in value])
def test_every_status_finds_its_row(number: int, status: int) -> None:
    assert error_codes.TABLE[exception_codes.classify_status(status)].number == number
    assert exception_codes.classify_exception(HTTPStatusError(status)).code == exception_codes.classify_status(status)


@loop_over(("error", "code", "authority", "retryable"), CASES, ids=lambda value: str(type(value).__name__))
def test_an_exception_finds_its_row(error: BaseException, code: str, authority: str, retryable: bool) -> None:
    fault = exception_codes.classify_exception(error)
    assert fault is not None
    assert (fault.code, fault.authority, fault.retryable) == (code, authority, retryable)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit(),
    of_package("langgraph.errors", "GraphInterrupt", type("GraphBubbleUp", (Exception,), {"__module__": "langgraph.errors"})),
    of_package("pydantic_ai.exceptions", "ModelRetry"),
    BaseExceptionGroup("", [asyncio.CancelledError(), BaseExceptionGroup("", [KeyboardInterrupt()])]),
    while_handling(asyncio.CancelledError(), KeyError("was being handled")),
    while_handling(BaseExceptionGroup("", [asyncio.CancelledError()]), KeyError("was being handled")),
])  # fmt: skip
def test_interruptions_and_control_flow_are_no_errors(error: BaseException) -> None:
    assert exception_codes.classify_exception(error) is None


def test_a_mixture_of_interruption_and_failure_is_an_error() -> None:
    mixed = BaseExceptionGroup("", [asyncio.CancelledError(), FileNotFoundError()])
    assert exception_codes.classify_exception(mixed).code == "tool_failed"
    assert (
        exception_codes.classify_exception(caused(asyncio.CancelledError(), FileNotFoundError())).code == "tool_failed"
    )
    assert (
        exception_codes.classify_exception(while_handling(RuntimeError("cleaning up"), asyncio.CancelledError())).code
        == "internal"
    )


def test_asyncio_timeouts_are_no_cancellations() -> None:
    async def slow() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(1)

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(slow())
    assert exception_codes.classify_exception(caught.value).code == "timeout"


def test_a_group_is_as_retryable_as_its_least_retryable_part() -> None:
    group = ExceptionGroup("", [ConnectionRefusedError(), ExceptionGroup("", [TimeoutError(), HTTPStatusError(401)])])
    assert exception_codes.classify_exception(group).code == "upstream_auth"
    assert (
        exception_codes.classify_exception(ExceptionGroup("", [ConnectionRefusedError(), TimeoutError()])).code
        == "timeout"
    )


def test_parts_of_a_group_may_share_a_cause() -> None:
    shared = ConnectionRefusedError()
    group = ExceptionGroup("", [caused(RuntimeError(), shared), caused(RuntimeError(), shared)])
    assert exception_codes.classify_exception(group).code == "connect_failed"


def test_the_cause_tells_what_a_wrapper_hides_and_the_wrapper_wins_where_it_tells() -> None:
    assert (
        exception_codes.classify_exception(caused(RuntimeError("wrapped"), ConnectionRefusedError())).code
        == "connect_failed"
    )
    assert exception_codes.classify_exception(caused(HTTPStatusError(500), ConnectionRefusedError())).code == "upstream"


def test_suppressed_context_is_not_looked_at() -> None:
    error = while_handling(RuntimeError(), ConnectionRefusedError())
    error.__suppress_context__ = True
    assert exception_codes.classify_exception(error).code == "internal"


def test_cycles_of_causes_end() -> None:
    one, two = RuntimeError(), RuntimeError()
    one.__cause__, two.__cause__ = two, one
    assert exception_codes.classify_exception(one).code == "internal"
    group = ExceptionGroup("", [two])
    two.__cause__ = group
    assert exception_codes.classify_exception(group).code == "internal"


def test_causes_are_followed_ten_deep_and_no_deeper() -> None:
    near, far = ConnectionRefusedError(), ConnectionRefusedError()
    error: BaseException = near
    for _ in range(9):
        error = caused(RuntimeError(), error)
    assert exception_codes.classify_exception(error).code == "connect_failed"
    error = far
    for _ in range(10):
        error = caused(RuntimeError(), error)
    assert exception_codes.classify_exception(error).code == "internal"


def test_an_exception_that_cannot_be_formatted_gets_a_message() -> None:
    assert exception_codes.get_message(Unspeakable()) == "(Unspeakable cannot be shown)"
    assert len(exception_codes.get_message(ValueError("x" * 9000))) == 2000


def test_repeating_is_safe_only_where_nothing_was_sent_or_it_changes_nothing() -> None:
    assert exception_codes.classify_exception(TimeoutError(), idempotent=True).retryable
    assert exception_codes.classify_exception(TimeoutError()).safe == "unknown"
    assert exception_codes.classify_exception(TimeoutError(), idempotent=False).safe == "no"
    assert exception_codes.classify_exception(ConnectionRefusedError()).safe == "yes"
    assert exception_codes.classify_exception(TimeoutError()).effects == "possible"
    assert exception_codes.classify_exception(OSError(errno.EBUSY, ""), unwritten=True).retryable


def test_our_own_deadline_is_reported_and_not_guessed() -> None:
    fault = exception_codes.classify_exception(asyncio.CancelledError(), deadline=True)
    assert (fault.code, fault.authority) == ("deadline", "runtime")


def test_retry_after_is_honoured_up_to_a_minute() -> None:
    assert exception_codes.classify_exception(HTTPStatusError(429, Retry_After="2")).after_ms == 2000
    assert exception_codes.classify_exception(HTTPStatusError(429, Retry_After="86400")).after_ms == 60_000
    assert exception_codes.classify_exception(HTTPStatusError(503, Retry_After="3")).after_ms == 3000
    assert exception_codes.classify_exception(HTTPStatusError(401, Retry_After="3")).after_ms is None
    for odd in ("soon", "inf", "nan", ""):
        assert exception_codes.classify_exception(HTTPStatusError(429, Retry_After=odd)).after_ms is None
    assert exception_codes.classify_exception(HTTPStatusError(429)).http_status == 429


def test_the_phase_tells_bad_input_from_bad_output() -> None:
    assert exception_codes.classify_exception(ValueError(), phase="validate").code == "invalid_input"
    assert exception_codes.classify_exception(TypeError(), phase="output").code == "bad_output"
    assert exception_codes.classify_exception(ValueError(), phase="output").effects == "confirmed"


def test_a_veto_and_a_crash_of_a_plugin_are_different_things() -> None:
    assert exception_codes.classify_hook_exception(Veto()).code == "plugin_veto"
    assert exception_codes.classify_hook_exception(KeyError()).code == "plugin_crash"
    assert exception_codes.classify_hook_exception(KeyError(), after=True).code == "after_hook_crash"
    assert exception_codes.classify_hook_exception(KeyError()).authority == "plugin"


def test_a_thousand_random_causes_always_get_an_answer() -> None:
    dice = random.Random(7)
    leaves = [case[0] for case in CASES] + [asyncio.CancelledError(), KeyboardInterrupt()]
    for _ in range(1000):
        errors: list[BaseException] = [
            type(leaf)() if leaf.__class__ in {KeyError, RuntimeError} else leaf for leaf in leaves
        ]
        for _ in range(dice.randrange(12)):
            outer = BaseExceptionGroup("", dice.sample(errors, 2)) if dice.random() < 0.4 else RuntimeError()
            setattr(outer, dice.choice(["__cause__", "__context__"]), dice.choice(errors))
            errors.append(outer)
        fault = exception_codes.classify_exception(errors[-1], phase=dice.choice(["execute", "validate", "output"]))
        assert fault is None or fault.code in error_codes.TABLE
