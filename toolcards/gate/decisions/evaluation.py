"""Evaluates a call whose input is complete: policy decides, and the decision is recorded."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from toolcards.client.common import tool_kinds
from toolcards.client.common.canonical_json import NotCanonical
from toolcards.core.calls import facts as f
from toolcards.core.calls import questions
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.policy import decision as policies_core
from toolcards.core.policy.decision import Effect, PolicyDecision, PolicyRequest, RuleSet
from toolcards.core.policy.tool_names import make_tool_key
from toolcards.gate import emergency, lasting_answers, policy_store
from toolcards.gate.approvals.holds import ReturnVisit
from toolcards.gate.decisions import grants, tool_register
from toolcards.gate.decisions.digests import digest_input, digest_value
from toolcards.gate.decisions.eligibility import VoterCount, get_source, list_identities
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.decisions.preflight import find_folder, get_offered_tools, is_stopped, prepare_call
from toolcards.gate.decisions.responses import build_decision
from toolcards.gate.questions import opening
from toolcards.gate.questions.opening import judge_parts, limit_waiting, open_approval
from toolcards.gate.twins.attachment import find_twin
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import BreakGlass, Grant, ToolCall

log = logging.getLogger(__name__)
S = ToolCallState


def evaluate_call(
    tx: Transaction,
    memory: RunMemory,
    card: Card,
    *,
    channel: str,
    now: float,
    can_wait: bool = True,
    patience: float = 0.0,
    return_visit: ReturnVisit | None = None,
    extras: dict[str, Any] | None = None,
    plugin_result: PluginResult | None = None,
) -> dict[str, Any] | PluginInquiry | None:
    """Decide on the call, record the decision, and return the agent's answer.

    A decided call gets the same answer again. A PluginInquiry means that plugins must be consulted first: call again
    with their `plugin_result`. None means that the call has already ended with a result. `patience`: the longest time
    in seconds that the agent waits, 0 for no limit.
    """
    if card.hard and card.state is not S.OUTPUT_DENIED:
        return build_decision(memory, card) if is_stopped(card) else None
    if card.decision or card.state is S.OUTPUT_DENIED:
        return build_decision(memory, card)
    args_sha256 = digest_input(card)
    prepared_call = prepare_call(tx, memory, card, now, args_sha256, plugin_result)
    if isinstance(prepared_call, PluginInquiry):
        return prepared_call
    if prepared_call is not card:
        card, args_sha256 = prepared_call, digest_input(prepared_call)
        if card.hard:
            return build_decision(memory, card)
    extras = extras or {}
    tool_snapshot = _snapshot_tool(memory, card, str(extras.get("schema_sha256", "")))
    decision = _decide(memory, card, tool_snapshot, can_wait=can_wait, now=now)
    if decision.effect is Effect.ASK:
        decision = limit_waiting(tx, memory.row.source_id, decision)
    decision = grants.use_retry(tx, memory, card, decision, channel, now)
    tx.record(memory, build_decision_fact(card, decision, args_sha256, now, tool_snapshot), card)
    _count_use(tx, decision, now)
    if decision.effect == Effect.DENY:
        tx.record(memory, f.OutputDenied(card.call_id, reason=decision.reason, by=decision.by, at=now), card)
    elif decision.effect == Effect.ASK:
        twin = find_twin(tx, memory, memory.board.cards[card.ordinal], decision, channel, str(extras.get("place", "")))
        open_approval(
            tx, memory, card, decision, args_sha256, channel=channel, now=now, patience=patience, twin=twin,
            return_visit=return_visit, extras=extras,
        )  # fmt: skip
    return build_decision(memory, memory.board.cards[card.ordinal])


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """What the source announced about the tool when the call was decided; frozen with the call."""

    schema_sha256: str = ""
    is_known: bool = True
    has_changed: bool = False


def build_decision_fact(
    card: Card, decision: PolicyDecision, args_sha256: str, now: float, tool_snapshot: ToolSnapshot | None = None
) -> f.PolicyDecided:
    """Return the fact that records a decision.

    `tool_snapshot`: the frozen one by default.
    """
    tool_snapshot = tool_snapshot or get_frozen_tool(card)
    return f.PolicyDecided(
        card.call_id, decision.effect, decision.code, decision.reason, decision.rule, decision.version, decision.by,
        decision.suggest, list(decision.would), args_sha256, tool_snapshot.schema_sha256,
        tool_snapshot.is_known, tool_snapshot.has_changed, now, dict(decision.moment),
    )  # fmt: skip


def get_frozen_tool(card: Card) -> ToolSnapshot:
    """Return the tool snapshot of the card's decision, or an empty one."""
    verdict = card.decision
    return ToolSnapshot(verdict.schema_sha256, verdict.known, verdict.changed) if verdict else ToolSnapshot()


def _snapshot_tool(memory: RunMemory, card: Card, schema_sha256: str) -> ToolSnapshot:
    tool = card.tool
    is_known = tool.name in memory.board.context.kinds or tool_kinds.is_known_tool(
        tool.name, tool.source, _get_program(memory)
    )
    return ToolSnapshot(schema_sha256, is_known, _has_tool_changed(memory, card, schema_sha256))


def _count_use(tx: Transaction, decision: PolicyDecision, now: float) -> None:
    """Count the use of grants or of break-glass."""
    if decision.grants:
        tx.uses.update((Grant._meta.db_table, grant) for grant in decision.grants)
    if decision.by.kind == "break_glass" and (break_glass := emergency.get_active_break_glass(now)):
        tx.uses[BreakGlass._meta.db_table, break_glass.pk] += 1


def _decide(
    memory: RunMemory, card: Card, tool_snapshot: ToolSnapshot, *, can_wait: bool, now: float
) -> PolicyDecision:
    """Return the decision of the active policy; deny if there is no policy or it cannot be read."""
    if not card.has_input and len(card.text):
        return _deny("invalid_args", "The arguments are not valid JSON, so they cannot be evaluated.")
    if card.has_input:
        try:
            digest_value(card.input)
        except NotCanonical as error:
            return _deny("invalid_args", f"The arguments cannot be evaluated: {error}")
    try:
        policy = policy_store.get_active_policy()
    except policy_store.UnreadablePolicy as error:
        log.exception("evaluation: policy version %s cannot be read", error.number)
        return _deny("gate_error", "The active policy cannot be read, so nothing is allowed.")
    except policy_store.NoActivePolicy:
        return _deny("gate_error", "There is no active policy, so nothing is allowed.")
    question = build_policy_request(memory, card, policy, tool_snapshot, can_wait=can_wait, now=now)
    is_form, count_voters = questions.is_form(card.tool.name), VoterCount(get_source(memory.row.source_id))
    decision = policies_core.decide(
        policy,
        question,
        grants=grants.find_grants(question, memory.row, now),
        kill_switch=emergency.is_kill_switch_on(),
        eligible=None if is_form else count_voters,
    )
    count_voters.check()
    decision = _apply_break_glass(grants.name_grantor(decision), now).with_changes(
        moment=describe_moment(memory, question)
    )
    if is_form and decision.effect != Effect.DENY:
        return opening.require_answer(decision, question, card.input, count_voters)
    if decision.effect is not Effect.ASK:
        return decision
    return judge_parts(policy, question, lasting_answers.offer_lasting_answers(decision, policy, question))


def build_policy_request(
    memory: RunMemory,
    card: Card,
    policy: RuleSet,
    tool_snapshot: ToolSnapshot | None = None,
    *,
    can_wait: bool = True,
    now: float,
) -> PolicyRequest:
    """Return what the policy is asked about the call.

    `tool_snapshot`: the frozen one by default.
    """
    tool_snapshot, source = tool_snapshot or get_frozen_tool(card), get_source(memory.row.source_id)
    return PolicyRequest.for_tool(
        card.tool.name,
        source=card.tool.source,
        program=_get_program(memory),
        claimed_kind=card.tool.kind,
        agent_path=card.agent_path or (source.name,),
        env=source.env,
        user=list_identities(source.owner) if source.owner else (),
        input=card.input,
        has_input=card.has_input,
        run=memory.row.name,
        now=now,
        is_known=tool_snapshot.is_known,
        changed=tool_snapshot.has_changed,
        schema=tool_snapshot.schema_sha256 or _get_announced_schema_digest(memory, card),
        can_wait=can_wait,
        counts=count_recent_calls(policy, memory, card, now) if policy.rates else {},
        root=memory.board.context.root,
        folder=find_folder(memory, card),
    )


def _get_program(memory: RunMemory) -> str:
    """Return the program whose tools the run calls."""
    return memory.board.context.program or memory.row.protocol


def describe_moment(memory: RunMemory, question: PolicyRequest) -> dict[str, Any]:
    """Return the circumstances of the evaluation.

    They name the program if the protocol does not tell it.
    """
    program = memory.board.context.program
    return question.moment | ({"program": program} if program else {})


def _has_tool_changed(memory: RunMemory, card: Card, schema_sha256: str) -> bool:
    """Return whether the tool differs from what the source announced under this name before."""
    digests = [
        (tool_register.NAMED_BY_AGENT, schema_sha256),
        (tool_register.ANNOUNCED, _get_announced_schema_digest(memory, card)),
    ]
    return tool_register.check_tool(memory.row.source_id, fit_text(card.tool.name, 300), digests, card.tool.source)


def _get_announced_schema_digest(memory: RunMemory, card: Card) -> str:
    offer = get_offered_tools(memory).get(card.tool.name)
    return tool_register.digest_schema(offer.schema) if offer else ""


def _apply_break_glass(decision: PolicyDecision, now: float) -> PolicyDecision:
    """Turn an ask into an allow while break-glass is active.

    A deny or an incomplete evaluation is never lifted.
    """
    if not decision.liftable:
        return decision
    break_glass = emergency.get_active_break_glass(now)
    if break_glass is None:
        return decision
    reason = f"Break-glass by {break_glass.by}: {break_glass.reason}"
    actor = f.Actor("break_glass", break_glass.by)
    return replace(decision, effect=Effect.ALLOW, code="break_glass", reason=reason, by=actor, ask=None)


def _deny(code: str, reason: str) -> PolicyDecision:
    actor = f.Actor("validation" if code == "invalid_args" else "gate_error")
    return PolicyDecision(effect=Effect.DENY, code=code, reason=reason, rule="", rules=(), version=0, by=actor)


def reevaluate_call(memory: RunMemory, card: Card, now: float) -> PolicyDecision:
    """Return the active policy's decision on a decided call; record nothing."""
    return _decide(memory, card, get_frozen_tool(card), can_wait=True, now=now)


# Counts the calls of a tool within the last seconds or minutes, for the rates of a policy.
LEAST_COUNTED = 500  # calls of a rate's window, so that a draft with another rate can be simulated


def count_recent_calls(policy: RuleSet, memory: RunMemory, card: Card, now: float) -> dict[tuple[str, int], int]:
    """Return the number of earlier calls for each scope and seconds."""
    counts, limit = {}, max(policy.highest_rate + 1, LEAST_COUNTED)  # no rule asks for more
    for scope, seconds in policy.rates:
        window_start = datetime.fromtimestamp(now - seconds, UTC)
        same_tool = ToolCall.objects.filter(tool_key=make_tool_key(card.tool.name), started_at__gte=window_start)
        calls = same_tool.exclude(run_id=memory.row.pk, ordinal=card.ordinal)
        if scope == "run":
            calls = calls.filter(run_id=memory.row.pk)
        elif scope in {"agent", "source"}:
            calls = calls.filter(run__source=memory.row.source_id)
        counts[scope, seconds] = calls[:limit].count()
    return counts
