"""The view model of a card: everything that its template needs, computed once per revision and without queries.

Longer than most modules: it is one class of short properties, one for each name in the templates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.conf import settings

from dashboard import url_helpers
from dashboard.cards import labels, safe_text
from dashboard.cards.lasting_offers import LastingOffer, list_lasting_offers
from dashboard.cards.payloads import excerpts
from dashboard.cards.payloads.command_line import CommandLine
from dashboard.cards.payloads.excerpts import Excerpt
from dashboard.cards.payloads.patch import diff_lines
from dashboard.cards.times import Segment, compute_segments, format_duration
from dashboard.inbox.order import compute_place, read_requested_ms
from toolcards.client.common import error_codes
from toolcards.client.common.json_text import is_same_json
from toolcards.core.calls.call_json import compute_view_sha256
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.identity import is_refused, is_retryable
from toolcards.core.policy.shell.command_lines import find_command_line
from toolcards.core.risk.assessment import Risk, assess_call_risk, assess_risk
from toolcards.core.summaries.summary import Summary, build_summary
from toolcards.gate import can_undo
from toolcards.models import ToolCall

S = ToolCallState


class CardView:
    """A card as text and numbers; `full` shows complete bodies.

    `call`: its row, for the risk of what the card masks.
    """

    def __init__(self, card: Card, *, full: bool = False, call: ToolCall | None = None) -> None:
        self.card, self.full, self._call = card, full, call
        self.label = labels.get_label(card)
        self.kind_icon = labels.KIND_ICONS.get(card.tool.kind, "wrench")
        self.cap = None if full else excerpts.MAX_CHARACTERS_WAITING if card.waiting else excerpts.MAX_CHARACTERS

    # ------------------------------------------------------------ head

    @property
    def summary(self) -> str:
        """Return the call in one line.

        Empty while only the streaming input is known.
        """
        return "" if self.card.state is S.INPUT_STREAMING else self._summary.line

    @cached_property
    def _summary(self) -> Summary:
        return build_summary(self.card)

    @property
    def is_brief(self) -> bool:
        """Return whether the summary says the whole input."""
        return self._summary.is_whole

    @property
    def word(self) -> str:
        """Return the state in a word or two, with the approver."""
        is_approved = self.card.state is S.APPROVAL_RESPONDED and not (self.card.soft or self.card.awaiting_client)
        return f"Approved by {self.answered_by}" if is_approved else self.label.word

    @property
    def kind(self) -> str:
        """Return the tool's kind in words, for people without the icon."""
        return self.card.tool.kind if self.card.tool.kind in labels.KIND_ICONS else "other"

    @property
    def is_waiting(self) -> bool:
        """Return whether the call waits for an answer.

        The card then has buttons, or names the place to answer.
        """
        return self.card.state is S.APPROVAL_REQUESTED

    @property
    def command(self) -> CommandLine:
        """Return the command line of the input with its judgements."""
        line = find_command_line(self.card.tool.name, self.card.input) if self.card.has_input else ""
        return CommandLine(line, (self.card.approval.terms.get("parts") or ()) if self.card.approval else ())

    @property
    def title(self) -> str:
        """Return the tool's title if it differs from its name."""
        tool = self.card.tool
        return tool.title if tool.title != tool.name else ""

    @property
    def has_notes(self) -> bool:
        """Return whether notes come before the input."""
        card = self.card
        is_noted = bool(self.title or card.agent_note or card.anomalies or card.by_hand)
        return is_noted or card.soft or self.is_agent_away or self.review is not None

    @cached_property
    def review(self) -> labels.ReviewLine | None:
        """Return the reviewer's part in the question."""
        return labels.describe_review(self.card) if self.card.approval else None

    @property
    def is_agent_away(self) -> bool:
        """Return whether the approval is kept for a disconnected agent."""
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
    def writing(self) -> Excerpt | None:
        """Return the end of the input while it streams."""
        return excerpts.get_tail(
            self.card.text.tail(excerpts.TAIL_CHARACTERS) if len(self.card.text) > 4096 else str(self.card.text)
        )

    @property
    def characters(self) -> int:
        """Return how many characters of the input have streamed."""
        return len(self.card.text)

    @cached_property
    def input(self) -> Excerpt | None:
        """Return the input as far as it is known."""
        if self.card.has_input:
            return excerpts.build_excerpt(self.card.input, self.cap)
        return excerpts.build_excerpt(str(self.card.text), self.cap) if len(self.card.text) else None

    @cached_property
    def output(self) -> Excerpt | None:
        """Return the output as far as it is known."""
        return excerpts.build_excerpt(self.card.output, self.cap) if self.card.has_output else None

    @cached_property
    def input_change(self) -> list[tuple[str, str]]:
        """Return what a repair or a person's edit changed.

        Covers the input and the tool's name.
        """
        card = self.card
        if not card.repair:
            return []
        tool_names = [("-", card.original_tool), ("+", card.tool.name)] if card.original_tool else []
        if card.original_input is None or is_same_json(card.original_input, card.shown_input):
            return tool_names
        return [*tool_names, *diff_lines(card.original_input, card.shown_input)]

    @property
    def changed_by(self) -> str:
        """Return who changed the input."""
        if self.card.repair != "edited":
            return f"Input repaired ({self.card.repair}) before anything ran"
        actor = self.card.approval.by if self.card.approval else None
        return f"Edited by {labels.describe_actor(actor)}"

    @cached_property
    def proposed_change(self) -> list[tuple[str, str]]:
        """Return the change that a vote proposes, while more votes are needed."""
        ask = self.card.approval
        return diff_lines(self.card.input, ask.edited) if ask and ask.has_edited else []

    # ------------------------------------------------------------ why, who, what went wrong

    @property
    def verb(self) -> str:
        """Return what policy decided, as the reason line begins."""
        verdict = self.card.decision
        if verdict is None:
            return ""
        return "Approval required" if verdict.effect == "ask" else labels.EFFECTS.get(verdict.effect, verdict.effect)

    @property
    def rule(self) -> str:
        """Return the rule that decided, or a text if none did."""
        verdict = self.card.decision
        if verdict is None:
            return ""
        if verdict.rule:
            return f"rule {verdict.rule}"
        return "No rule matched: default" if verdict.by.kind == "default" else labels.describe_actor(verdict.by)

    @property
    def would(self) -> list[str]:
        """Return what rules in monitor mode would have decided."""
        monitor_rules = self.card.decision.would if self.card.decision else ()
        return [
            f"{effect.get('rule', 'a rule')} would have decided: {effect.get('effect', '?')}"
            for effect in monitor_rules
        ]

    @cached_property
    def answered_by(self) -> str:
        """Return who answered the approval."""
        return labels.describe_actor(self.card.approval.by if self.card.approval else None)

    @property
    def denied_by(self) -> str:
        """Return who or what denied the call."""
        return labels.describe_actor(self.card.denied_by)

    @property
    def is_refused(self) -> bool:
        """Return whether the agent's own reviewer refused the call."""
        return is_refused(self.card)

    @property
    def is_retryable(self) -> bool:
        """Return whether a person can let the refused call try again."""
        return is_retryable(self.card)

    @property
    def retry_sentence(self) -> str:
        """Return what a person answered to the refusal, or ""."""
        if not self.card.retry:
            return ""
        return labels.RETRY_SENTENCES[self.card.retry].format(labels.describe_actor(self.card.retry_by))

    @property
    def agent_message(self) -> str:
        """What the agent received after a denial."""
        if self.card.detail is not None:
            return excerpts.format_value(self.card.detail)[: self.cap]
        return self.card.denied

    @property
    def soft_sentence(self) -> str:
        """Return what a soft end means, for people."""
        return labels.describe_soft_end(self.card) if self.card.soft else ""

    @property
    def by_hand(self) -> str:
        """Return who recorded the outcome."""
        return labels.describe_actor(self.card.by_hand.by if self.card.by_hand else None)

    @property
    def by_hand_sentence(self) -> str:
        """Return how the claim compares with what is known now."""
        return labels.MANUAL_OUTCOME_NOTES[self.card.soft]

    @property
    def message(self) -> str:
        """Return the tool's own error message."""
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
        """Return what went wrong, in a few words."""
        error = self.card.error
        if error is None:
            return ""
        return "The call failed" if error.authority == "unknown" else error_codes.get_title(error.code)

    @property
    def similar(self) -> str:
        """Return where failures of the same tool are listed."""
        return f"/calls/?{urlencode({'state': 'output-error', 'tool': self.card.tool.name}, errors='replace')}"

    @property
    def anomalies(self) -> list[tuple[str, str, float]]:
        """Return the code, text and time of each anomaly."""
        return [
            (code, labels.ANOMALIES.get(code, code.replace("-", " ")), moment) for code, moment in self.card.anomalies
        ]

    # ------------------------------------------------------------ asking

    @property
    def votable(self) -> bool:
        """Return whether a person can vote now."""
        ask = self.card.approval
        return bool(self.card.waiting and ask and ask.votable and ask.id)

    @cached_property
    def vote_url(self) -> str:
        """Return where votes are posted."""
        return url_helpers.build_vote_url(self.card.approval.id) if self.card.approval else ""

    @cached_property
    def risk(self) -> Risk:
        """Return the risk of approving the call."""
        return assess_risk(self.card) if self._call is None else assess_call_risk(self._call)

    @property
    def is_undoable(self) -> bool:
        """Return whether the approval can be revoked."""
        return can_undo(self.card)

    @property
    def return_visit(self) -> str:
        """Return how the agent gets a late answer, "" if it waits."""
        visit = self.card.approval.terms.get("asks_again") if self.card.approval else None
        if not visit:
            return ""
        if visit["by_person"]:
            agent = self.path or (self._call.run.agent_name if self._call else "") or "the agent"
            return f"After {visit['after']:.0f} s, tell {agent} to try again"
        return f"After {visit['after']:.0f} s, the agent asks again by itself"

    @property
    def delivery(self) -> str:
        """Return what became of the approval so far."""
        ask = self.card.approval
        if self.card.awaiting_client:
            return "The app runs this tool and has not sent its result yet."
        if ask is not None and ask.state == "claimed":
            return "Delivered to the agent."
        if ask is not None and ask.fetched:
            return "Fetched by the agent, which has not started the call."
        return f"Waiting for the agent to pick it up{f'. {self.return_visit}' if self.return_visit else ''}."

    @property
    def held_until(self) -> float:
        """Return from when the agent can fetch the approval.

        In epoch seconds, 0 for at once.
        """
        ask, seconds = self.card.approval, settings.TOOLCARDS.handover_seconds
        return ask.decided_at + seconds if ask and seconds else 0.0

    @property
    def undo_url(self) -> str:
        """Return where the revocation is posted."""
        return url_helpers.build_undo_url(self.card.approval.id) if self.card.approval else ""

    @property
    def view_sha256(self) -> str:
        """Return the digest of what the card shows, which votes send back."""
        return compute_view_sha256(self.card)

    @property
    def hidden_note(self) -> str:
        """Return how much of the input or a proposed change is missing.

        The approve button names it.
        """
        if self.proposed_change and self.proposed_change[-1][0] == "…":
            return "part of the change not shown"
        hidden_count = self.input.hidden_count if self.input else 0
        return f"{hidden_count:,} characters not shown" if hidden_count else ""

    @property
    def editable_json(self) -> str:
        """Return the input as a person edits it.

        The gate replaces masks by the secrets.
        """
        return safe_text.escape_in_json(json.dumps(self.card.input, indent=2, ensure_ascii=False))

    @cached_property
    def grants(self) -> list[str]:
        """Return what an approval may allow beyond this call."""
        return [kind for kind in self._terms.get("grants", ()) if kind in ("run", "until")]

    @cached_property
    def offers(self) -> str:
        """Return what a person may do apart from approving and denying."""
        options = ["Also allow repeats"] * bool(self.grants) + ["edit the input"] * bool(self._terms.get("editable"))
        text = ", or ".join(options)
        return text[:1].upper() + text[1:]

    @cached_property
    def lasting_approvals(self) -> list[LastingOffer]:
        """Return what the menu next to Approve offers."""
        return self.get_lasting_offers("always")

    @cached_property
    def lasting_denials(self) -> list[LastingOffer]:
        """Return what the menu next to Deny offers."""
        return self.get_lasting_offers("always_deny")

    def get_lasting_offers(self, field: str, coverage: Mapping[str, str] | None = None) -> list[LastingOffer]:
        """Return what this field of the form offers; nothing for high risks."""
        return [] if self.risk.level == "high" else list_lasting_offers(self._terms, field, coverage)

    @property
    def lasting_rule_url(self) -> str:
        """Return where the rule of a lasting answer can be edited."""
        return url_helpers.build_rule_url(self.card.approval.lasting_rule) if self.card.approval else ""

    @cached_property
    def _terms(self) -> dict[str, Any]:
        return self.card.approval.terms if self.card.approval else {}

    @property
    def need(self) -> int:
        """Return how many approvals are required."""
        return int(self._terms.get("need", 1))

    # ------------------------------------------------------------ time

    @cached_property
    def segments(self) -> list[Segment]:
        """Return the phases: writing, waiting for a person, running."""
        return compute_segments(self.card)

    @cached_property
    def durations(self) -> str:
        """Return the phases and their durations in words."""
        return ", ".join([segment.description for segment in self.segments])

    @cached_property
    def duration(self) -> float | None:
        """Return how many seconds the whole call took, once it has ended."""
        times = self.card.times
        start = times.started or times.available or times.requested
        over = self.card.finished and start and times.finished
        return max(0.0, times.finished - start) if over else None

    @property
    def total(self) -> str:
        """Return the same in words."""
        return "" if self.duration is None else format_duration(self.duration)

    @cached_property
    def ticking(self) -> float:
        """Return the start time for the clock of an open call.

        0 if no progress is expected.
        """
        times, state = self.card.times, self.card.state
        if self.card.finished or self.card.awaiting_client or not self.label.live:
            return 0.0
        requested_at = times.requested if state is S.APPROVAL_REQUESTED else 0.0
        return round(requested_at or times.available or times.started, 3)

    @cached_property
    def requested_ms(self) -> int:
        """Return when the approval was requested, in milliseconds, which orders waiting lists."""
        return read_requested_ms(self.card)

    @property
    def queue(self) -> int:
        """Return the call's place in the inbox."""
        return compute_place(self.risk, self.requested_ms)
