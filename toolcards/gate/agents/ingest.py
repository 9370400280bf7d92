"""Recording of an agent's frames: each stream writes its facts in the next group commit and decides its calls.

    stream = gate.open_stream(…)    stream.push(facts)    await stream.wait_until_committed()

`on_commit` gets a report of each commit: its progress, and on a gate stream the decisions about its calls.
"""

from __future__ import annotations

from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.reducer.approval_handlers import add_requested_input
from toolcards.core.policy.decision import AskTerms
from toolcards.core.runs import sequence_set
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.core.runs.run_end import ends_nothing, ends_run
from toolcards.core.runs.sequence_set import SequenceNumber, TooManyGaps
from toolcards.gate import policy_store
from toolcards.gate.agents.liveness import renew_lease, resume_run, void_permits
from toolcards.gate.agents.run_commands import END_OF_STREAM, close_own_calls, find_run_end
from toolcards.gate.agents.stream_queue import StreamQueue
from toolcards.gate.approvals.holds import ReturnVisit, build_channel_columns
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import count_eligible_voters, get_source
from toolcards.gate.decisions.evaluation import evaluate_call
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.decisions.preflight import is_stopped, start_next_attempt
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import LARGE, SHARE, Transaction
from toolcards.ids import new_id
from toolcards.models import Approval

# With this many frames of one stream in a commit, or of all streams in the backlog, neighboring pieces of an input are
# written as one.
FLOOD, PRESSURE = 16, 250
_INPUT_FACTS = (f.InputReady, f.InputRepaired)
_OUTPUT_FACTS = (f.OutputReady, f.OutputPartial)
_ANSWERABLE_CHANNELS = frozenset({"socket", "watch", "hook", "poll"})  # connections that can take an answer


class Stream(StreamQueue):
    """The frames of one connection, on their way into the log."""

    def _write(self, tx: Transaction) -> None:
        if self._has_no_facts() and not tx.has_run(self.source.pk, self.run_name):
            return  # a session that only started, or ended without a call, is no run
        memory = tx.get_or_create_run(
            self.source.pk, self.run_name, protocol=self.protocol, agent=fit_text(self.agent, 200), mode=self.mode
        )
        self.run_pk = memory.row.pk
        if memory.seq == 0:
            self._start_run(tx, memory)
        if self._batch or self._batch_leases:
            resume_run(tx, memory)
        self._apply_plugin_results(tx, memory)
        self._record_batch(tx, memory)
        if self._deferred:
            self._batch_leases = 0  # a lease belongs to the end of the frames
        if self._batch_leases:
            renew_lease(tx, memory, self._leases[self._batch_leases - 1])
        self.seq = memory.seq
        if self.reports_cards and not (self._pending or self._deferred):
            cards, ordinals = memory.board.cards, self.touched_calls | self._batch_calls
            self._batch_cards = [cards[ordinal] for ordinal in sorted(ordinals) if ordinal in cards]

    def _has_no_facts(self) -> bool:
        """Return whether the batch says no more than that all is well and over."""
        contents = [content for content, _, _ in self._batch]
        return all(type(content) is list and all(map(ends_nothing, content)) for content in contents)

    def _start_run(self, tx: Transaction, memory: RunMemory) -> None:
        """Start the log of a run with its start, whether or not the protocol reports one."""
        with_facts = (
            (content, received_at)
            for content, received_at, _ in self._batch
            if content and not isinstance(content, SkippedFrame)
        )
        first, moment = next(((content[0], received_at) for content, received_at in with_facts), (None, 0.0))
        if first is not None and type(first) is not f.RunStarted:
            tx.record(memory, f.RunStarted(agent=self.agent, program=self.program, root=self.root, at=moment))

    def _apply_plugin_results(self, tx: Transaction, memory: RunMemory) -> None:
        """Evaluate the calls that plugins have answered, unless they have ended or changed since."""
        for result in self._plugin_results:
            card = memory.board.cards.get(result.inquiry.ordinal)
            digest = digest_input(card) if card is not None and not (card.finished or card.removed) else ""
            if card is not None and result.inquiry.matches(memory.row.pk, card, digest):
                self._evaluate(tx, memory, card, tx.now, result)

    # ------------------------------------------------------------ frames

    def _record_batch(self, tx: Transaction, memory: RunMemory) -> None:
        """Record the facts of every frame.

        In a flood, neighboring pieces of one input are joined. If the commit takes long, the rest waits for the next
        one, so that other streams do not wait for all of it.
        """
        if self._inquiries:  # a call changed while plugins were consulted about it
            self._deferred = list(self._batch)
            return
        is_flood = len(self._batch) >= FLOOD or group_commit.WRITER.backlog >= PRESSURE
        share, pieces = 0, list[Any]()  # `pieces`: frames that are pieces of one input
        for place, frame in enumerate(self._batch):
            content, received_at, number = frame
            if place % SHARE == 0 or tx.size > LARGE:
                share = tx.share
            if place >= share:
                self._deferred = self._batch[place:]
                break
            if type(content) is tuple:  # nine of ten frames on a busy server
                if number and not (sequence_set.add_next(memory.numbers, number) or self._add_number(memory, number)):
                    continue
                if pieces and (pieces[0][0][0] != content[0] or not is_flood):
                    pieces = self._record_pieces(tx, memory, pieces)
                pieces.append(frame)
                tx.size += len(content[1])  # counts again once it is recorded, joined with others
                continue
            if number and not self._is_new(memory, number):
                self._touch_repeated(tx, memory, content, received_at)
                continue
            pieces = self._record_pieces(tx, memory, pieces)
            facts = self._take_facts(memory, content)
            for position, fact in enumerate(facts, 1):
                self._record_fact(tx, memory, fact, received_at)
                if self._inquiries:  # the frame is complete once the plugins have answered
                    self._deferred = [(facts[position:], received_at, number), *self._batch[place + 1 :]]
                    return
            if number:
                memory.record_number(number)
        self._record_pieces(tx, memory, pieces)

    @staticmethod
    def _take_facts(memory: RunMemory, content: Any) -> list[Any]:
        """Return the frame's facts; count a frame of an unknown kind, which has none."""
        if type(content) is SkippedFrame:
            memory.count_skipped(content.kind)
            return []
        return content  # type: ignore[no-any-return]

    def _is_new(self, memory: RunMemory, number: SequenceNumber) -> bool:
        """Return whether the frame must be recorded: it is new, and its number does not leave too many gaps."""
        try:
            return memory.is_new(number)
        except TooManyGaps:
            self._refused_frames += 1
            return False

    def _add_number(self, memory: RunMemory, number: SequenceNumber) -> bool:
        is_new = self._is_new(memory, number)
        if is_new:
            memory.record_number(number)
        return is_new

    def _touch_repeated(self, tx: Transaction, memory: RunMemory, content: Any, moment: float) -> None:
        """Count the calls of a repeated frame as this stream's own, without recording it again.

        A gate stream gets the decisions again: its sender was not told, or it would not repeat the frame.
        """
        for fact in () if type(content) is SkippedFrame else content:
            card = memory.board.find(fact.call_id) if getattr(fact, "call_id", "") else None
            if card is None:
                continue
            self._batch_calls.add(card.ordinal)
            is_decided = (card.decision is not None or card.hard) and not (card.soft or card.removed)
            if self.mode == "gate" and isinstance(fact, _INPUT_FACTS) and is_decided:
                self._evaluate(tx, memory, card, moment)

    def _record_pieces(self, tx: Transaction, memory: RunMemory, pieces: list[Any]) -> list[Any]:
        """Record these pieces of one input, joined where that is equivalent; return an empty list."""
        if len(pieces) > 1:
            (call_id, _), received_at, number = pieces[-1]
            card = memory.board.find(call_id)
            if card is not None and card.state == "input-streaming" and card.segment is None:
                pieces = [((call_id, "".join([content[1] for content, _, _ in pieces])), received_at, number)]
        for (call_id, text), received_at, _ in pieces:
            for card in tx.record(memory, f.InputDelta(call_id, text, received_at)):
                self._batch_calls.add(card.ordinal)
        return []

    # ------------------------------------------------------------ facts

    def _record_fact(self, tx: Transaction, memory: RunMemory, fact: Any, moment: float) -> None:
        if type(fact) is f.RunEnded and fact.reason == END_OF_STREAM:
            run_end = find_run_end(memory)
            if run_end is None or self._close_part(tx, memory, run_end, moment):
                return
            fact = run_end
        fact = f.revise(fact, at=moment)
        if type(fact) is f.ApprovalRequested:
            fact = self._complete_approval(tx, memory, fact)
        if type(fact) is f.RunStarted:
            fact = self._complete_start(memory, fact)
        is_end = type(fact) is f.RunEnded and ends_run(fact, memory.board.context)
        cards = tx.record(memory, fact)
        for card in cards:
            self._batch_calls.add(card.ordinal)
            if type(fact) is f.ApprovalRequested and fact.votable and card.approval and card.approval.id == fact.id:
                self._approvals.append({"id": fact.id, "source_id": fact.source_id, "call_id": card.call_id})
        if isinstance(fact, _INPUT_FACTS) and not getattr(fact, "past", False):
            self._decide(tx, memory, cards, fact, moment)
        elif self.mode == "gate" and isinstance(fact, _OUTPUT_FACTS):
            self._record_ungoverned(tx, memory, fact, moment)
        if is_end:
            memory.row.reason = fit_text(fact.reason, 2000)
        if type(fact) is f.RunEnded:
            void_permits(tx, memory)

    def _complete_start(self, memory: RunMemory, fact: f.RunStarted) -> f.RunStarted:
        """Return the start, the first one of a run with its agent; its title becomes the run's."""
        if fact.title:
            memory.row.title = fit_text(fact.title, 500)
        if memory.seq:
            return fact
        return f.revise(fact, agent=fact.agent or self.agent, program=self.program, root=fact.root or self.root)

    def _close_part(self, tx: Transaction, memory: RunMemory, run_end: f.RunEnded, moment: float) -> bool:
        touched_calls, gates = self.touched_calls | self._batch_calls, self.mode == "gate"
        return close_own_calls(
            tx, memory, run_end, moment, touched_calls=touched_calls, gates=gates, is_shared=self.is_shared
        )

    def _complete_approval(self, tx: Transaction, memory: RunMemory, fact: f.ApprovalRequested) -> f.ApprovalRequested:
        """Return the completed request of the agent; people can vote if the connection takes answers."""
        card = memory.board.find(fact.call_id) if fact.call_id else memory.board.find_approval_card(fact)
        is_answerable = self.channel in _ANSWERABLE_CHANNELS
        if fact.terms.get("local") and is_answerable:  # the agent has its own prompt
            voters = count_eligible_voters(AskTerms(allow_requester=True), get_source(memory.row.source_id))
            is_answerable = voters > 0 and not policy_store.leaves_questions()
        is_votable, approval_id = is_answerable and not fact.automatic, new_id("apr")
        if card is None and is_votable and self.channel == "hook" and not fact.call_id:
            fact = _open_own_question(memory, fact)
        tx.approval_columns[approval_id] = build_channel_columns(self.channel if is_votable else "none", tx.working)
        return f.revise(fact, id=approval_id, votable=is_votable, args_sha256=_digest_requested(card, fact))

    def _decide(self, tx: Transaction, memory: RunMemory, cards: list[Card], fact: Any, moment: float) -> None:
        """Evaluate a call whose input is complete: on a gate stream, or if its earlier input was evaluated."""
        ordinals = [card.ordinal for card in cards if card.call_id == fact.call_id]
        if not ordinals:
            return
        card = memory.board.cards[max(ordinals)]
        if self.mode == "gate" and card.soft:  # its run ended, and the agent sends it again
            call_input = fact.input if getattr(fact, "has_input", True) else card.input
            card = start_next_attempt(tx, memory, card, f.InputReady(card.call_id, fact.tool, call_input, True, moment))
        if self.mode == "gate" or (card.gated and card.decision is None):
            self._evaluate(tx, memory, card, moment)

    def _evaluate(
        self, tx: Transaction, memory: RunMemory, card: Card, moment: float, result: PluginResult | None = None
    ) -> None:
        channel = self.channel if self.mode == "gate" else "http"  # an observing connection takes no answers
        visit = ReturnVisit(self.asks_again_after, by_person=True) if self.asks_again_after else None
        outcome = evaluate_call(
            tx, memory, card, channel=channel, now=moment, patience=self.patience, return_visit=visit,
            plugin_result=result,
        )  # fmt: skip
        if isinstance(outcome, PluginInquiry):
            self._inquiries.append(outcome)
        elif outcome is not None and card.awaits_delivery:
            if self.channel == "hook":  # it waits for the answer, and claims it
                approval = {**outcome["approval"], "state": "pending", "have": 0}
                self._decisions.append(outcome | {"decision": "ask", "approval": approval})
        elif outcome is not None and not self._is_on_the_way(memory, card):
            self._decisions.append(outcome)

    def _is_on_the_way(self, memory: RunMemory, card: Card) -> bool:
        """Return whether a socket delivers the answer or waits for its receipt, so that it is not sent twice."""
        if self.channel != "socket" or card.approval is None or card.waiting:
            return False
        return Approval.objects.undelivered(memory.row.pk, channel=self.channel).filter(id=card.approval.id).exists()

    @staticmethod
    def _record_ungoverned(tx: Transaction, memory: RunMemory, fact: Any, moment: float) -> None:
        """Record the anomaly of a result without a decision on a connection that must ask first."""
        card = memory.board.find(fact.call_id)
        if card is not None and card.decision is None and not is_stopped(card):
            tx.record(memory, f.AnomalyRecorded(card.call_id, "ungoverned", at=moment))


def _open_own_question(memory: RunMemory, fact: f.ApprovalRequested) -> f.ApprovalRequested:
    """Return a request that no running call fits as a question with a card of its own, unless it is answered."""
    board = memory.board
    if board.find_asked_card(fact.tool, fact.input, fact.source_id) is not None:
        return fact
    asked_call = board.find_call_in_question(fact.tool, fact.input)
    if asked_call is None:
        return f.revise(fact, call_id=new_id("call"))
    terms = fact.terms | {"about_parent": True}
    return f.revise(fact, call_id=new_id("call"), parent_call=asked_call.call_id, terms=terms)


def _digest_requested(card: Card | None, fact: f.ApprovalRequested) -> str:
    """Return the digest of the input that the approval is about, which the fact itself can bring."""
    return digest_input(add_requested_input(card or Card(""), fact))
