"""Finds the error code of an exception by its type, its numbers and its causes, never by its message.

Causes are followed in the order of a traceback, groups are split, and interruptions are not errors.
Standard library only, like `error_codes`.

Longer than most modules: the tables and the search that reads them in this order are one idea.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from .error_codes import TABLE, ClassifiedError, limit_wait, make_fault

MAX_CAUSES = 10
_LEAST_RETRYABLE = ("no", "unknown", "unwritten", "idempotent", "yes")

# Not errors. By name, because these packages may not be installed; subclasses count too.
_CONTROL = {
    "langgraph.GraphBubbleUp", "pydantic_ai.ApprovalRequired", "pydantic_ai.CallDeferred", "pydantic_ai.ModelRetry",
    "pydantic_ai.SkipToolExecution", "trio.Cancelled", "concurrent.CancelledError",
}  # fmt: skip
_INTERRUPTIONS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)

# Exceptions of optional packages by name: the package, then the class. The first match counts.
_NAMES = """
gate_unavailable toolcards.Unreachable
connect_failed   httpx.ConnectError httpx.ConnectTimeout httpx.PoolTimeout
connect_failed   httpcore.ConnectError httpcore.ConnectTimeout httpcore.PoolTimeout
connect_failed   urllib3.ConnectTimeoutError urllib3.NewConnectionError urllib3.NameResolutionError
connect_failed   requests.ConnectTimeout aiohttp.ClientConnectorError aiohttp.ConnectionTimeoutError
tls_invalid      aiohttp.ClientConnectorCertificateError
timeout          httpx.TimeoutException httpcore.TimeoutException requests.Timeout urllib3.TimeoutError
timeout          subprocess.TimeoutExpired concurrent.TimeoutError redis.TimeoutError
conn_lost        httpx.NetworkError httpx.RemoteProtocolError httpcore.NetworkError httpcore.RemoteProtocolError
conn_lost        urllib3.ProtocolError requests.ChunkedEncodingError aiohttp.ServerDisconnectedError
conn_lost        aiohttp.ClientPayloadError http.IncompleteRead websockets.ConnectionClosed redis.ConnectionError
transport        anyio.ClosedResourceError anyio.BrokenResourceError anyio.EndOfStream
tx_conflict      psycopg.DeadlockDetected psycopg.SerializationFailure psycopg.LockNotAvailable
tx_conflict      psycopg2.DeadlockDetected psycopg2.SerializationFailure
tool_failed      sqlite3.IntegrityError psycopg.IntegrityError psycopg2.IntegrityError
tool_failed      django.IntegrityError sqlalchemy.IntegrityError
exit_status      subprocess.CalledProcessError builtins.SystemExit
tool_reported    mcp.ToolError fastmcp.ToolError
"""
_BY_NAME = {name: code for code, *names in map(str.split, _NAMES.strip().splitlines()) for name in names}
_TYPES: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
    ("tls_invalid", (ssl.SSLCertVerificationError,)),
    ("connect_failed", (socket.gaierror, ConnectionRefusedError)),
    ("timeout", (TimeoutError,)),
    ("conn_lost", (ConnectionError, ssl.SSLError, EOFError)),
    ("resource_exhausted", (MemoryError, RecursionError)),
)
_ERRNOS: dict[int, str] = {
    **dict.fromkeys((errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EINTR, errno.EBUSY), "resource_busy"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.ENOMEM), "resource_exhausted"),
    errno.ETIMEDOUT: "timeout",
}
_LAST: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
    ("tool_failed", (OSError, ValueError, TypeError, LookupError)),
)
_STATUSES: dict[int, str] = {
    **dict.fromkeys((429, 408, 425), "rate_limited"), 402: "quota", **dict.fromkeys((401, 403), "upstream_auth"),
    **dict.fromkeys((409, 412), "conflict"),
}  # fmt: skip
_SQLSTATES = {"40001": "tx_conflict", "40P01": "tx_conflict", "55P03": "tx_conflict"}
_JSON_RPC = {-32601: "protocol", -32602: "protocol", -32603: "transport", -32000: "transport"}
# OpenSSL's names for failed handshakes: no request was sent.
_HANDSHAKE = frozenset({
    "WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_CIPHER", "HANDSHAKE_FAILURE",
    "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_PROTOCOL_VERSION", "TLSV1_UNRECOGNIZED_NAME", "HTTP_REQUEST",
})  # fmt: skip
_SQLITE_BUSY = (5, 6)
_MYSQL_LOCKS = (1205, 1213)
# Codes for a wrong value or type in these phases, before or after the tool's own code.
_IN_PHASE = {"validate": "invalid_input", "output": "bad_output"}


def classify_exception(
    error: BaseException,
    *,
    phase: str = "execute",
    idempotent: bool | None = None,
    deadline: bool = False,
    unwritten: bool = False,
) -> ClassifiedError | None:
    """Return the classified exception.

    None for an interruption or a framework's control flow.
    `deadline`: our own time limit stopped the tool, whatever was raised. Never raises.
    """
    if deadline:
        return make_fault("deadline", phase=phase, idempotent=idempotent, type=_get_type_name(error))
    code_and_error = _classify(error, phase, frozenset(), 0)
    if code_and_error is None:
        return None
    code, culprit = code_and_error
    wait = _find_retry_after(culprit) if TABLE[code].retry != "no" else None
    return make_fault(
        code, phase=phase, idempotent=idempotent, unwritten=unwritten, type=_get_type_name(culprit),
        http_status=_find_status(culprit), after_ms=limit_wait(wait),
    )  # fmt: skip


def classify_hook_exception(error: BaseException, *, after: bool = False) -> ClassifiedError:
    """Return a plugin's exception as a veto, a timeout or a crash."""
    stated_code = _get_attribute(error, "toolcards_code")
    if after and stated_code != "plugin_timeout":
        code = "after_hook_crash"
    elif stated_code in {"plugin_veto", "plugin_timeout"}:
        code = stated_code
    else:
        code = "plugin_crash"
    return make_fault(code, type=_get_type_name(error))


def classify_status(status: int) -> str:
    """Return the error code of an HTTP status."""
    if status in _STATUSES:
        return _STATUSES[status]
    return "upstream" if status >= 500 else "upstream_rejected"


def _classify(
    error: BaseException, phase: str, visited_ids: frozenset[int], depth: int
) -> tuple[str, BaseException] | None:
    """Return the code and the exception that it comes from; None if there are only interruptions."""
    if _is_interruption(error) and error.__cause__ is None:
        return None
    unknown: BaseException | None = None
    for cause in _iterate_causes(error, visited_ids):
        if _is_interruption(cause):
            continue
        parts = _get_group(cause)
        code = _find_code(cause, phase) if parts is None else ""
        if code:
            return (
                "tls_invalid" if code == "connect_failed" and _has_untrusted_certificate(cause, visited_ids) else code
            ), cause
        if parts is not None and depth < MAX_CAUSES:
            candidates = [_classify(part, phase, visited_ids | {id(cause)}, depth + 1) for part in parts]
            return min((part for part in candidates if part is not None), key=_retryability, default=None)
        unknown = unknown or cause
    if unknown is None:
        return None
    return ("tool_failed" if isinstance(unknown, OSError) else "internal"), unknown


def _has_untrusted_certificate(error: BaseException, visited_ids: frozenset[int]) -> bool:
    """Return whether the peer's certificate was rejected, which a retry cannot fix."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _iterate_causes(error, visited_ids))


def _retryability(code_and_error: tuple[str, BaseException]) -> tuple[int, int]:
    row = TABLE[code_and_error[0]]
    return _LEAST_RETRYABLE.index(row.retry), row.number


def _iterate_causes(error: BaseException, visited_before: frozenset[int]) -> Iterator[BaseException]:
    """Yield the exception and its causes, outermost first, in the order of a traceback."""
    visited_ids, current = set(visited_before), error
    for _ in range(MAX_CAUSES):
        if id(current) in visited_ids:
            return
        visited_ids.add(id(current))
        yield current
        # The context of an interruption is the work that it interrupted, so only an explicit cause counts.
        hidden = current.__suppress_context__ or _is_interruption(current)
        cause = current.__cause__ if current.__cause__ is not None else None if hidden else current.__context__
        if cause is None:
            return
        current = cause


def _get_group(error: BaseException) -> tuple[BaseException, ...] | None:
    """Return the exceptions of a group, detected by its shape so that the backport counts."""
    parts = _get_attribute(error, "exceptions")
    if isinstance(parts, (tuple, list)) and parts and all(isinstance(part, BaseException) for part in parts):
        return tuple(parts)
    return None


def _is_interruption(error: BaseException, depth: int = 0) -> bool:
    """Return whether it holds only interruptions and control flow."""
    parts = _get_group(error)
    if parts is not None:
        return depth < MAX_CAUSES and all(_is_interruption(part, depth + 1) for part in parts)
    names = set(_iterate_type_names(type(error)))
    return isinstance(error, _INTERRUPTIONS) or not names.isdisjoint(_CONTROL)


def _find_code(error: BaseException, phase: str) -> str:
    """Return the code of this one exception, "" if only the last row fits."""
    stated_code = _get_attribute(error, "toolcards_code")
    if isinstance(stated_code, str) and stated_code in TABLE:
        return stated_code
    finders: tuple[Callable[[BaseException], str], ...] = (
        _find_code_by_status,
        _find_code_by_name,
        _find_code_by_number,
        _find_code_by_type,
    )
    for find in finders:
        code = find(error)
        if code:
            return code
    for code, types in _LAST:
        if isinstance(error, types) and not _is_wrapper(error):
            return _IN_PHASE.get(phase, code) if not isinstance(error, OSError) else code
    return ""


def _is_wrapper(error: BaseException) -> bool:
    """Return whether this is a package's generic OSError, which says less than its cause."""
    return isinstance(error, OSError) and error.errno is None and type(error).__module__ != "builtins"


def _find_code_by_status(error: BaseException) -> str:
    status = _find_status(error)
    return classify_status(status) if status is not None else ""


def _find_code_by_name(error: BaseException) -> str:
    return next((_BY_NAME[name] for name in _iterate_type_names(type(error)) if name in _BY_NAME), "")


def _find_code_by_number(error: BaseException) -> str:
    """Return the code by a number that a driver or protocol sets on the exception."""
    if isinstance(error, ssl.SSLError) and _get_attribute(error, "reason") in _HANDSHAKE:
        return "connect_failed"
    state = _get_attribute(error, "sqlstate") or _get_attribute(error, "pgcode")
    if isinstance(state, str) and state in _SQLSTATES:
        return _SQLSTATES[state]
    lite = _get_attribute(error, "sqlite_errorcode")
    if isinstance(lite, int) and lite & 0xFF in _SQLITE_BUSY:
        return "tx_conflict"
    rpc_code = _get_attribute(_get_attribute(error, "error"), "code")
    if isinstance(rpc_code, int) and rpc_code in _JSON_RPC:
        return _JSON_RPC[rpc_code]
    module = type(error).__module__.partition(".")[0]
    if module in {"pymysql", "MySQLdb", "mysql"} and error.args and error.args[0] in _MYSQL_LOCKS:
        return "tx_conflict"
    return ""


def _find_code_by_type(error: BaseException) -> str:
    for code, types in _TYPES:
        if isinstance(error, types):
            return code
    return _ERRNOS.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _iterate_type_names(cls: type) -> Iterator[str]:
    """Yield the class and its parents as `package.Class`, without submodules."""
    for parent in cls.__mro__:
        package = str(getattr(parent, "__module__", "")).partition(".")[0]
        yield f"{package}.{parent.__name__}"


def _find_status(error: BaseException) -> int | None:
    """Return the HTTP status of an exception or of its response."""
    response = _get_attribute(error, "response")
    web = ("http", "urllib", "requests", "httpx", "aiohttp", "urllib3")
    own_names = ("status_code", "http_status", "status") + (
        ("code",) if type(error).__module__.partition(".")[0] in web else ()
    )
    for holder, names in ((error, own_names), (response, ("status_code", "status"))):
        for name in names:
            value = _get_attribute(holder, name)
            if type(value) is int and 400 <= value <= 599:
                return value
    return None


def _find_retry_after(error: BaseException) -> int | None:
    """Return `Retry-After` in milliseconds; dates are not supported."""
    for holder in (error, _get_attribute(error, "response")):
        headers = _get_attribute(holder, "headers")
        try:
            value = headers.get("Retry-After") if headers is not None else None
            if value is not None:
                return int(float(value) * 1000)
        except Exception:  # noqa: S112 - foreign headers
            continue
    return None


def _get_attribute(holder: Any, name: str) -> Any:
    """Return the attribute, None if it is missing or raises."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _get_type_name(error: BaseException) -> str:
    return type(error).__name__[:200]


def get_message(error: BaseException, most: int = 2000) -> str:
    """Return the exception's message, which is for people only; never raises."""
    try:
        return str(error)[:most]
    except Exception:
        return f"({_get_type_name(error)} cannot be shown)"
