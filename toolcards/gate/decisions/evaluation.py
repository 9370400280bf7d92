"""Policy meets call: judge a call whose input is complete, and write the decision down."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from toolcards.client.common import tool_kinds
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.policy import decision as policies_core
from toolcards.core.policy.decision import AskTerms, Decision, Effect, Policy, Question
from toolcards.gate import emergency, policy_store
from toolcards.gate.decisions import grants, tool_register
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import count_eligible_voters, list_asking_rules, list_identities
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.decisions.preflight import get_offered_tools, is_stopped, prepare_call
from toolcards.gate.decisions.responses import build_decision
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction, fit_text
from toolcards.ids import new_id
from toolcards.models import ToolCall

log = logging.getLogger(__name__)
USE_TTL = 300.0
S = ToolCallState


def evaluate_call(
    tx: Transaction,
    memory: RunMemory,
    card: Card,
    *,
    channel: str,
    at: float,
    can_wait: bool = True,
    patience: float = 0.0,
    extras: dict[str, Any] | None = None,
    heard: PluginResult | None = None,
) -> dict[str, Any] | PluginInquiry | None:
    """Decide on the call as its input stands and write that down; return the answer for the agent.

    The same input asked for again gets the same answer: nothing is decided, or asked, twice.
    An Inquiry where plug-ins must be asked first: nothing is decided yet; come again with what they say, as `heard`.
    None where the call has already ended with a result. `patience`: seconds that the agent waits at most, if not 0.
    """
    if card.hard and card.state is not S.OUTPUT_DENIED:
        return build_decision(memory, card) if is_stopped(card) else None
    if card.decision or card.state is S.OUTPUT_DENIED:
        return build_decision(memory, card)
    args_sha256 = digest_input(card)
    ready = prepare_call(tx, memory, card, at, args_sha256, heard)
    if isinstance(ready, PluginInquiry):
        return ready
    card = ready
    if card.hard:
        return build_decision(memory, card)
    args_sha256 = digest_input(card)
    schema_sha256 = str((extras or {}).get("schema_sha256", ""))
    seen = _snapshot_tool(memory, card, schema_sha256)
    decision = _decide(memory, card, seen, can_wait=can_wait, at=at)
    tx.record(memory, build_decision_fact(card, decision, args_sha256, at, seen), card)
    _record_usage(decision, at)
    if decision.effect == Effect.DENY:
        tx.record(memory, f.OutputDenied(card.call_id, reason=decision.reason, by=decision.by, at=at), card)
    elif decision.effect == Effect.ASK:
        open_approval(
            tx, memory, card, decision, args_sha256, channel=channel, at=at, patience=patience, extras=extras or {}
        )
    return build_decision(memory, memory.board.cards[card.ordinal])


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """What the source had shown of the call's tool when it was judged; frozen with the call."""

    schema_sha256: str = ""
    known: bool = True
    changed: bool = False


def build_decision_fact(
    card: Card, decision: Decision, args_sha256: str, at: float, seen: ToolSnapshot | None = None
) -> f.Decided:
    """Return the fact that records a decision; `seen` is what the card says where it was judged before."""
    seen = seen or get_frozen_tool(card)
    return f.Decided(
        card.call_id, decision.effect, decision.code, decision.reason, decision.rule, decision.version, decision.by,
        decision.suggest, list(decision.would), args_sha256, seen.schema_sha256, seen.known, seen.changed, at,
        dict(decision.moment),
    )  # fmt: skip


def get_frozen_tool(card: Card) -> ToolSnapshot:
    """Return what was known of the call's tool when it was judged."""
    verdict = card.decision
    return ToolSnapshot(verdict.schema_sha256, verdict.known, verdict.changed) if verdict else ToolSnapshot()


def _snapshot_tool(memory: RunMemory, card: Card, schema_sha256: str) -> ToolSnapshot:
    tool = card.tool
    known = tool.name in memory.board.context.kinds or tool_kinds.knows(tool.name, tool.source, memory.row.protocol)
    return ToolSnapshot(schema_sha256, known, _has_tool_changed(memory, card, schema_sha256))


def _record_usage(decision: Decision, at: float) -> None:
    """Count what let the call pass in place of a person."""
    if decision.grants:
        grants.count_use(decision.grants)
    if decision.by.kind == "break_glass" and (broken := emergency.get_active_break_glass(at)):
        emergency.count_passed_call(broken)


def _decide(memory: RunMemory, card: Card, seen: ToolSnapshot, *, can_wait: bool, at: float) -> Decision:
    """What the active policy says; without one, or if it fails, the answer is no."""
    if not card.has_input and len(card.text):
        return _deny("invalid_args", "The arguments are not valid JSON, so they cannot be judged.")
    if card.has_input:
        try:
            digest(card.input)
        except NotCanonical as error:
            return _deny("invalid_args", f"The arguments cannot be judged: {error}")
    try:
        policy = policy_store.get_active_policy()
    except policy_store.UnreadablePolicy as error:
        log.exception("judge: version %s cannot be read", error.number)
        return _deny("gate_error", "The active policy cannot be read, so nothing is allowed.")
    except policy_store.NoActivePolicy:
        return _deny("gate_error", "There is no active policy, so nothing is allowed.")
    source = memory.row.source
    question = Question.of(
        card.tool.name,
        source=card.tool.source,
        program=memory.row.protocol,
        claimed=card.tool.kind,
        agent_path=card.agent_path or (source.name,),
        env=source.env,
        user=list_identities(source.owner) if source.owner else (),
        input=card.input,
        has_input=card.has_input,
        run=memory.row.name,
        now=at,
        known=seen.known,
        changed=seen.changed,
        schema=seen.schema_sha256 or _get_announced_schema_digest(memory, card),
        can_wait=can_wait,
        counts=_count_recent_calls(policy, memory, card, at),
    )
    decision = policies_core.decide(
        policy,
        question,
        grants=grants.find_grants(question, memory.row, at),
        kill_switch=emergency.is_kill_switch_on(),
        eligible=lambda terms: count_eligible_voters(terms, source),
    )
    return _apply_break_glass(grants.name_grantor(decision), at).but(moment=question.moment)


def _has_tool_changed(memory: RunMemory, card: Card, schema_sha256: str) -> bool:
    """Whether the tool is another one than the source has shown under this name before."""
    shown = [
        (tool_register.ASKED, schema_sha256),
        (tool_register.ANNOUNCED, _get_announced_schema_digest(memory, card)),
    ]
    return tool_register.check_tool(memory.row.source_id, fit_text(card.tool.name, 300), shown, card.tool.source)


def _get_announced_schema_digest(memory: RunMemory, card: Card) -> str:
    offer = get_offered_tools(memory).get(card.tool.name)
    return tool_register.digest_schema(offer.schema) if offer else ""


def _apply_break_glass(decision: Decision, at: float) -> Decision:
    """Break-glass turns a question into a recorded allow; a deny, or what was not fully evaluated, it cannot lift."""
    if not decision.liftable:
        return decision
    broken = emergency.get_active_break_glass(at)
    if broken is None:
        return decision
    reason = f"Break-glass by {broken.by}: {broken.reason}"
    return replace(
        decision, effect=Effect.ALLOW, code="break_glass", reason=reason, by=f.By("break_glass", broken.by), ask=None
    )


def _count_recent_calls(policy: Policy, memory: RunMemory, card: Card, at: float) -> dict[tuple[str, int], int]:
    """Return the earlier calls of this tool in the windows that the policy's rates look at."""
    found = {}
    for scope, seconds in policy.rates:
        since = datetime.fromtimestamp(at - seconds, UTC)
        calls = ToolCall.objects.filter(tool=fit_text(card.tool.name, 300), started_at__gte=since).exclude(
            run_id=memory.row.pk, ordinal=card.ordinal
        )
        if scope == "run":
            calls = calls.filter(run_id=memory.row.pk)
        elif scope in {"agent", "source"}:
            calls = calls.filter(run__source=memory.row.source_id)
        found[scope, seconds] = calls.count()
    return found


def _deny(code: str, reason: str) -> Decision:
    by = f.By("validation" if code == "invalid_args" else "gate_error")
    return Decision(effect=Effect.DENY, code=code, reason=reason, rule="", rules=(), version=0, by=by)


def open_approval(
    tx: Transaction,
    memory: RunMemory,
    card: Card,
    decision: Decision,
    args_sha256: str,
    *,
    channel: str,
    at: float,
    patience: float = 0.0,
    extras: dict[str, Any],
) -> str:
    """Open a question to people about the call; return its id."""
    terms = decision.ask
    ttl = (terms.decide_ttl if terms and terms.decide_ttl else None) or settings.TOOLCARDS.decide_ttl
    ttl = min(ttl, patience or ttl)
    use_ttl = (terms.use_ttl if terms and terms.use_ttl else None) or USE_TTL
    asked = f.ApprovalAsked(
        card.call_id, id=new_id("apr"), reason=decision.reason, opener="gate", expires_at=at + ttl, votable=True,
        args_sha256=args_sha256, terms=build_card_terms(terms), at=at,
    )  # fmt: skip
    tx.approval_columns[asked.id] = {
        "channel": channel, "use_ttl": use_ttl, "version": decision.version,
        "rules": json.dumps(list_asking_rules(decision)), "terms": json.dumps(asdict(terms)) if terms else "{}",
    } | extras  # fmt: skip
    tx.record(memory, asked, card)
    return asked.id


def build_card_terms(terms: AskTerms | None) -> dict[str, Any]:
    """Return what a card must know to offer the right buttons."""
    if terms is None:
        return {}
    return {
        "need": terms.quorum, "editable": list(terms.editable), "grants": list(terms.grants), "reason": terms.reason,
        "severity": terms.severity, "reauth": terms.reauth,
    }  # fmt: skip


def reevaluate_call(memory: RunMemory, card: Card, at: float) -> Decision:
    """Return what the active policy says of the judged call, on what was frozen with it; decides nothing."""
    return _decide(memory, card, get_frozen_tool(card), can_wait=True, at=at)


def start_next_attempt(tx: Transaction, memory: RunMemory, card: Card, ready: f.InputReady) -> Card:
    """Begin a call once more after its run was lost, as it is asked for now; return the new card."""
    again = replace(
        ready, tool=ready.tool or card.tool.name, source=ready.source or card.tool.source, lane=card.lane,
        attempt=card.attempt, again=True,
    )  # fmt: skip
    return tx.record(memory, again)[-1]


def can_ask_again(card: Card) -> bool:
    """Return whether the run was lost before the judged call ran, so that it may be asked about again."""
    if not card.soft or is_stopped(card) or card.cause == "superseded":
        return False
    ask = card.approval
    return ask.state in {"cancelled", "expired"} if ask and ask.opener == "gate" else card.cause == "truncated"
