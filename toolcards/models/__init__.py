"""The tables: sources and their keys, runs, the event log, tool calls, approvals, policy versions.

Only `gate` writes runs, events, calls and approvals (`write_guard`). The log is append-only, except that
`gate/maintenance/run_masking.py` masks secrets in it after a run has ended. JSON is stored in text columns as ASCII, so
that NUL and lone surrogates in text from agents survive in any database.
"""

from toolcards.audit.rows import AuditHead, AuditRow  # Django looks for tables here
from toolcards.models.approvals import ANSWERED_STATES, Approval, ApprovalQuerySet, Grant, GrantQuerySet, Review, Vote
from toolcards.models.calls import SourceDay, ToolCall, ToolCallQuerySet, _shown_cards
from toolcards.models.notifications import Delivery, PushBrowser, PushKey, Webhook
from toolcards.models.people import PersonalToken, SavedFilter
from toolcards.models.policies import BreakGlass, Draft, DraftRule, KillSwitch, PolicyVersion
from toolcards.models.runs import (
    AmbiguousRun,
    Event,
    EventQuerySet,
    LogIsFinal,
    Run,
    RunQuerySet,
    decode_run_name,
    encode_run_name,
    get_run_path,
)
from toolcards.models.search_index import SearchBlock, SearchSegment
from toolcards.models.server_processes import GroupCommit, Pulse
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
    SourceUsage,
    get_key_changes,
    hash_secret,
)

__all__ = [
    "ANSWERED_STATES",
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
    "PersonalToken",
    "PolicyVersion",
    "Proof",
    "Pulse",
    "PushBrowser",
    "PushKey",
    "Receipt",
    "ReceiptPart",
    "Review",
    "Run",
    "RunQuerySet",
    "SavedFilter",
    "SearchBlock",
    "SearchSegment",
    "SeenTool",
    "Source",
    "SourceDay",
    "SourceUsage",
    "ToolCall",
    "ToolCallQuerySet",
    "Vote",
    "Webhook",
    "_shown_cards",
    "decode_run_name",
    "encode_run_name",
    "get_key_changes",
    "get_run_path",
    "hash_secret",
]
