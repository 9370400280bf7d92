"""The table of error codes: who causes each error, and whether a retry makes sense.

`exception_codes.classify_exception` finds the row of an exception, `complete_failure` adds what an agent did not
report, `get_denial_code` and `get_cause_failure` name why a call did not run or never ended. The text of a message is
never read. Standard library only: the client has a copy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

# retry: yes, no, idempotent (only if repeating is safe), unwritten (only if nothing was written) or unknown.
# effects: what the tool may have done nevertheless. phase "": the phase in which it failed.
_TABLE = """
row code              authority retry      phase    effects   title
3   plugin_veto       plugin    no         before   none      A plugin denied it
4   plugin_crash      plugin    no         before   none      A plugin crashed before the call
5   plugin_timeout    plugin    yes        before   none      A plugin took too long
5   plugin_missing    plugin    no         before   none      A required plugin is not available
6   after_hook_crash  plugin    no         after    confirmed A plugin crashed after the call
7   policy_denied     runtime   no         gate     none      Policy does not allow this
7   kill_switch       runtime   no         gate     none      The kill switch is on
8   approval_denied   runtime   no         gate     none      A person declined
9   approval_expired  runtime   no         gate     none      No one answered in time
9   permit_expired    runtime   no         gate     none      Approved, but not executed in time
9   permit_revoked    runtime   no         gate     none      The approval was revoked
10  integrity         runtime   no         gate     none      The call differs from what was approved
11  gate_unavailable  runtime   yes        gate     none      No decision from the gate
12  no_such_tool      runtime   no         resolve  none      No such tool
13  invalid_input     tool      no         validate none      The input is not valid for this tool
14  connect_failed    tool      yes        -        none      No connection
15  tls_invalid       tool      no         -        none      The server's certificate is not valid
16  timeout           tool      idempotent -        possible  No answer in time
16  conn_lost         tool      idempotent -        possible  The connection was lost
17  deadline          runtime   idempotent -        possible  Stopped by the agent's own deadline
18  rate_limited      tool      yes        -        none      Too many requests
19  quota             tool      no         -        none      The quota is used up
20  upstream          tool      idempotent -        possible  The service failed
21  upstream_auth     tool      no         -        none      The service rejected the credentials
22  conflict          tool      no         -        none      Conflict with another change
23  upstream_rejected tool      no         -        none      The service refused the request
24  tx_conflict       tool      yes        -        none      Two transactions conflicted
25  tool_failed       tool      no         -        possible  The tool failed
26  resource_busy     tool      unwritten  -        possible  A required resource is busy
27  resource_exhausted tool     no         -        possible  Out of space or memory
28  exit_status       tool      no         -        possible  The program ended with an error
29  tool_reported     tool      unknown    -        possible  The tool reports an error
30  protocol          runtime   no         -        none      Agent and tool use different protocols
30  transport         runtime   idempotent -        possible  The connection to the tool was lost
31  bad_output        tool      no         output   confirmed The result cannot be used
32  lost              runtime   unknown    -        possible  No result was received
33  internal          tool      unknown    -        possible  The tool failed unexpectedly
"""


@dataclass(frozen=True, slots=True)
class ErrorCodeRow:
    """One row of the table."""

    number: int
    code: str
    authority: str
    retry: str
    phase: str
    effects: str
    title: str


def _parse_table(text: str) -> dict[str, ErrorCodeRow]:
    lines = (line.split(None, 6) for line in text.strip().splitlines()[1:])
    return {
        code: ErrorCodeRow(int(number), code, authority, retry, "" if phase == "-" else phase, effects, title)
        for number, code, authority, retry, phase, effects, title in lines
    }


TABLE: dict[str, ErrorCodeRow] = _parse_table(_TABLE)
_RETRYABLE: dict[str, bool | None] = {"yes": True, "no": False, "unknown": None}
MAX_RETRY_AFTER = 60_000  # milliseconds


@dataclass(frozen=True, slots=True)
class ClassifiedError:
    """One classified error. `safe`: whether repeating is safe (yes, no or unknown)."""

    code: str
    authority: str
    retryable: bool | None  # None: not known
    phase: str
    effects: str
    safe: str = "unknown"
    after_ms: int | None = None
    http_status: int | None = None
    type: str = ""

    @property
    def title(self) -> str:
        """What happened, for a person."""
        return get_title(self.code)


def get_title(code: str) -> str:
    """Return the title of a code, "" for an unknown one."""
    return TABLE[code].title if code in TABLE else ""


def limit_wait(after_ms: int | None) -> int | None:
    """Return the wait before a retry in milliseconds, at most a minute."""
    return None if after_ms is None else max(0, min(MAX_RETRY_AFTER, after_ms))


def make_fingerprint(tool: str, code: str, phase: str) -> str:
    """Return a hash of tool, code and phase.

    It reveals nothing about the input.
    """
    return hashlib.sha256("\0".join((tool, code, phase)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def make_fault(
    code: str, *, phase: str = "execute", idempotent: bool | None = None, unwritten: bool = False, **details: Any
) -> ClassifiedError:
    """Return the classified error of a code.

    `idempotent` None means unknown, like no.
    """
    row = TABLE[code]
    nothing_done = row.effects == "none" or (row.retry == "unwritten" and unwritten)
    safe = "yes" if nothing_done or idempotent else "unknown" if idempotent is None else "no"
    retryable = _RETRYABLE[row.retry] if row.retry in _RETRYABLE else bool(idempotent)
    if row.retry == "unwritten":
        retryable = unwritten
    return ClassifiedError(code, row.authority, retryable, row.phase or phase, row.effects, safe, **details)


# ---------------------------------------------------------------- from the wire

HARMLESS = frozenset({"read", "search", "fetch", "think"})  # kinds whose repetition changes nothing
AUTHORITIES = frozenset({"tool", "runtime", "plugin", "unknown"})


@dataclass(frozen=True, slots=True)
class StatedFailure:
    """A failure as a card shows it: what the agent reported, and what its code implies. None: not stated."""

    code: str
    authority: str
    retryable: bool | None
    phase: str


def complete_failure(
    code: str = "", *, authority: str = "", retryable: bool | None = None, phase: str = "", kind: str = ""
) -> StatedFailure:
    """Add what the agent did not report about a failed call.

    Without a code, all that is known is that the tool failed. `retryable` stays None if it depends on the tool and its
    `kind` (as policy knows it) is unknown.
    """
    row = TABLE.get(code)
    if row is None:
        responsible = authority if authority in AUTHORITIES else "tool"
        return StatedFailure(code or "tool_failed", responsible, retryable, phase or "execute")
    if retryable is None and (row.retry in _RETRYABLE or kind not in {"", "other"}):
        retryable = make_fault(code, idempotent=kind in HARMLESS).retryable
    responsible = authority if authority in AUTHORITIES else row.authority
    return StatedFailure(code, responsible, retryable, phase or row.phase or "execute")


# Where the title of the code would name a person.
_DENIAL_TITLES = {"host": "The agent's host declined", "reviewer": "A reviewer declined"}
_DENIALS = {
    "human": "approval_denied", "timeout": "approval_expired", "kill_switch": "kill_switch", "host": "approval_denied",
    "plugin": "plugin_veto", "reviewer": "approval_denied",
}  # fmt: skip
_CAUSES = {"truncated": StatedFailure("lost", "runtime", None, "execute")}


def get_denial_code(by_kind: str) -> str:
    """Return the code of a denied call by the contract's `by.kind`."""
    return _DENIALS.get(by_kind, "policy_denied")


def get_denial_title(code: str, by_kind: str) -> str:
    """Return the title of a denial by the contract's `by.kind`."""
    return _DENIAL_TITLES.get(by_kind) or get_title(code) if code == "approval_denied" else get_title(code)


def get_cause_failure(cause: str) -> StatedFailure:
    """Return the failure of a call that its run's end closed.

    `cause`: stopped, cut off or failed.
    """
    return _CAUSES.get(cause, StatedFailure(cause.replace("-", "_"), "runtime", None, ""))
