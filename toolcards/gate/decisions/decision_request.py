"""The request of an agent to run a call (HTTP), and the command that decides it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcards.client.common.canonical_json import NotCanonical
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import BY_SOURCE, Card, ToolCallState
from toolcards.core.input_repair import Offer
from toolcards.gate.agents.liveness import note_request
from toolcards.gate.approvals.expiry import expire_if_overdue
from toolcards.gate.approvals.holds import ReturnVisit
from toolcards.gate.approvals.permits import (
    build_decision_with_permit,
    build_new_permit,
    generate_permit_id,
    note_fetch,
)
from toolcards.gate.decisions.digests import digest_input, digest_value
from toolcards.gate.decisions.evaluation import evaluate_call
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.decisions.preflight import can_ask_again, get_offered_tools, is_stopped, start_next_attempt
from toolcards.gate.decisions.responses import build_decision
from toolcards.gate.questions.opening import TOO_MANY_WAITING, USE_TTL
from toolcards.gate.refusals import InvalidRequest, KeyReuse, TooLate, TooManyWaiting
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.ids import new_id
from toolcards.models import Approval, Source

S = ToolCallState
MAX_NOTE = 20_000  # characters of the agent's note that are kept: a waiting card shows them all


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """One tool call that an agent asks to run, as it was sent."""

    run: str
    call_id: str
    tool: str
    args: Any
    attempt: int | None = None  # None: 1, or the next attempt if the call id was used for another call
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
    tools: tuple[dict[str, Any], ...] = ()  # the tools offered to the model, in the form of `run.started`
    root: str = ""  # the folder of the project
    place: str = ""  # where the call works, as the client names it: the same call elsewhere is another one
    asks_again_after: float = 0.0  # seconds after which the request ends, and the agent sends the call again
    key: int = 0  # primary key of the agent key, 0 for none
    extras: dict[str, Any] = field(default_factory=dict)


class DecideCall(RunCommand):
    """Decide on a call before it runs. A repeated request gets the same answer.

    The answer is a PluginInquiry if plugins must be consulted first: then submit the command again with their result.
    """

    def __init__(self, source: Source, request: DecisionRequest, plugin_result: PluginResult | None = None) -> None:
        super().__init__(source, request.run)
        self.request, self.plugin_result = request, plugin_result
        self.args_sha256 = ""  # set by `apply`

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        request, now = self.request, tx.now
        self.args_sha256 = _check_digest(request)
        agent = fit_text(" › ".join(request.agent_path[:1]), 200)
        memory = tx.get_or_create_run(self.source.pk, request.run, protocol=request.protocol, mode="gate", agent=agent)
        if memory.seq == 0:
            tx.record(memory, f.RunStarted(agent=(request.agent_path or ("",))[0], root=request.root, at=now))
        note_request(tx, memory)
        self._record_tools(tx, memory)
        card = self._find_decided_card(memory)
        if card is not None and card.unanswered and card.approval is not None:
            approval = approval_rows.load_approval(card.approval.id)
            if approval is not None and expire_if_overdue(tx, memory, approval):
                card = memory.board.cards[card.ordinal]
        if card is None:
            newest = memory.board.find(request.call_id)
            if self.plugin_result:
                self._evaluate(tx, memory, self._match_inquiry(newest))
            else:
                self._evaluate(tx, memory, self._record_call(tx, memory, newest))
        elif not self._is_same(card):
            self._evaluate(tx, memory, self._record_call(tx, memory, self._require_new_attempt(memory, card)))
        elif can_ask_again(card):
            input_ready = f.InputReady(
                card.call_id, request.tool, request.args, True, now, title=request.title,
                note=fit_text(request.note, MAX_NOTE), folder=request.root,
            )  # fmt: skip
            self._evaluate(tx, memory, start_next_attempt(tx, memory, card, input_ready))
        else:
            note_fetch(tx, memory, card)
            tx.after_write.append(lambda: self._answer_decided(memory, card))

    def _find_decided_card(self, memory: RunMemory) -> Card | None:
        """Return the decided card that the request names; None for a new call."""
        request, board = self.request, memory.board
        card = board.find(request.call_id)
        if card is not None and request.attempt is not None and request.attempt < card.attempt:
            card = board.find_attempt(request.call_id, request.attempt)
        if card is None or not (card.decision or is_stopped(card)):
            return None
        return None if (request.attempt or 0) > card.attempt else card

    def _is_same(self, card: Card) -> bool:
        """Return whether the request is for exactly the call that was decided."""
        request = self.request
        schema = card.decision.schema_sha256 if card.decision else ""
        return (
            self.args_sha256 in _list_digests(card)
            and request.tool in _list_tool_names(card)
            and (request.tool_source or card.tool.source) == card.tool.source
            and (not schema or request.schema_sha256 in {"", schema})
        )

    def _require_new_attempt(self, memory: RunMemory, card: Card) -> Card:
        """Return the newest card of the call id if a new attempt may follow it; raises KeyReuse."""
        request = self.request
        newest = memory.board.find(request.call_id) or card
        key = fit_text(request.idempotency_key, 300)
        same_key = bool(key) and Approval.objects.filter(run_id=memory.row.pk, idempotency_key=key).exists()
        if request.attempt is not None or same_key or newest.running:
            raise KeyReuse(
                "This call_id was used with another tool, schema or arguments. Use a new call_id or attempt.",
                attempt=newest.attempt + 1,
            )
        return newest

    def _record_tools(self, tx: Transaction, memory: RunMemory) -> None:
        """Record the offered tools that the run has not announced yet, or not in this form; and its first root."""
        root = "" if memory.board.context.root else self.request.root
        if not (self.request.tools or root) or memory.board.context.ended:
            return
        offers = get_offered_tools(memory)
        new_tools = [
            tool for tool in self.request.tools if (offer := Offer.parse(tool)) and offers.get(offer.name) != offer
        ]
        if new_tools or root:
            tx.record(memory, f.RunStarted(tools=new_tools, root=root, at=tx.now))

    def _answer_decided(self, memory: RunMemory, card: Card) -> None:
        """Answer with the recorded decision. Runs after the write: this transaction may issue its permit."""
        card = memory.board.cards[card.ordinal]
        self.answer = build_decision_with_permit(memory, card) | {"attempt": self._get_attempt(card)}

    def _get_attempt(self, card: Card) -> int:
        """Return the number of the attempt as the agent counts it."""
        return self.request.attempt or card.attempt

    def _match_inquiry(self, card: Card | None) -> Card:
        """Return the card that the plugins were consulted about; raises TooLate or KeyReuse if it changed."""
        assert self.plugin_result is not None
        inquiry = self.plugin_result.inquiry
        if card is None or card.removed or card.finished:
            raise TooLate("The call ended while plugins were consulted about it.", code="run_ended")
        if not inquiry.matches(inquiry.run, card, digest_input(card)):
            raise KeyReuse("This call was requested again with other arguments. Use a new call_id or attempt.")
        return card

    def _record_call(self, tx: Transaction, memory: RunMemory, before: Card | None) -> Card:
        """Record the call and return its card; a call id that was used begins a new attempt."""
        request = self.request
        attempt = request.attempt or 1
        if before is not None and not before.removed and self._is_used(before):
            attempt = max(attempt, before.attempt + 1)
        key = fit_text(request.idempotency_key, 300)
        if key and Approval.objects.filter(run_id=memory.row.pk, idempotency_key=key).exists():
            raise KeyReuse("This idempotency_key was used for another call of the run.")
        ready = f.InputReady(
            request.call_id, request.tool, request.args, True, tx.now, attempt, title=request.title,
            source=request.tool_source, kind=request.kind, lane=_open_lane(tx, memory, request.agent_path),
            note=fit_text(request.note, MAX_NOTE), folder=request.root,
        )  # fmt: skip
        return tx.record(memory, ready)[-1]

    def _is_used(self, before: Card) -> bool:
        """Return whether the card belongs to an earlier call than the requested one."""
        if before.decision or before.soft or is_stopped(before):
            return True
        return before.hard and not self._is_same(before)

    def _evaluate(self, tx: Transaction, memory: RunMemory, card: Card) -> None:
        request = self.request
        extras = {
            "attempt": self._get_attempt(card), "schema_sha256": request.schema_sha256,
            "idempotency_key": fit_text(request.idempotency_key, 300), "key_id": request.key or None,
            "place": fit_text(request.place, 200),
        } | request.extras  # fmt: skip
        visit = ReturnVisit(request.asks_again_after, by_person=False) if request.asks_again_after else None
        decision = evaluate_call(
            tx, memory, card, channel="http", now=tx.now, can_wait=request.can_wait, return_visit=visit, extras=extras,
            plugin_result=self.plugin_result,
        )  # fmt: skip
        if isinstance(decision, PluginInquiry):
            self.answer = decision
            return
        if decision and decision["reason"] and decision["reason"]["code"] == TOO_MANY_WAITING:
            raise TooManyWaiting(decision["reason"]["text"])  # nothing is written: the same request can follow
        card = memory.board.cards[card.ordinal]
        if decision is None:
            raise TooLate("This call has already ended.", code="used")
        if decision["decision"] == "allow" and not (card.approval and card.approval.opener == "gate"):
            self._issue_permit(tx, memory, card, decision, extras)
            return
        self.answer = decision | {"attempt": self._get_attempt(card)}

    def _issue_permit(
        self, tx: Transaction, memory: RunMemory, card: Card, decision: dict[str, Any], extras: dict[str, Any]
    ) -> None:
        """Issue the single-use permit of a call that a rule allowed by this decision."""
        issued_permit = f.PermitChanged(card.call_id, "issued", new_id("alw"), tx.now)
        tx.record(memory, issued_permit, card)
        issued_card = memory.board.cards[card.ordinal]

        def build_row() -> approval_rows.NewApproval:
            updated_card = memory.board.cards[card.ordinal]  # the same commit may have ended the call
            verdict, permit = updated_card.decision, updated_card.permit
            assert verdict is not None and permit is not None
            columns = {
                "asked": False, "state": approval_rows.get_row_state(permit.state), "args_sha256": verdict.args_sha256,
                "by_kind": verdict.by.kind, "by_name": fit_text(verdict.by.name, 200), "requested_at": tx.now,
                "decided_at": tx.now, "permit": generate_permit_id(), "permit_expires_at": tx.working + USE_TTL,
            }  # fmt: skip
            current = decision if updated_card is issued_card else build_decision(memory, updated_card)
            self.answer = current | {"permit": build_new_permit(columns), "attempt": self._get_attempt(updated_card)}
            return approval_rows.NewApproval(issued_permit.id, memory.row.pk, card.ordinal, columns | extras)

        tx.new_permits.append(build_row)


def _list_tool_names(card: Card) -> set[str]:
    """Return the tool's name, and the name before a repair if there was one."""
    return {card.tool.name} if card.repair in {"", BY_SOURCE} else {card.tool.name, card.original_tool}


def _list_digests(card: Card) -> set[str]:
    """Return the digests of the input as decided, as first sent, and as edited."""
    values = (card.shown_input, card.original_input, card.first_input)
    digests = {card.decision.args_sha256} if card.decision else set()
    for value in values if card.repair not in {"", BY_SOURCE} else values[:1]:
        with suppress(NotCanonical):
            digests.add(digest_value(value))
    return digests


def _check_digest(request: DecisionRequest) -> str:
    try:
        sha256 = digest_value(request.args)
    except NotCanonical as error:
        raise InvalidRequest(f"The arguments cannot be evaluated: {error}") from error
    if request.args_sha256 and request.args_sha256.lower() != sha256:
        raise InvalidRequest("args_sha256 is not the hash of args.", detail={"expected": sha256})
    return sha256


def _open_lane(tx: Transaction, memory: RunMemory, path: tuple[str, ...]) -> str:
    """Return the lane of an agent's path, opened if it is new; "" for the run's own agent.

    An agent that is not below the run's own one has a lane without a parent, which is its own parent in the log:
    what people allowed one agent holds for no other.
    """
    own = tuple(memory.board.context.get_lane("")[0])
    is_below = not path or path[:1] == (own or ("",))
    names = [name.replace("~", "~0").replace("›", "~1") for name in path]
    lane = "" if is_below else "› "
    for depth in range(2 if is_below else 1, len(path) + 1):
        parent = lane
        lane = ("" if is_below else "› ") + " › ".join(names[:depth])
        if lane not in memory.board.context.lanes:
            parent = lane if depth == 1 else parent
            tx.record(memory, f.LaneStarted(lane=lane, name=path[depth - 1], parent_lane=parent, at=tx.now))
    return lane
