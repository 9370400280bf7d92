"""Checks, repairs and plugins before policy decides on a call.

resolve -> validate -> repair (at most once) -> `before` plugins -> policy (evaluation.py)

Policy decides on the result. A call that cannot be used ends here with one error. Plugins run outside the writer
(plugins.py); here their verdict is applied. A call whose run was lost, or that was given up, begins a next attempt.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from django.conf import settings

from toolcards import hooks
from toolcards.client.common.canonical_json import NotCanonical, canonicalize
from toolcards.core import input_repair
from toolcards.core.calls import facts as f
from toolcards.core.calls import questions, tool_events
from toolcards.core.calls.card import BY_SOURCE, Card
from toolcards.core.input_repair import Offer, Trouble
from toolcards.core.policy.places.project import UNKNOWN_FOLDER
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Event

PHASES_BEFORE_RUN = frozenset({"resolve", "validate", "before"})
_RUN_STARTED_PREFIX = '{"type":"run-started"'  # how the JSON of a RunStarted fact begins
REPEATED_MISTAKE = " The same mistake was made before in this run. Try a different approach."


def prepare_call(
    tx: Transaction,
    memory: RunMemory,
    card: Card,
    now: float,
    args_sha256: str,
    plugin_result: PluginResult | None = None,
) -> Card | PluginInquiry:
    """Return the call to decide on, or the inquiry for plugins.

    After an inquiry, call again with its `plugin_result`. A call that cannot be used is ended and returned.
    `args_sha256`: digest of the input as the agent sent it.
    """
    card = _repair_input(tx, memory, card, now)
    if card.hard or not (plugin_result or hooks.has_guards()):
        return card
    shown_sha256 = digest_input(card)
    if plugin_result is None or not plugin_result.inquiry.matches(memory.row.pk, card, shown_sha256):
        return _build_inquiry(memory, card, now, shown_sha256, args_sha256)
    return _apply_verdict(tx, memory, card, now, plugin_result)


def is_stopped(card: Card) -> bool:
    """Return whether the call ended before policy decided on it."""
    return card.error is not None and card.error.phase in PHASES_BEFORE_RUN and card.decision is None and card.hard


def start_next_attempt(tx: Transaction, memory: RunMemory, card: Card, ready: f.InputReady) -> Card:
    """Start the next attempt after a lost run; return the new card."""
    fact = replace(
        ready, tool=ready.tool or card.tool.name, source=ready.source or card.tool.source, lane=card.lane,
        attempt=card.attempt, again=True,
    )  # fmt: skip
    return tx.record(memory, fact)[-1]


def can_ask_again(card: Card) -> bool:
    """Return whether the decided call did not run.

    Its run was lost, or the agent gave it up.
    """
    if not card.soft or is_stopped(card) or card.cause == "superseded":
        return False
    ask = card.approval
    if ask and ask.opener == "gate":
        return ask.state in {"cancelled", "expired"}
    is_given_up = card.cause == "aborted" and card.permit is not None and card.permit.state == "void"
    return card.cause == "truncated" or is_given_up


def get_stopper(card: Card) -> f.Actor:
    """Return who ended a call before policy decided: plugin or validation."""
    return f.Actor("plugin" if card.error is not None and card.error.authority == "plugin" else "validation")


def get_offered_tools(memory: RunMemory) -> dict[str, Offer]:
    """Return the tools that the run announced, by name (cached)."""
    if not memory.board.context.kinds:
        return {}
    if memory.offers is None or memory.offers[0] != len(memory.board.context.kinds):
        events = Event.objects.filter(run=memory.row.pk, ordinal=0).of_type(f.RunStarted.type).order_by("seq")
        tool_lists = [fact.tools for event in events if isinstance(fact := event.readable_fact, f.RunStarted)]
        unwritten = (row.fact for row in memory.events if not row.ordinal and row.fact.startswith(_RUN_STARTED_PREFIX))
        tool_lists += [json.loads(fact).get("tools", []) for fact in unwritten]
        offers = input_repair.parse_offers(tool for tools in tool_lists for tool in tools)
        memory.offers = len(memory.board.context.kinds), offers
    return memory.offers[1]


def _repair_input(tx: Transaction, memory: RunMemory, card: Card, now: float) -> Card:
    if questions.is_form(card.tool.name):  # of the agent's program: no tool that its model is offered
        return card
    tools = get_offered_tools(memory)
    trouble = input_repair.check(card.tool.name, card.input, tools, has_input=card.has_input or not len(card.text))
    if trouble is None:
        return card
    started_at = time.perf_counter()
    repair = None
    if card.repair in {"", BY_SOURCE}:
        repair = input_repair.repair(card.tool.name, card.input, tools, has_input=card.has_input)
    if repair is None:
        return _fail_invalid_input(tx, memory, card, trouble, now)
    fact = f.InputRepaired(card.call_id, repair.tool, repair.input, card.shown_input, repair.method, at=now)
    tx.record(memory, fact, card)
    tx.record_timing("repair", memory, card, time.perf_counter() - started_at)
    return memory.board.cards[card.ordinal]


def _fail_invalid_input(tx: Transaction, memory: RunMemory, card: Card, trouble: Trouble, now: float) -> Card:
    """End the call with one error that lists what can be used instead."""
    message = trouble.message(get_offered_tools(memory))
    if any(earlier.error and earlier.error.message == message for earlier in memory.board.cards.values()):
        message += REPEATED_MISTAKE
    tx.record(memory, f.InputInvalid(card.call_id, card.tool.name, card.input, message, trouble.code, now), card)
    return _audit_denial(tx, memory, card, now)


def _audit_denial(tx: Transaction, memory: RunMemory, card: Card, now: float, name: str = "") -> Card:
    """Add the denial by a check or a plugin to the audit trail; return the updated card."""
    card = memory.board.cards[card.ordinal]
    if card.error is not None:
        tx.audit_acts.append(audit_entries.build_call_act(
            memory, card, "decision", get_stopper(card).kind, name, now, effect="deny", code=card.error.code,
            reason=card.error.message, args_sha256=digest_input(card), source=memory.row.source.name,
        ))  # fmt: skip
    return card


# ---------------------------------------------------------------- plugins


def _apply_verdict(tx: Transaction, memory: RunMemory, card: Card, now: float, plugin_result: PluginResult) -> Card:
    verdict = plugin_result.verdict
    tx.record_timing("before", memory, card, plugin_result.seconds)
    if verdict.fault is not None:
        _apply_fault(tx, memory, card, verdict, now, plugin_result.inquiry.requested_sha256)
    elif verdict.replaced:
        _apply_replacement(tx, memory, card, verdict, now)
    return memory.board.cards[card.ordinal]


def _build_inquiry(
    memory: RunMemory, card: Card, now: float, shown_sha256: str, requested_sha256: str
) -> PluginInquiry:
    attempt = tool_events.get_attempt(card)
    payload = {
        "event": tool_events.EXECUTE_BEFORE, "v": 1, "ts": now, "run_id": memory.row.name, "call_id": card.call_id,
        "attempt": attempt, "agent_path": list(card.agent_path), "source": memory.row.source.name,
        "tool": {"name": card.tool.name, "kind": card.tool.kind, "source": card.tool.source},
        "phase": "before", "input": card.shown_input, "repair": card.repair or None,
    }  # fmt: skip
    return PluginInquiry(memory.row.pk, card.ordinal, attempt, card.tool.name, shown_sha256, requested_sha256, payload)


def _apply_fault(
    tx: Transaction, memory: RunMemory, card: Card, verdict: hooks.Verdict, now: float, args_sha256: str
) -> None:
    """Deny the call on a veto; fail it on a crash or timeout of the plugin."""
    assert verdict.fault is not None
    if verdict.fault.code == "plugin_veto":
        actor = f.Actor("plugin", verdict.plugin)
        reason = verdict.reason or "A plugin denied this call."
        tx.record(memory, f.PolicyDecided(
            card.call_id, "deny", "plugin_veto", reason, by=actor, suggest=verdict.suggest, args_sha256=args_sha256,
            at=now,
        ), card)  # fmt: skip
        tx.record(memory, f.OutputDenied(card.call_id, reason=reason, by=actor, at=now), card)
        return
    tx.record(memory, f.OutputFailed(
        card.call_id, verdict.reason, verdict.fault.code, verdict.fault.retryable, "plugin", "before", now,
    ), card)  # fmt: skip
    _audit_denial(tx, memory, card, now, verdict.plugin)


def _apply_replacement(tx: Transaction, memory: RunMemory, card: Card, verdict: hooks.Verdict, now: float) -> None:
    """Replace the input with the plugin's, checked like the agent's own; an invalid one fails the call."""
    problem = _find_exceeded_limit(verdict.input)
    if not problem and input_repair.check(card.tool.name, verdict.input, get_offered_tools(memory)) is not None:
        problem = "the tool cannot use it"
    if problem:
        message = f"The plugin {verdict.plugin} returned an input in place of the agent's, but {problem}."
        tx.record(memory, f.OutputFailed(card.call_id, message, "plugin_crash", False, "plugin", "before", now), card)
        _audit_denial(tx, memory, card, now, verdict.plugin)
        return
    method = f"plugin {verdict.plugin}"
    fact = f.InputRepaired(card.call_id, card.tool.name, verdict.input, None, method, at=now, again=True)
    tx.record(memory, fact, card)


def _find_exceeded_limit(value: Any) -> str:
    """Return which limit on inputs the value exceeds as half a sentence, "" for none."""
    limits = settings.TOOLCARDS
    try:
        size = len(canonicalize(value, max_depth=limits.max_depth))
    except NotCanonical as error:
        return f"it cannot be evaluated ({error})"
    return f"it has more than {limits.max_args} bytes" if size > limits.max_args else ""


def find_folder(memory: RunMemory, card: Card) -> str:
    """Return the folder in which the call works, "" for the root.

    Every hook input names it; where a relay leaves it out, it is unknown.
    """
    if not card.folder and memory.row.protocol == "claude-code":
        return UNKNOWN_FOLDER if memory.board.context.root else ""
    return "" if card.folder == memory.board.context.root else card.folder
