"""Before a call is judged: is it a call at all, can it be mended, and what do plug-ins say?

resolve -> validate -> repair (at most once) -> `before` hooks -> (judged by policy, elsewhere).
Whatever comes out is judged afresh. What cannot be used ends here and now, with one clear error. Plug-ins are not asked
in here, where the writer would wait for them: see consulting.py.
"""

from __future__ import annotations

import json
import time
from typing import Any

from django.conf import settings

from toolcards import hooks
from toolcards.client.common.canonical_json import NotCanonical, canonical
from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events
from toolcards.core.calls.card import BY_SOURCE, Card
from toolcards.core.schemas import input_repair
from toolcards.core.schemas.input_repair import Offer, Trouble
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Event

PHASES_BEFORE_RUN = frozenset({"resolve", "validate", "before"})
_ANNOUNCED = '{"type":"run-started"'
REPEATED_MISTAKE = " The same mistake was made before in this run: find another way."


def prepare_call(
    tx: Transaction, memory: RunMemory, card: Card, at: float, args_sha256: str, heard: PluginResult | None = None
) -> Card | PluginInquiry:
    """Return the call as it shall be judged, or what plug-ins are asked first; then come again with what they say.

    A call that cannot be used has ended now. `args_sha256`: as it was asked.
    """
    card = _repair_input(tx, memory, card, at)
    if card.hard or not (heard or hooks.guarded()):
        return card
    shown = digest_input(card)
    if heard is None or not heard.inquiry.about(memory.row.pk, card, shown):
        return _build_inquiry(memory, card, at, shown, args_sha256)
    return _apply_verdict(tx, memory, card, at, heard)


def is_stopped(card: Card) -> bool:
    """Return whether the call ended before anything was decided about it."""
    return card.hard and card.error is not None and card.error.phase in PHASES_BEFORE_RUN and card.decision is None


def get_stopper(card: Card) -> f.By:
    """Return who stopped such a call: a plug-in, or our check of its tool and input. No rule and no person did."""
    return f.By("plugin" if card.error is not None and card.error.authority == "plugin" else "validation")


def get_offered_tools(memory: RunMemory) -> dict[str, Offer]:
    """Return the tools that the run announced, by name."""
    if not memory.board.context.kinds:
        return {}
    if memory.offers is None or memory.offers[0] != len(memory.board.context.kinds):
        begun = Event.objects.filter(run=memory.row.pk, ordinal=0).of_type(f.RunStarted.type).order_by("seq")
        logged = [fact for event in begun if isinstance(fact := event.legible, f.RunStarted)]
        told = [fact.tools for fact in logged]
        new = (row[4] for row in memory.events if not row[3] and row[4].startswith(_ANNOUNCED))
        told += [json.loads(fact).get("tools", []) for fact in new]
        memory.offers = len(memory.board.context.kinds), input_repair.offers(tool for tools in told for tool in tools)
    return memory.offers[1]


def _repair_input(tx: Transaction, memory: RunMemory, card: Card, at: float) -> Card:
    tools = get_offered_tools(memory)
    trouble = input_repair.check(card.tool.name, card.input, tools, has_input=card.has_input or not len(card.text))
    if trouble is None:
        return card
    began = time.perf_counter()
    mended = None
    if card.repair in {"", BY_SOURCE}:
        mended = input_repair.mend(card.tool.name, card.input, tools, has_input=card.has_input)
    if mended is None:
        return _fail_invalid_input(tx, memory, card, trouble, at)
    told = f.InputRepaired(card.call_id, mended.tool, mended.input, card.shown_input, mended.method, at=at)
    tx.record(memory, told, card)
    tx.record_timing("repair", memory, card, time.perf_counter() - began)
    return memory.board.cards[card.ordinal]


def _fail_invalid_input(tx: Transaction, memory: RunMemory, card: Card, trouble: Trouble, at: float) -> Card:
    """It cannot be used, and nobody may guess: one error, with what may be used instead."""
    message = trouble.message(get_offered_tools(memory))
    if any(other.error and other.error.message == message for other in memory.board.cards.values()):
        message += REPEATED_MISTAKE
    tx.record(memory, f.InputInvalid(card.call_id, card.tool.name, card.input, message, trouble.code, at), card)
    return _audit_denial(tx, memory, card, at)


def _audit_denial(tx: Transaction, memory: RunMemory, card: Card, at: float, name: str = "") -> Card:
    """The call ended with a no that is not policy's: the audit trail says so all the same. Return the card."""
    card = memory.board.cards[card.ordinal]
    if card.error is not None:
        tx.audit_acts.append(audit_entries.build_call_act(
            memory, card, "decision", get_stopper(card).kind, name, at, effect="deny", code=card.error.code,
            reason=card.error.message, args_sha256=digest_input(card), source=memory.row.source.name,
        ))  # fmt: skip
    return card


# ---------------------------------------------------------------- plug-ins


def _apply_verdict(tx: Transaction, memory: RunMemory, card: Card, at: float, heard: PluginResult) -> Card:
    said = heard.verdict
    tx.record_timing("before", memory, card, heard.seconds)
    if said.fault is not None:
        _apply_fault(tx, memory, card, said, at, heard.inquiry.asked_sha256)
    elif said.replaced:
        _apply_replacement(tx, memory, card, said, at)
    return memory.board.cards[card.ordinal]


def _build_inquiry(memory: RunMemory, card: Card, at: float, shown: str, asked: str) -> PluginInquiry:
    attempt = tool_events.attempt_of(card)
    payload = {
        "event": tool_events.BEFORE, "v": 1, "ts": at, "run_id": memory.row.name, "call_id": card.call_id,
        "attempt": attempt, "agent_path": list(card.agent_path), "source": memory.row.source.name,
        "tool": {"name": card.tool.name, "kind": card.tool.kind, "source": card.tool.source},
        "phase": "before", "input": card.shown_input, "repair": card.repair or None,
    }  # fmt: skip
    return PluginInquiry(memory.row.pk, card.ordinal, attempt, card.tool.name, shown, asked, payload)


def _apply_fault(
    tx: Transaction, memory: RunMemory, card: Card, said: hooks.Verdict, at: float, args_sha256: str
) -> None:
    """A veto is a denial; a crash or a time-out is an error of the plug-in. Either way the tool does not run."""
    assert said.fault is not None
    if said.fault.code == "plugin_veto":
        by = f.By("plugin", said.plugin)
        reason = said.reason or "A plug-in said no."
        tx.record(memory, f.Decided(
            card.call_id, "deny", "plugin_veto", reason, by=by, suggest=said.suggest, args_sha256=args_sha256, at=at,
        ), card)  # fmt: skip
        tx.record(memory, f.OutputDenied(card.call_id, reason=reason, by=by, at=at), card)
        return
    tx.record(memory, f.OutputFailed(
        card.call_id, said.reason, said.fault.code, said.fault.retryable, "plugin", "before", at,
    ), card)  # fmt: skip
    _audit_denial(tx, memory, card, at, said.plugin)


def _apply_replacement(tx: Transaction, memory: RunMemory, card: Card, said: hooks.Verdict, at: float) -> None:
    """A plug-in's input is checked as the agent's own was; one that does not fit is a crash of the plug-in."""
    wrong = _find_exceeded_limit(said.input)
    if not wrong and input_repair.check(card.tool.name, said.input, get_offered_tools(memory)) is not None:
        wrong = "the tool cannot use it"
    if wrong:
        message = f"The plug-in {said.plugin} returned an input in place of the agent's, but {wrong}."
        tx.record(memory, f.OutputFailed(card.call_id, message, "plugin_crash", False, "plugin", "before", at), card)
        _audit_denial(tx, memory, card, at, said.plugin)
        return
    method = f"plug-in {said.plugin}"
    replaced = f.InputRepaired(card.call_id, card.tool.name, said.input, None, method, at=at, again=True)
    tx.record(memory, replaced, card)


def _find_exceeded_limit(value: Any) -> str:
    """Return which limit on inputs the value exceeds, "" for none."""
    limits = settings.TOOLCARDS
    try:
        size = len(canonical(value, max_depth=limits.max_depth))
    except NotCanonical as error:
        return f"it cannot be judged ({error})"
    return f"it has more than {limits.max_args} bytes" if size > limits.max_args else ""
