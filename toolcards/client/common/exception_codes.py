"""Which row of the table an exception belongs to: by its type, its numbers and its causes, never by its words.

The causes are walked as a traceback shows them, groups are taken apart, interruptions are no errors.
Standard library only, as `errors` is.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from .error_codes import TABLE, Fault, fault, waiting_time

DEEPEST = 10  # causes looked at
_LEAST_RETRYABLE = ("no", "unwritten", "idempotent", "yes")

# 1 and 2: not errors. By name, since none of these packages need be here; subclasses count too.
_CONTROL = {
    "langgraph.GraphBubbleUp", "pydantic_ai.ApprovalRequired", "pydantic_ai.CallDeferred", "pydantic_ai.ModelRetry",
    "pydantic_ai.SkipToolExecution", "trio.Cancelled", "concurrent.CancelledError",
}  # fmt: skip
_INTERRUPTIONS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)

# What exceptions of packages that need not be here are called: the package, then the class. The first that fits.
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
# OpenSSL's names for handshakes that came to nothing: no request was sent.
_HANDSHAKE = frozenset({
    "WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_CIPHER", "HANDSHAKE_FAILURE",
    "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_PROTOCOL_VERSION", "TLSV1_UNRECOGNIZED_NAME", "HTTP_REQUEST",
})  # fmt: skip
_SQLITE_BUSY = (5, 6)
_MYSQL_LOCKS = (1205, 1213)
# In these phases a wrong value or type means something else than in the tool's own code.
_IN_PHASE = {"validate": "invalid_input", "output": "bad_output"}


def of_exception(
    error: BaseException,
    *,
    phase: str = "execute",
    idempotent: bool | None = None,
    deadline: bool = False,
    unwritten: bool = False,
) -> Fault | None:
    """Return what the exception is, or None where it is no error: an interruption, or a framework's control flow.

    `deadline`: our own clock stopped the tool, whatever was raised. Never raises, whatever the exception does.
    """
    if deadline:
        return fault("deadline", phase=phase, idempotent=idempotent, type=_name(error))
    found = _classified(error, phase, frozenset(), 0)
    if found is None:
        return None
    code, culprit = found
    wait = _retry_after(culprit) if TABLE[code].again != "no" else None
    return fault(
        code, phase=phase, idempotent=idempotent, unwritten=unwritten, type=_name(culprit),
        http_status=_status(culprit), after_ms=waiting_time(wait),
    )  # fmt: skip


def of_hook(error: BaseException, *, after: bool = False) -> Fault:
    """Return what a plug-in's exception is: a typed veto, a time-out of ours, or a crash."""
    stated = _attribute(error, "toolcards_code")
    if after and stated != "plugin_timeout":
        code = "after_hook_crash"
    elif stated in {"plugin_veto", "plugin_timeout"}:
        code = stated
    else:
        code = "plugin_crash"
    return fault(code, type=_name(error))


def of_status(status: int) -> str:
    """Return the code of an HTTP answer's status."""
    if status in _STATUSES:
        return _STATUSES[status]
    return "upstream" if status >= 500 else "upstream_rejected"


def _classified(error: BaseException, phase: str, seen: frozenset[int], depth: int) -> tuple[str, BaseException] | None:
    """The code and the exception that it was found at; None for interruptions only."""
    if _pure(error) and error.__cause__ is None:
        return None
    unknown: BaseException | None = None
    for cause in _chain(error, seen):
        if _pure(cause):
            continue
        parts = _group(cause)
        code = _code(cause, phase) if parts is None else ""
        if code:
            return ("tls_invalid" if code == "connect_failed" and _untrusted(cause, seen) else code), cause
        if parts is not None and depth < DEEPEST:
            within = [_classified(part, phase, seen | {id(cause)}, depth + 1) for part in parts]
            return min((part for part in within if part is not None), key=_retryability, default=None)
        unknown = unknown or cause
    if unknown is None:
        return None
    return ("tool_failed" if isinstance(unknown, OSError) else "internal"), unknown


def _untrusted(error: BaseException, seen: frozenset[int]) -> bool:
    """Whether there was no connection because of the other side's certificate: trying again will not mend that."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _chain(error, seen))


def _retryability(found: tuple[str, BaseException]) -> tuple[int, int]:
    row = TABLE[found[0]]
    return _LEAST_RETRYABLE.index(row.again), row.number


def _chain(error: BaseException, seen: frozenset[int]) -> Iterator[BaseException]:
    """The exception and what caused it, outermost first, as a traceback shows them; cycles end it."""
    known, current = set(seen), error
    for _ in range(DEEPEST):
        if id(current) in known:
            return
        known.add(id(current))
        yield current
        # What an interruption interrupted was being handled: only an explicit cause belongs to it.
        hidden = current.__suppress_context__ or _pure(current)
        cause = current.__cause__ if current.__cause__ is not None else None if hidden else current.__context__
        if cause is None:
            return
        current = cause


def _group(error: BaseException) -> tuple[BaseException, ...] | None:
    """The exceptions of a group; by shape, so that Python 3.10's backport counts."""
    parts = _attribute(error, "exceptions")
    if isinstance(parts, (tuple, list)) and parts and all(isinstance(part, BaseException) for part in parts):
        return tuple(parts)
    return None


def _pure(error: BaseException, depth: int = 0) -> bool:
    """Nothing but interruptions and control flow."""
    parts = _group(error)
    if parts is not None:
        return depth < DEEPEST and all(_pure(part, depth + 1) for part in parts)
    names = set(_names(type(error)))
    return isinstance(error, _INTERRUPTIONS) or not names.isdisjoint(_CONTROL)


def _code(error: BaseException, phase: str) -> str:
    """The row's code for this one exception, "" where only the last row is left."""
    stated = _attribute(error, "toolcards_code")
    if isinstance(stated, str) and stated in TABLE:
        return stated
    looks: tuple[Callable[[BaseException], str], ...] = (_by_status, _by_name, _by_number, _by_type)
    for look in looks:
        code = look(error)
        if code:
            return code
    for code, types in _LAST:
        if isinstance(error, types) and not _wrapper(error):
            return _IN_PHASE.get(phase, code) if not isinstance(error, OSError) else code
    return ""


def _wrapper(error: BaseException) -> bool:
    """A package's own kind of OSError (requests has one for everything) says less than what caused it."""
    return isinstance(error, OSError) and error.errno is None and type(error).__module__ != "builtins"


def _by_status(error: BaseException) -> str:
    status = _status(error)
    return of_status(status) if status is not None else ""


def _by_name(error: BaseException) -> str:
    return next((_BY_NAME[name] for name in _names(type(error)) if name in _BY_NAME), "")


def _by_number(error: BaseException) -> str:
    """Numbers that drivers and protocols put on their exceptions."""
    if isinstance(error, ssl.SSLError) and _attribute(error, "reason") in _HANDSHAKE:
        return "connect_failed"
    state = _attribute(error, "sqlstate") or _attribute(error, "pgcode")
    if isinstance(state, str) and state in _SQLSTATES:
        return _SQLSTATES[state]
    lite = _attribute(error, "sqlite_errorcode")
    if isinstance(lite, int) and lite & 0xFF in _SQLITE_BUSY:
        return "tx_conflict"
    spoken = _attribute(_attribute(error, "error"), "code")
    if isinstance(spoken, int) and spoken in _JSON_RPC:
        return _JSON_RPC[spoken]
    module = type(error).__module__.partition(".")[0]
    if module in {"pymysql", "MySQLdb", "mysql"} and error.args and error.args[0] in _MYSQL_LOCKS:
        return "tx_conflict"
    return ""


def _by_type(error: BaseException) -> str:
    for code, types in _TYPES:
        if isinstance(error, types):
            return code
    return _ERRNOS.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _names(cls: type) -> Iterator[str]:
    """The class and its parents, each after its package: where in the package they live is the package's affair."""
    for parent in cls.__mro__:
        package = str(getattr(parent, "__module__", "")).partition(".")[0]
        yield f"{package}.{parent.__name__}"


def _status(error: BaseException) -> int | None:
    """The HTTP status on an exception or on its response."""
    response = _attribute(error, "response")
    web = ("http", "urllib", "requests", "httpx", "aiohttp", "urllib3")
    named = ("status_code", "http_status", "status") + (
        ("code",) if type(error).__module__.partition(".")[0] in web else ()
    )
    for holder, names in ((error, named), (response, ("status_code", "status"))):
        for name in names:
            value = _attribute(holder, name)
            if type(value) is int and 400 <= value <= 599:
                return value
    return None


def _retry_after(error: BaseException) -> int | None:
    """What `Retry-After` asks for, in milliseconds; dates are not read."""
    for holder in (error, _attribute(error, "response")):
        headers = _attribute(holder, "headers")
        try:
            value = headers.get("Retry-After") if headers is not None else None
            if value is not None:
                return int(float(value) * 1000)
        except Exception:  # noqa: S112 - somebody else's headers
            continue
    return None


def _attribute(holder: Any, name: str) -> Any:
    """The attribute, None where it is missing or raises."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _name(error: BaseException) -> str:
    return type(error).__name__[:200]


def message_of(error: BaseException, most: int = 2000) -> str:
    """Return the exception's own words, which are for people only; never raises."""
    try:
        return str(error)[:most]
    except Exception:
        return f"({_name(error)} cannot be shown)"
