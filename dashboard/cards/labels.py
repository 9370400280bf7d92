"""Labels of states, people, anomalies and reviews, in tables, so that a new state or code is one row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from toolcards.client.common import error_codes
from toolcards.core.calls.card import Card, CardError, ToolCallState
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.facts.outcome_facts import WITHDRAWN_REASON
from toolcards.core.review.review_answer import find_asked_reviewer
from toolcards.core.runs.input_routing import CHANGED_ANOMALY

S = ToolCallState


@dataclass(frozen=True, slots=True)
class StateLabel:
    """How a state is shown: word, icon, color token and badge; `live` ones are animated."""

    word: str
    icon: str
    st: str
    form: str = "soft"
    live: bool = False


STATE_LABELS: dict[str, StateLabel] = {
    S.INPUT_STREAMING: StateLabel("Writing input", "circle-dashed", "stream", "dashed", live=True),
    S.INPUT_AVAILABLE: StateLabel("Running", "play", "run", live=True),
    S.APPROVAL_REQUESTED: StateLabel("Needs approval", "hand", "ask", "solid", live=True),
    S.APPROVAL_RESPONDED: StateLabel("Approved", "check-check", "ok", "outline"),
    S.OUTPUT_AVAILABLE: StateLabel("Done", "circle-check", "ok"),
    S.OUTPUT_ERROR: StateLabel("Failed", "triangle-alert", "err"),
    S.OUTPUT_DENIED: StateLabel("Denied", "ban", "deny", "outline"),
}
PRELIMINARY = StateLabel("Running, partial output", "radio", "run", live=True)
AWAITING = StateLabel("Waiting for the app", "monitor", "run", "outline")
ATTACHED = StateLabel("Asked already", "hand", "run", "outline", live=True)
AUTOMATIC = StateLabel("Checked automatically", "shield", "run", "outline")
# Errors that ended a call before anything ran, by their phase.
NEVER_RAN = {
    "resolve": StateLabel("No such tool", "triangle-alert", "err"),
    "validate": StateLabel("Invalid input", "triangle-alert", "err"),
    "before": StateLabel("Stopped by a plugin", "triangle-alert", "err"),
}
EXPIRED = StateLabel("Expired", "clock", "deny", "outline")

# A soft end is inferred; a real result can still replace it.
SOFT_END_LABELS: dict[str, StateLabel] = {
    "aborted": StateLabel("Stopped", "octagon-pause", "off", "dotted"),
    "truncated": StateLabel("No result received", "circle-question-mark", "off", "dotted"),
    "not-executed": StateLabel("Not run", "pause", "off", "dotted"),
    "incomplete-input": StateLabel("Input incomplete", "circle-dashed", "off", "dotted"),
    "superseded": StateLabel("Replaced", "history", "off", "dotted"),
    "run-error": StateLabel("Run failed", "triangle-alert", "err", "dotted"),
    "no-result": StateLabel("No result reported", "circle-question-mark", "off", "dotted"),
}
MANUAL_OUTCOME_LABELS = {
    "succeeded": StateLabel("Done, recorded by a person", "circle-check", "ok", "dotted"),
    "failed": StateLabel("Failed, recorded by a person", "triangle-alert", "err", "dotted"),
}
SOFT_SENTENCES = {
    "aborted": "The run was stopped before this call had a result.",
    "truncated": "The agent lost contact. The tool may have run: check before trying again.",
    "not-executed": "The run ended without running this call.",
    "incomplete-input": "The run ended while the agent was still writing this input. The tool did not run.",
    "superseded": "A newer approval or message replaced this one. This call did not run.",
    "run-error": "The run failed while this call was open. The tool may have run: check before trying again.",
    "no-result": "The turn ended, and no result was reported. The tool may have run.",
}
CHANGED_SENTENCE = (
    "Changed while you were reading: the agent sent a different tool or input for this call. "
    "This call did not run; the new call has its own card."
)
UNUSED_SENTENCE = "Approved, but the agent did not start the call in time. It did not run."
WITHDRAWN_SENTENCES = {  # by whether it was answered
    False: "The agent withdrew the question before anyone answered. The gate did not let the call run.",
    True: "Approved, but the agent withdrew the question then. It did not fetch the answer.",
}
# For a call whose outcome a person recorded: while the agent reported no result, and after it did.
MANUAL_OUTCOME_NOTES = {
    True: "The agent reported no result. If one still arrives, it replaces this outcome.",
    False: "The agent’s own result arrived later and takes precedence.",
}
# What a person answered to a refusal by the agent's own reviewer.
RETRY_SENTENCES = {
    "granted": "{} let it try again: the same call of this run runs once.",
    "dismissed": "Dismissed by {}.",
    "announced": "{} let it try again, and the agent knows: the same call of this run runs once.",
    "used": "{} let it try again, and it was tried again.",
}
# The same if the input was incomplete: then nothing can have run.
UNWRITTEN_SENTENCES = {
    "aborted": "The run was stopped while the agent was still writing this input. The tool did not run.",
    "truncated": "The agent lost contact while it was still writing this input. The tool did not run.",
    "run-error": "The run failed while the agent was still writing this input. The tool did not run.",
}

KIND_ICONS = {
    "read": "file-text", "edit": "file-pen", "delete": "trash-2", "move": "move-right", "search": "search",
    "execute": "terminal", "think": "brain", "fetch": "globe", "switch_mode": "git-compare", "other": "wrench",
}  # fmt: skip

ANOMALIES = {
    "ran-without-approval": "Ran without the requested approval",
    "corrected-by-snapshot": "Corrected later: a snapshot showed that it had failed",
    "ungoverned": "Ran outside the gate, without a decision",
    "conflicting-terminal": "Two different results were reported; the first one counts",
    "late-response": "An answer arrived after the approval was decided, and was ignored",
    "duplicate-terminal": "The result was reported twice",
    CHANGED_ANOMALY: "The agent sent another tool or input after this call was decided",
    "cannot-be-opened": "The original cannot be read: its encryption key is missing, or another version wrote it",
    "unreadable-input": "The agent’s input is not JSON and cannot be read",
    "protocol-violation": "Messages about this call arrived out of order",
}

_ACTOR_TEMPLATES = {
    "human": "{name}", "rule": "rule {name}", "grant": "standing approval {name}",
    "default": "the policy’s default",
    "timeout": "the time limit", "kill_switch": "Stop all", "break_glass": "the pause of approvals by {name}",
    "gate_error": "the gate (it could not decide)", "no_approver": "the gate (no one can approve it)",
    "reviewer": "the reviewer {name}",
    "host": "the agent’s host {name}", "plugin": "the plugin {name}",
    "validation": "the gate’s input check",
}  # fmt: skip
AUTHORITIES = {
    "tool": "the tool or its backend", "runtime": "the agent’s runtime or the gate, not the tool",
    "plugin": "a plugin",
    "provider": "the model provider", "host": "the agent’s host", "gate": "Toolcards",
    "unknown": "unknown: the error came before the input was complete, but the tool may have run",
}  # fmt: skip
# The cause if the code is more specific than the authority.
_CAUSES = {
    "plugin_veto": "a plugin denied it", "policy_denied": "the policy does not allow it",
    "kill_switch": "all calls are stopped", "approval_denied": "a person denied it",
    "approval_expired": "no one answered in time",
    "permit_expired": "the agent did not start it in time", "permit_revoked": "the approval was revoked",
    "integrity": "the agent: the call differs from what was approved",
    "gate_unavailable": "Toolcards, or the connection to it",
    "no_such_tool": "the model: it named a tool that does not exist",
    "invalid_input": "the model: its input is not valid for this tool",
    "connect_failed": "the network, or the service behind the tool", "tls_invalid": "the service behind the tool",
    "rate_limited": "the service behind the tool", "quota": "the quota of the service",
    "upstream": "the service behind the tool", "upstream_auth": "the tool’s credentials",
    "deadline": "the agent’s own time limit", "protocol": "the connection between agent and tool",
    "transport": "the connection between agent and tool", "lost": "the agent lost contact",
}  # fmt: skip
# Reasons that need more words than the effect.
_RETRIES = {
    "plugin_veto": "No, the plugin would deny it again", "policy_denied": "No, the policy would deny it again",
    "kill_switch": "Not while all calls are stopped", "approval_denied": "No, a person denied it",
    "approval_expired": "Yes, with a new approval request", "permit_expired": "Yes, with a new approval request",
    "no_such_tool": "Not unchanged: the tool name must be corrected",
    "invalid_input": "Not unchanged: the input must be corrected",
    "upstream_auth": "Not until the credentials are corrected", "quota": "Not until more quota is available",
    "after_hook_crash": "No, the tool has run", "bad_output": "No, the tool has run",
    **dict.fromkeys(
        ("timeout", "conn_lost", "deadline", "upstream", "transport", "lost", "resource_busy"),
        "Check first, it may have run",
    ),
}  # fmt: skip
RETRYABLE = {True: "Yes, the same call may succeed", False: "No, it would fail again", None: "Not stated"}
EFFECTS = {"allow": "Allowed", "deny": "Denied", "ask": "Asked"}
RUN_LABELS: dict[str, StateLabel] = {
    "running": StateLabel("Running", "play", "run", live=True),
    "waiting": StateLabel("Needs approval", "hand", "ask", "solid"),
    "finished": StateLabel("Finished", "circle-check", "ok"),
    "error": StateLabel("Failed", "triangle-alert", "err"),
    "aborted": StateLabel("Stopped", "octagon-pause", "off", "dotted"),
    "truncated": StateLabel("Lost contact", "circle-question-mark", "off", "dotted"),
}


def get_run_label(status: str) -> StateLabel:
    """Return the label of a run's status."""
    return RUN_LABELS.get(status, RUN_LABELS["running"])


def get_label(card: Card) -> StateLabel:
    """Return the label of the card's situation."""
    state = card.state or S.INPUT_STREAMING
    if card.soft and card.by_hand:
        return MANUAL_OUTCOME_LABELS[card.by_hand.outcome]
    if card.soft:
        return SOFT_END_LABELS.get(card.cause or "", STATE_LABELS[state])
    if card.preliminary:
        return PRELIMINARY
    if card.awaiting_client:
        return AWAITING
    return _find_special_label(card, state)


def _find_special_label(card: Card, state: ToolCallState) -> StateLabel:
    if state is S.APPROVAL_REQUESTED and card.approval and card.approval.automatic:
        return AUTOMATIC
    if card.approval and card.approval.twin and card.unanswered:
        return ATTACHED
    if state is S.OUTPUT_ERROR and card.error and card.error.phase in NEVER_RAN:
        return NEVER_RAN[card.error.phase]
    if state is S.OUTPUT_DENIED and card.denied_by and card.denied_by.kind == "timeout":
        return EXPIRED
    return STATE_LABELS[state]


def describe_reason_need(condition: str) -> str:
    """Return when a rule needs a reason (`condition`: always, on_deny, never)."""
    return {"always": "required", "on_deny": "required to deny"}.get(condition, "optional")


def describe_missing_reason(card: Card) -> str:
    """Return the words for a missing reason or error message."""
    return "No reason given" if card.state is S.OUTPUT_DENIED else "No error message given"


def describe_cause(error: CardError) -> str:
    """Return who must change something before the call can succeed."""
    row = error_codes.TABLE.get(error.code)
    if row is not None and row.authority == error.authority and error.code in _CAUSES:
        return _CAUSES[error.code]
    return AUTHORITIES.get(error.authority, error.authority) or "Not stated"


def describe_retry(error: CardError) -> str:
    """Return whether it makes sense to repeat the call."""
    row = error_codes.TABLE.get(error.code)
    is_unknown = error.retryable is None and row is not None and row.retry == "unknown"
    has_reason = error.retryable is False or is_unknown
    return _RETRIES.get(error.code, RETRYABLE[error.retryable]) if has_reason else RETRYABLE[error.retryable]


def describe_soft_end(card: Card) -> str:
    """Return what an inferred end of a call means."""
    cause = card.cause or ""
    if cause == "superseded" and any(code == CHANGED_ANOMALY for code, _ in card.anomalies):
        return CHANGED_SENTENCE
    if card.approval is not None and card.approval.state == "expired" and card.times.decided:
        return UNUSED_SENTENCE
    if card.error is not None and card.error.message == WITHDRAWN_REASON:
        return WITHDRAWN_SENTENCES[bool(card.times.decided)]
    is_complete = card.has_input or card.times.available
    return (SOFT_SENTENCES if is_complete else SOFT_SENTENCES | UNWRITTEN_SENTENCES).get(cause, "")


def describe_actor(actor: Actor | None) -> str:
    """Return who or what answered, in the form that follows "by"."""
    if actor is None:
        return "someone"
    return _ACTOR_TEMPLATES.get(actor.kind, "{name}").format(name=actor.name).strip() or actor.kind


_WORDS = {
    "allow": "Reviewer {} answered allow", "deny": "Reviewer {} answered deny", "ask": "Reviewer {} left it to people",
    "": "Reviewer {} did not answer",
}  # fmt: skip


class ReviewLine(NamedTuple):
    """A line of the card. `state`: looking, allow, ask, deny or failed; `prompt` is the digest of the prompt."""

    state: str
    words: str
    reason: str = ""
    note: str = ""
    prompt: str = ""


def describe_review(card: Card) -> ReviewLine | None:
    """Return the line of the card, None without a reviewer."""
    reviewer = find_asked_reviewer(card)
    if reviewer:
        return ReviewLine("looking", f"Reviewer {reviewer} is looking. You can answer meanwhile.")
    review = card.approval.review if card.approval else None
    if not review:
        return None
    answer = review["answer"]
    words = _WORDS.get(answer, _WORDS[""]).format(review["by"])
    return ReviewLine(answer or "failed", words, review["reason"], review["note"], review["prompt_sha256"])


# Icons as HTML.
@lru_cache(maxsize=512)
def render_icon(name: str, classes: str = "") -> SafeString:
    """Return an icon of the sprite.

    The text next to it has its meaning.
    """
    sprite = static("vendor/lucide/sprite.svg")
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="{}#i-{}"/></svg>', classes, sprite, name)
