"""What a card shows: everything its template needs, worked out once per revision and without any query.

Longer than most modules: it is one class of short properties, one for each thing that the templates name.
"""

from __future__ import annotations

import json
import time
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from dashboard import url_helpers
from dashboard.cards import duration_bar, labels, safe_text
from dashboard.cards import risk as risks
from dashboard.cards.payloads import payload_view
from dashboard.cards.payloads.payload_view import PayloadView
from toolcards.client.common import error_codes
from toolcards.client.common.json_text import is_same_json
from toolcards.core.calls.call_json import compute_view_sha256, summarize
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.gate import get_undo_deadline

S = ToolCallState


class CardView:
    """A card in words and numbers; `full` shows bodies whole."""

    def __init__(self, card: Card, *, full: bool = False) -> None:
        self.card, self.full = card, full
        self.label = labels.get_label(card)
        self.kind_icon = labels.KIND_ICONS.get(card.tool.kind, "wrench")
        self.cap = (
            None if full else payload_view.MAX_CHARACTERS_WAITING if card.waiting else payload_view.MAX_CHARACTERS
        )

    # ------------------------------------------------------------ head

    @cached_property
    def summary(self) -> str:
        """One line about the call.

        Nothing while the input itself is all there is to see.
        """
        return "" if self.card.state is S.INPUT_STREAMING else summarize(self.card)

    @property
    def word(self) -> str:
        """The state in a word or two, and who approved."""
        approved = self.card.state is S.APPROVAL_RESPONDED and not self.card.soft
        return f"Approved by {self.answered_by}" if approved else self.label.word

    @property
    def kind(self) -> str:
        """The tool's kind, for those who do not see its icon."""
        return self.card.tool.kind if self.card.tool.kind in labels.KIND_ICONS else "other"

    @property
    def is_waiting(self) -> bool:
        """Return whether the call waits for an answer.

        The card then has buttons, or says where to answer.
        """
        return self.card.state is S.APPROVAL_REQUESTED

    @property
    def title(self) -> str:
        """What the agent calls it, where that is not the tool's name."""
        tool = self.card.tool
        return tool.title if tool.title != tool.name else ""

    @property
    def has_notes(self) -> bool:
        """There is something to say before the input."""
        return bool(self.title or self.card.anomalies or self.card.soft or self.card.by_hand or self.is_agent_away)

    @property
    def is_agent_away(self) -> bool:
        """The agent was lost while this is kept for it."""
        ask = self.card.approval
        return bool(ask and ask.away and not self.card.finished)

    @property
    def path(self) -> str:
        """Return the path of agents, if there is more than one.

        It leads from the run's main agent to the one that made the call.
        """
        return " › ".join(self.card.agent_path)

    # ------------------------------------------------------------ input and output

    @cached_property
    def writing(self) -> PayloadView | None:
        """The end of the input while it streams."""
        return payload_view.get_tail(
            self.card.text.tail(payload_view.TAIL_CHARACTERS) if len(self.card.text) > 4096 else str(self.card.text)
        )

    @property
    def characters(self) -> int:
        """How much of the input has streamed."""
        return len(self.card.text)

    @cached_property
    def input(self) -> PayloadView | None:
        """The input, as far as it is known."""
        if self.card.has_input:
            return payload_view.build_payload_view(self.card.input, self.cap)
        return payload_view.build_payload_view(str(self.card.text), self.cap) if len(self.card.text) else None

    @cached_property
    def output(self) -> PayloadView | None:
        """The output, partial ones included."""
        return payload_view.build_payload_view(self.card.output, self.cap) if self.card.has_output else None

    @cached_property
    def changed(self) -> list[tuple[str, str]]:
        """Return what a repair or a person's edit changed.

        Covers the input and the tool's name.
        """
        card = self.card
        if not card.repair:
            return []
        tool_names = [("-", card.original_tool), ("+", card.tool.name)] if card.original_tool else []
        if card.original_input is None or is_same_json(card.original_input, card.shown_input):
            return tool_names
        return [*tool_names, *payload_view.diff_lines(card.original_input, card.shown_input)]

    @property
    def changed_by(self) -> str:
        """Who changed the input."""
        if self.card.repair != "edited":
            return f"Input repaired ({self.card.repair}) before anything ran"
        actor = self.card.approval.by if self.card.approval else None
        return f"Edited by {labels.describe_actor(actor)}"

    @cached_property
    def proposed(self) -> list[tuple[str, str]]:
        """Return the change that a vote proposes, while more votes are needed."""
        ask = self.card.approval
        return payload_view.diff_lines(self.card.input, ask.edited) if ask and ask.has_edited else []

    # ------------------------------------------------------------ why, who, what went wrong

    @property
    def verb(self) -> str:
        """What policy did, as the why line begins."""
        verdict = self.card.decision
        if verdict is None:
            return ""
        return "Approval required" if verdict.effect == "ask" else labels.EFFECTS.get(verdict.effect, verdict.effect)

    @property
    def rule(self) -> str:
        """The rule that decided, or that none did."""
        verdict = self.card.decision
        if verdict is None:
            return ""
        if verdict.rule:
            return f"rule {verdict.rule}"
        return "No rule matched: default" if verdict.by.kind == "default" else labels.describe_actor(verdict.by)

    @property
    def would(self) -> list[str]:
        """What rules that only watch would have done."""
        monitored = self.card.decision.would if self.card.decision else ()
        return [f"{effect.get('rule', 'a rule')} would have said {effect.get('effect', '?')}" for effect in monitored]

    @property
    def answered_by(self) -> str:
        """Who answered the approval."""
        return labels.describe_actor(self.card.approval.by if self.card.approval else None)

    @property
    def denied_by(self) -> str:
        """Who or what said no."""
        return labels.describe_actor(self.card.denied_by)

    @property
    def agent_message(self) -> str:
        """What the agent received after a denial."""
        if self.card.detail is not None:
            return payload_view.format_value(self.card.detail)[: self.cap]
        return self.card.denied

    @property
    def soft_sentence(self) -> str:
        """What a soft end means for a person."""
        return labels.describe_soft_end(self.card) if self.card.soft else ""

    @property
    def by_hand(self) -> str:
        """Who settled the call by hand."""
        return labels.describe_actor(self.card.by_hand.by if self.card.by_hand else None)

    @property
    def by_hand_sentence(self) -> str:
        """Return how the claim compares with what is known now."""
        return labels.MANUAL_OUTCOME_NOTES[self.card.soft]

    @property
    def message(self) -> str:
        """The error in the tool's own words."""
        return (self.card.error.message if self.card.error else "")[: self.cap]

    @property
    def error_facts(self) -> list[tuple[str, str]]:
        """Return retry advice, the cause and the kind of the error."""
        error = self.card.error
        if error is None:
            return []
        facts = [("Try again?", labels.describe_retry(error)), ("Cause", labels.describe_cause(error))]
        wait = f"{error.after_ms / 1000:g} s" if error.after_ms else ""
        facts += [("Wait first", wait), ("Code", error.code), ("Phase", error.phase)]
        return [(name, value) for name, value in facts if value]

    @property
    def error_title(self) -> str:
        """What went wrong, in a few words."""
        error = self.card.error
        if error is None:
            return ""
        return "The call failed" if error.authority == "unknown" else error_codes.get_title(error.code)

    @property
    def similar(self) -> str:
        """Where failures of the same tool are listed."""
        return f"/calls/?{urlencode({'state': 'output-error', 'tool': self.card.tool.name}, errors='replace')}"

    @property
    def anomalies(self) -> list[tuple[str, str, float]]:
        """The code, text and time of each anomaly."""
        return [
            (code, labels.ANOMALIES.get(code, code.replace("-", " ")), moment) for code, moment in self.card.anomalies
        ]

    # ------------------------------------------------------------ asking

    @property
    def votable(self) -> bool:
        """A person can answer here and now."""
        ask = self.card.approval
        return bool(self.card.waiting and ask and ask.votable and ask.id)

    @property
    def vote_url(self) -> str:
        """Where the answer is posted."""
        return url_helpers.build_vote_url(self.card.approval.id) if self.card.approval else ""

    @cached_property
    def risk(self) -> risks.Risk:
        """How closely a person should look before saying yes."""
        return risks.assess_risk(self.card)

    @property
    def undo_until(self) -> float:
        """Until when the approval can be taken back, in epoch seconds.

        0 where it cannot any more.
        """
        ask = self.card.approval
        human = ask is not None and ask.state == "approved" and ask.by is not None and ask.by.kind == "human"
        deadline = get_undo_deadline(ask.decided_at) if ask and human else 0.0
        return deadline if deadline > time.time() else 0.0

    @property
    def undo_url(self) -> str:
        """Where that is posted."""
        return url_helpers.build_undo_url(self.card.approval.id) if self.card.approval else ""

    @property
    def view_sha256(self) -> str:
        """Return the digest of what the card shows.

        The answer sends it back.
        """
        return compute_view_sha256(self.card)

    @property
    def hidden(self) -> str:
        """Return how much of the input the card does not show.

        The approve button names it.
        """
        return f"{self.input.left:,} characters not shown" if self.input and self.input.left else ""

    @property
    def editable_json(self) -> str:
        """The input as a person edits it.

        Masked secrets are put back by the gate.
        """
        return safe_text.escape_in_json(json.dumps(self.card.input, indent=2, ensure_ascii=False))

    @property
    def grants(self) -> list[str]:
        """Return what an approval may allow beyond this call."""
        return [kind for kind in self._terms.get("grants", ()) if kind in ("run", "until")]

    @property
    def offers(self) -> str:
        """Return what a person may do apart from approving and denying."""
        options = ["Also allow repeats"] * bool(self.grants) + ["edit the input"] * bool(self._terms.get("editable"))
        text = ", or ".join(options)
        return text[:1].upper() + text[1:]

    @property
    def _terms(self) -> dict[str, Any]:
        return self.card.approval.terms if self.card.approval else {}

    @property
    def need(self) -> int:
        """How many people must say yes."""
        return int(self._terms.get("need", 1))

    # ------------------------------------------------------------ time

    @cached_property
    def segments(self) -> list[duration_bar.Segment]:
        """Writing, waiting for a person, running, as far as they have ended."""
        return duration_bar.compute_segments(self.card)

    @property
    def durations(self) -> str:
        """The strip in words."""
        return ", ".join(segment.said for segment in self.segments)

    @property
    def duration(self) -> float | None:
        """How many seconds the whole call took, once it is over."""
        times = self.card.times
        started = times.started or times.available or times.requested
        over = self.card.finished and started and times.finished
        return max(0.0, times.finished - started) if over else None

    @property
    def total(self) -> str:
        """The same in words."""
        return "" if self.duration is None else url_helpers.format_duration(self.duration)

    @property
    def ticking(self) -> float:
        """Since when the clock of an open call counts.

        0 where nothing is expected to happen.
        """
        times, state = self.card.times, self.card.state
        if self.card.finished or self.card.awaiting_client or not self.label.live:
            return 0.0
        requested = times.requested if state is S.APPROVAL_REQUESTED else 0.0
        return round(requested or times.available or times.started, 3)

    @property
    def requested_ms(self) -> int:
        """When it began to wait, in milliseconds: the order of waiting lists."""
        return round((self.card.times.requested or self.card.times.started) * 1000)

    @property
    def queue(self) -> int:
        """Return the call's place in the inbox.

        Riskier calls come first; within a risk, those that have waited longest.
        """
        return self.risk.rank * 10**13 + self.requested_ms
