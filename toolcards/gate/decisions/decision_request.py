"""Agents ask over HTTP whether a call may run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import BY_SOURCE, Card, ToolCallState
from toolcards.core.schemas.input_repair import Offer
from toolcards.gate.agents.liveness import hear
from toolcards.gate.approvals.expiry import expire_if_overdue
from toolcards.gate.approvals.permits import build_decision_with_permit, build_permit, generate_permit_id
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.evaluation import USE_TTL, can_ask_again, evaluate_call, start_next_attempt
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.decisions.preflight import get_offered_tools, is_stopped
from toolcards.gate.decisions.responses import build_decision
from toolcards.gate.refusals import InvalidRequest, KeyReuse, TooLate
from toolcards.gate.writer.approval_rows import get_row_state
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction, fit_text
from toolcards.ids import new_id
from toolcards.models import Approval, Source, ToolCall

S = ToolCallState


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """One question "may this call run?", as the agent put it."""

    run: str
    call_id: str
    tool: str
    args: Any
    attempt: int | None = None  # None: the first, or the next one where the id has been used for something else
    agent_path: tuple[str, ...] = ()
    tool_source: str = ""
    schema_sha256: str = ""
    args_sha256: str = ""
    env: str = ""
    note: str = ""
    can_wait: bool = True
    idempotency_key: str = ""
    protocol: str = "native"
    kind: str = ""
    title: str = ""
    tools: tuple[dict[str, Any], ...] = ()  # those offered to the model, as `run.started` would announce them
    key: int = 0  # of the agent key that asks, 0 for none
    extras: dict[str, Any] = field(default_factory=dict)


class DecideCall(RunCommand):
    """Judge a call before it runs; asking the same again gets the same answer.

    The answer is an Inquiry where plug-ins must be asked first: then the same again with what they say, as `heard`.
    """

    def __init__(self, source: Source, asking: DecisionRequest, heard: PluginResult | None = None) -> None:
        super().__init__(source, asking.run)
        self.asking, self.heard = asking, heard
        self.sha256 = ""  # of the arguments, once they were checked

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        asking, now = self.asking, tx.now
        self.sha256 = _check_digest(asking)
        agent = fit_text(" › ".join(asking.agent_path[:1]), 200)
        memory = tx.get_or_create_run(self.source.pk, asking.run, protocol=asking.protocol, mode="gate", agent=agent)
        if memory.seq == 0:
            tx.record(memory, f.RunStarted(agent=(asking.agent_path or ("",))[0], at=now))
        hear(tx, memory)
        self._announce(tx, memory)
        card = self._asked_before(memory)
        if card is not None and card.waiting and card.approval is not None:
            asked = Approval.objects.select_for_update().filter(id=card.approval.id).first()
            if asked is not None and expire_if_overdue(tx, memory, asked):
                card = memory.board.cards[card.ordinal]
        if card is None:
            newest = memory.board.find(asking.call_id)
            self._judge(tx, memory, self._heard_of(newest) if self.heard else self._introduce(tx, memory, newest))
        elif not self._is_same(card, self.sha256):
            self._judge(tx, memory, self._introduce(tx, memory, self._replaceable(memory, card)))
        elif can_ask_again(card):
            again = f.InputReady(card.call_id, asking.tool, asking.args, True, now, title=asking.title)
            self._judge(tx, memory, start_next_attempt(tx, memory, card, again))
        else:
            tx.after_write.append(lambda: self._stands(memory, card))

    def _asked_before(self, memory: RunMemory) -> Card | None:
        """Return the judged card that the question names; None where it is a new one."""
        asking, board = self.asking, memory.board
        card = board.find(asking.call_id)
        if card is not None and asking.attempt is not None and asking.attempt < card.attempt:
            card = board.find_attempt(asking.call_id, asking.attempt)
        if card is None or not (card.decision or is_stopped(card)):
            return None
        return None if (asking.attempt or 0) > card.attempt else card

    def _is_same(self, card: Card, sha256: str) -> bool:
        """Return whether the question is about the very call that was judged."""
        asking = self.asking
        schema = card.decision.schema_sha256 if card.decision else ""
        return (
            sha256 in _list_digests(card)
            and asking.tool in _list_tool_names(card)
            and (asking.tool_source or card.tool.source) == card.tool.source
            and (not schema or asking.schema_sha256 in {"", schema})
        )

    def _replaceable(self, memory: RunMemory, card: Card) -> Card:
        """Return the newest card, where another input under its id begins a new attempt; raises KeyReuse."""
        asking = self.asking
        newest = memory.board.find(asking.call_id) or card
        key = fit_text(asking.idempotency_key, 300)
        same_key = bool(key) and Approval.objects.filter(run_id=memory.row.pk, idempotency_key=key).exists()
        if asking.attempt is not None or same_key or newest.running:
            raise KeyReuse(
                "This call was already asked for with another tool, schema or arguments; use a new call_id or attempt.",
                attempt=newest.attempt + 1,
            )
        return newest

    def _announce(self, tx: Transaction, memory: RunMemory) -> None:
        """Write down the tools that the run had not announced so."""
        if not self.asking.tools or memory.board.context.ended:
            return
        known = get_offered_tools(memory)
        new = [said for said in self.asking.tools if (offer := Offer.of(said)) and known.get(offer.name) != offer]
        if new:
            tx.record(memory, f.RunStarted(tools=new, at=tx.now))

    def _stands(self, memory: RunMemory, card: Card) -> None:
        """What was decided, once its permit is written, which may be of this very transaction."""
        card = memory.board.cards[card.ordinal]
        self.answer = build_decision_with_permit(memory, card) | {"attempt": self._attempt(card)}

    def _attempt(self, card: Card) -> int:
        """Return the attempt as the agent counts it."""
        return self.asking.attempt or card.attempt

    def _heard_of(self, card: Card | None) -> Card:
        """The call that plug-ins were asked about, as long as it is still that call and somebody waits for it."""
        assert self.heard is not None
        if card is None or card.removed or card.finished:
            raise TooLate("The call ended while plug-ins were asked about it.", code="run_ended")
        if not self.heard.inquiry.about(self.heard.inquiry.run, card, digest_input(card)):
            raise KeyReuse("This call was asked for again with other arguments; use a new call_id or attempt.")
        return card

    def _introduce(self, tx: Transaction, memory: RunMemory, before: Card | None) -> Card:
        """Write the call down; under an id that was used for something else it is a new attempt. Return its card."""
        asking = self.asking
        attempt = asking.attempt or 1
        if before is not None and not before.removed and self._is_used(before):
            attempt = max(attempt, before.attempt + 1)
        key = fit_text(asking.idempotency_key, 300)
        if key and Approval.objects.filter(run_id=memory.row.pk, idempotency_key=key).exists():
            raise KeyReuse("This idempotency_key was used for another call of the run.")
        ready = f.InputReady(
            asking.call_id, asking.tool, asking.args, True, tx.now, attempt, title=asking.title,
            source=asking.tool_source, kind=asking.kind, lane=_open_lane(tx, memory, asking.agent_path),
        )  # fmt: skip
        changed = tx.record(memory, ready)
        return changed[-1]

    def _is_used(self, before: Card) -> bool:
        """Return whether the card cannot be the one that is asked about now."""
        if before.decision or before.soft or is_stopped(before):
            return True
        return before.hard and not self._is_same(before, self.sha256)

    def _judge(self, tx: Transaction, memory: RunMemory, card: Card) -> None:
        asking = self.asking
        extras = {
            "attempt": self._attempt(card), "schema_sha256": asking.schema_sha256,
            "idempotency_key": fit_text(asking.idempotency_key, 300), "key_id": asking.key or None,
        } | asking.extras  # fmt: skip
        said = evaluate_call(
            tx, memory, card, channel="http", at=tx.now, can_wait=asking.can_wait, extras=extras, heard=self.heard
        )
        if isinstance(said, PluginInquiry):
            self.answer = said
            return
        card = memory.board.cards[card.ordinal]
        if said is None:
            raise TooLate("This call has already ended.", code="used")
        if said["decision"] == "allow" and not (card.approval and card.approval.opener == "gate"):
            self._permit(tx, memory, card, extras)
            return
        self.answer = said | {"attempt": self._attempt(card)}

    def _permit(self, tx: Transaction, memory: RunMemory, card: Card, extras: dict[str, Any]) -> None:
        """A rule allowed it: a row of its own carries the single-use right to run it."""
        issued = f.PermitMoved(card.call_id, "issued", new_id("alw"), tx.now)
        tx.record(memory, issued, card)

        def write() -> None:
            now = memory.board.cards[card.ordinal]  # the same commit may have ended the call
            verdict, permit = now.decision, now.permit
            assert verdict is not None and permit is not None
            call = ToolCall.objects.only("id").get(run_id=memory.row.pk, ordinal=card.ordinal)
            row = Approval.objects.create(
                id=issued.id, run_id=memory.row.pk, call_id=call.pk, asked=False,
                state=get_row_state(permit.state), args_sha256=verdict.args_sha256,
                by_kind=verdict.by.kind, by_name=fit_text(verdict.by.name, 200), requested_at=tx.now, decided_at=tx.now,
                permit=generate_permit_id(), permit_expires_at=tx.working + USE_TTL, **extras,
            )  # fmt: skip
            self.answer = build_decision(memory, now, permit=build_permit(row), attempt=self._attempt(now))

        tx.after_write.append(write)


def _list_tool_names(card: Card) -> set[str]:
    """Return the names of the tool that was asked about: as judged, and as first written where it was repaired."""
    return {card.tool.name} if card.repair in {"", BY_SOURCE} else {card.tool.name, card.original_tool}


def _list_digests(card: Card) -> set[str]:
    """Return the hashes of what was asked: as judged, as first written, and as a person edited it."""
    values = (card.shown_input, card.original_input, card.first_input)
    known = {card.decision.args_sha256} if card.decision else set()
    for value in values if card.repair not in {"", BY_SOURCE} else values[:1]:
        with suppress(NotCanonical):
            known.add(digest(value))
    return known


def _check_digest(asking: DecisionRequest) -> str:
    try:
        sha256 = digest(asking.args)
    except NotCanonical as error:
        raise InvalidRequest(f"The arguments cannot be judged: {error}") from error
    if asking.args_sha256 and asking.args_sha256.lower() != sha256:
        raise InvalidRequest("args_sha256 is not the hash of args.", detail={"expected": sha256})
    return sha256


def _open_lane(tx: Transaction, memory: RunMemory, path: tuple[str, ...]) -> str:
    """The lane of a sub-agent's path; the first name of the path is the run's own agent."""
    lane = ""
    for depth in range(2, len(path) + 1):
        parent, lane = lane, " › ".join(path[:depth])
        if lane not in memory.board.context.lanes:
            tx.record(memory, f.LaneStarted(lane=lane, name=path[depth - 1], parent_lane=parent, at=tx.now))
    return lane
