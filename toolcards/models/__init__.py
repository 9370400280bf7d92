"""The tables: sources and their keys, runs, the event log, calls as last known, approvals, policy versions.

Only `gate` writes runs, events, calls and approvals (a test keeps it so). The log is never changed, but for
secrets in it, which `gate/maintenance/retention.py` masks after a run has ended.
JSON lives in text columns as ASCII, so that NUL and lone surrogates in agents' text survive any database.
"""

from toolcards.audit.trail import AuditHead, AuditRow  # Django looks for tables here
from toolcards.models.approvals import ANSWERED, Approval, ApprovalQuerySet, Grant, GrantQuerySet, Vote
from toolcards.models.calls import ToolCall, ToolCallQuerySet, _shown_cards
from toolcards.models.commits import GroupCommit
from toolcards.models.notifications import Delivery, Webhook
from toolcards.models.policies import BreakGlass, Draft, DraftRule, KillSwitch, PolicyVersion
from toolcards.models.pulse import Pulse
from toolcards.models.runs import AmbiguousRun, Event, EventQuerySet, LogIsFinal, Run, RunQuerySet, get_run_path
from toolcards.models.sources import (
    EVERY_SCOPE,
    READ_ALL,
    SCOPES,
    AgentKey,
    AgentKeyQuerySet,
    Proof,
    Receipt,
    ReceiptPart,
    SeenTool,
    Source,
    get_key_changes,
    hash_secret,
)

__all__ = [
    "ANSWERED",
    "EVERY_SCOPE",
    "READ_ALL",
    "SCOPES",
    "AgentKey",
    "AgentKeyQuerySet",
    "AmbiguousRun",
    "Approval",
    "ApprovalQuerySet",
    "AuditHead",
    "AuditRow",
    "BreakGlass",
    "Delivery",
    "Draft",
    "DraftRule",
    "Event",
    "EventQuerySet",
    "Grant",
    "GrantQuerySet",
    "GroupCommit",
    "KillSwitch",
    "LogIsFinal",
    "PolicyVersion",
    "Proof",
    "Pulse",
    "Receipt",
    "ReceiptPart",
    "Run",
    "RunQuerySet",
    "SeenTool",
    "Source",
    "ToolCall",
    "ToolCallQuerySet",
    "Vote",
    "Webhook",
    "_shown_cards",
    "get_key_changes",
    "get_run_path",
    "hash_secret",
]
