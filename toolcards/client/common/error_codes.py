"""Whose fault an error is, and whether trying again makes sense: one table, and the ways to find a row in it.

`raised.of_exception` finds the row of a raised exception (our client, plug-ins),
`stated` fills in what the wire of an agent left unsaid, `of_denial` and `of_cause` name why a call was not run or
never ended. Nothing here ever reads the text of a message. Standard library only: our client carries a copy.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

# again: yes, no, or idempotent (only if repeating is safe); unwritten: only if nothing was written.
# effects: what the tool may have done all the same. phase "": where it happened.
_TABLE = """
row code              authority again      phase    effects   title
3   plugin_veto       plugin    no         before   none      A plug-in said no
4   plugin_crash      plugin    no         before   none      A plug-in crashed before the call
5   plugin_timeout    plugin    yes        before   none      A plug-in took too long
5   plugin_missing    plugin    no         before   none      A required plug-in is not available
6   after_hook_crash  plugin    no         after    confirmed A plug-in crashed after the call
7   policy_denied     runtime   no         gate     none      Policy does not allow this
7   kill_switch       runtime   no         gate     none      The kill switch is on
8   approval_denied   runtime   no         gate     none      A person declined
9   approval_expired  runtime   no         gate     none      Nobody answered in time
9   permit_expired    runtime   no         gate     none      Approved, but not executed in time
9   permit_revoked    runtime   no         gate     none      The permission was taken back
10  integrity         runtime   no         gate     none      Not what was approved
11  gate_unavailable  runtime   yes        gate     none      The gate could not be asked
12  no_such_tool      runtime   no         resolve  none      There is no such tool
13  invalid_input     tool      no         validate none      The tool cannot use this input
14  connect_failed    tool      yes        -        none      No connection
15  tls_invalid       tool      no         -        none      The other side's certificate is not valid
16  timeout           tool      idempotent -        possible  No answer in time
16  conn_lost         tool      idempotent -        possible  The connection broke
17  deadline          runtime   idempotent -        possible  Stopped by our own deadline
18  rate_limited      tool      yes        -        none      Too many requests
19  quota             tool      no         -        none      The quota is used up
20  upstream          tool      idempotent -        possible  The service failed
21  upstream_auth     tool      no         -        none      The service wants other credentials
22  conflict          tool      no         -        none      Something else changed it first
23  upstream_rejected tool      no         -        none      The service refused the request
24  tx_conflict       tool      yes        -        none      Two transactions got in each other's way
25  tool_failed       tool      no         -        possible  The tool failed
26  resource_busy     tool      unwritten  -        possible  Something it needs is busy
27  resource_exhausted tool     no         -        possible  Out of space or memory
28  exit_status       tool      no         -        possible  The program ended with an error
29  tool_reported     tool      no         -        possible  The tool reports an error
30  protocol          runtime   no         -        none      Agent and tool do not understand each other
30  transport         runtime   idempotent -        possible  The line to the tool broke
31  bad_output        tool      no         output   confirmed The result cannot be used
32  lost              runtime   no         -        possible  No result ever came
33  internal          tool      no         -        possible  The tool failed unexpectedly
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    number: int
    code: str
    authority: str
    again: str
    phase: str
    effects: str
    title: str


def _read(text: str) -> dict[str, Row]:
    lines = (line.split(None, 6) for line in text.strip().splitlines()[1:])
    return {
        code: Row(int(number), code, who, again, "" if phase == "-" else phase, effects, title)
        for number, code, who, again, phase, effects, title in lines
    }


TABLE: dict[str, Row] = _read(_TABLE)
RETRY_AFTER_MOST = 60_000  # milliseconds


@dataclass(frozen=True, slots=True)
class Fault:
    """One classified error. `safe` says whether repeating is safe: yes, no or unknown."""

    code: str
    authority: str
    retryable: bool
    phase: str
    effects: str
    safe: str = "unknown"
    after_ms: int | None = None
    http_status: int | None = None
    type: str = ""

    @property
    def title(self) -> str:
        """What happened, for a person."""
        return title(self.code)


def title(code: str) -> str:
    """Return the code in words, "" for a code that is not ours."""
    return TABLE[code].title if code in TABLE else ""


def waiting_time(after_ms: int | None) -> int | None:
    """Return the time to wait before the next try as we tell it: at most a minute; None where nobody said."""
    return None if after_ms is None else max(0, min(RETRY_AFTER_MOST, after_ms))


def fingerprint(tool: str, code: str, phase: str) -> str:
    """Return what failures of the same tool, for the same cause, have in common; it tells nothing of the input."""
    return hashlib.sha256("\0".join((tool, code, phase)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fault(
    code: str, *, phase: str = "execute", idempotent: bool | None = None, unwritten: bool = False, **seen: Any
) -> Fault:
    """Return the row as a fault; `idempotent` None: not known, which counts as no."""
    row = TABLE[code]
    nothing_done = row.effects == "none" or (row.again == "unwritten" and unwritten)
    safe = "yes" if nothing_done or idempotent else "unknown" if idempotent is None else "no"
    retryable = {"yes": True, "no": False, "idempotent": bool(idempotent), "unwritten": unwritten}[row.again]
    return Fault(code, row.authority, retryable, row.phase or phase, row.effects, safe, **seen)


# ---------------------------------------------------------------- from the wire

HARMLESS = frozenset({"read", "search", "fetch", "think"})  # kinds whose repetition changes nothing
AUTHORITIES = frozenset({"tool", "runtime", "plugin"})


@dataclass(frozen=True, slots=True)
class Stated:
    """A failure as a card shows it: what the agent said, and what follows from its code. None: not stated."""

    code: str
    authority: str
    retryable: bool | None
    phase: str


def stated(
    code: str = "", *, authority: str = "", retryable: bool | None = None, phase: str = "", kind: str = ""
) -> Stated:
    """Fill in what an agent left unsaid about a failed call. What it did say stands.

    Without a code only one thing is known: the tool failed, and nobody says whether again would help. Where that
    depends on the tool, and its `kind` (as policy knows it) says nothing, it stays unsaid.
    """
    row = TABLE.get(code)
    if row is None:
        who = authority if authority in AUTHORITIES else "tool"
        return Stated(code or "tool_failed", who, retryable, phase or "execute")
    if retryable is None and (row.again in {"yes", "no"} or kind not in {"", "other"}):
        retryable = fault(code, idempotent=kind in HARMLESS).retryable
    who = authority if authority in AUTHORITIES else row.authority
    return Stated(code, who, retryable, phase or row.phase or "execute")


_DENIALS = {
    "human": "approval_denied", "timeout": "approval_expired", "kill_switch": "kill_switch", "host": "approval_denied",
    "plugin": "plugin_veto",
}  # fmt: skip
_CAUSES = {"truncated": Stated("lost", "runtime", False, "execute")}


def of_denial(by_kind: str) -> str:
    """Return the code of a call that was not allowed, by who or what said no (the contract's `by.kind`)."""
    return _DENIALS.get(by_kind, "policy_denied")


def of_cause(cause: str) -> Stated:
    """Return what is known of a call whose surroundings ended: the run was stopped, broke off, or failed."""
    return _CAUSES.get(cause, Stated(cause.replace("-", "_"), "runtime", None, ""))
