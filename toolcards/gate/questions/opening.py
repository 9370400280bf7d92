"""Opens a question about a call: its terms, its time limit, and its review."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import connection

from toolcards.core.calls import elicitation
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.facts import Actor
from toolcards.core.policy.decision import (
    AskTerms,
    Effect,
    PolicyDecision,
    PolicyRequest,
    RuleSet,
    decide,
    require_approver,
)
from toolcards.core.policy.places.project import UNKNOWN_FOLDER, Project
from toolcards.core.policy.shell.catalogs import move_project
from toolcards.core.policy.shell.command_lines import find_command_line, replace_command_line, spell_commands
from toolcards.core.policy.shell.script import CommandSegment, read_line
from toolcards.gate.approvals.holds import ReturnVisit, build_channel_columns
from toolcards.gate.decisions.eligibility import dump_terms, list_asking_rules
from toolcards.gate.questions.reviews import describe_review, find_reviewer, open_review
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.ids import new_id

# Limits how many calls of one agent wait for people, so that one agent cannot fill the inbox.
TOO_MANY_WAITING = "too_many_waiting"
# Counts no further than the limit; the index of `state` finds the few rows.
_COUNT_WAITING = (
    "SELECT COUNT(*) FROM (SELECT 1 FROM toolcards_approval JOIN toolcards_run ON toolcards_run.id = run_id"
    " WHERE state = 'pending' AND asked AND opener = 'gate' AND source_id = %s LIMIT %s) AS waiting"
)


def limit_waiting(tx: Transaction, source: int, decision: PolicyDecision) -> PolicyDecision:
    """Return the decision, a deny instead of an ask beyond the limit.

    `source`: primary key of the agent. Other processes may pass the limit by the calls of commits that have not ended:
    an exact count would hold a lock for each agent that asks, which runs of the agent at several processes wait for.
    """
    if decision.effect != Effect.ASK:
        return decision
    limit = settings.TOOLCARDS.max_waiting
    count = tx.waiting_by_source.get(source)
    if count is None:
        count = _count_waiting(source, limit)
    tx.waiting_by_source[source] = count + 1
    if count < limit:
        return decision
    calls = "1 call" if limit == 1 else f"{limit:,} calls"
    reason = f"Too many pending approvals: only {calls} of this agent can wait at once. Request the call again later."
    return replace(decision, effect=Effect.DENY, code=TOO_MANY_WAITING, reason=reason, by=Actor("gate_error"), ask=None)


def _count_waiting(source: int, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_WAITING, [source, limit])
        return int(cursor.fetchone()[0])


# Forms that a tool's server or an agent shows its user: a person fills them in, whatever policy allows.
# The server asks its own user, so the person that the agent works for may answer.
TERMS = AskTerms(allow_requester=True, editable=(), grants=("once",))
REASON, REASON_OF_AGENT = "The server asks its user.", "The agent asks its user."
UNREADABLE = (
    f"The form cannot be shown: it has more than {elicitation.MAX_FIELDS} fields or {elicitation.MAX_CHOICES} options, "
    "or fields of unknown types."
)


def require_answer(
    decision: PolicyDecision, request: PolicyRequest, form: Any, count_eligible: Callable[[AskTerms], int]
) -> PolicyDecision:
    """Return the decision that asks a person to fill in a form.

    The terms are those of the rules that ask about it, otherwise the own terms of forms. Allow rules, standing
    approvals and break-glass have no answer to give.
    """
    if elicitation.read_fields(form) is None:
        return decision.with_changes(
            effect=Effect.DENY, code="invalid_args", reason=UNREADABLE, by=Actor("validation"), ask=None
        )
    if decision.effect is not Effect.ASK or not decision.rules:
        decision = decision.with_changes(
            effect=Effect.ASK,
            code="question",
            reason=REASON if request.source else REASON_OF_AGENT,
            rule="",
            rules=(),
            by=Actor("default"),
            ask=TERMS,
            grants=(),
        )
    return require_approver(decision, request, count_eligible)


USE_TTL = 300.0  # seconds in which an allowed call has to claim its permit, unless its rule says otherwise


def open_approval(
    tx: Transaction,
    memory: RunMemory,
    card: Card,
    decision: PolicyDecision,
    args_sha256: str,
    *,
    channel: str,
    now: float,
    patience: float = 0.0,
    twin: str = "",
    return_visit: ReturnVisit | None = None,
    extras: dict[str, Any],
) -> str:
    """Open an approval for the call; return its id.

    `patience`: the longest time in seconds that the agent waits, 0 for no limit. `twin`: see gate/twins/; the review
    is that of the twin. `return_visit`: how its agent comes back for the answer. `extras`: columns of the approval.
    """
    terms = decision.ask
    ttl = (terms.decide_ttl if terms and terms.decide_ttl else None) or settings.TOOLCARDS.decide_ttl
    ttl = min(ttl, patience or ttl)
    use_ttl = (terms.use_ttl if terms and terms.use_ttl else None) or USE_TTL
    reviewer = find_reviewer(card, terms) if not twin else None
    visit = {"asks_again": return_visit._asdict()} if return_visit else {}
    fact = f.ApprovalRequested(
        card.call_id, id=new_id("apr"), reason=decision.reason, opener="gate", expires_at=now + ttl, votable=True,
        args_sha256=args_sha256, twin=twin, at=now,
        terms=build_card_terms(terms) | _describe_decision(decision) | describe_review(reviewer, now) | visit,
    )  # fmt: skip
    tx.approval_columns[fact.id] = {
        **build_channel_columns(channel, tx.working), "use_ttl": use_ttl, "version": decision.version,
        "rules": json.dumps(list_asking_rules(decision)), "terms": dump_terms(terms) if terms else "{}",
    } | extras  # fmt: skip
    tx.record(memory, fact, card)
    if reviewer is not None:
        open_review(tx, memory, memory.board.cards[card.ordinal], fact, reviewer)
    return fact.id


def _describe_decision(decision: PolicyDecision) -> dict[str, Any]:
    """Return the lasting answers that the question offers, and the judgement of each command of a line."""
    parts = {"parts": [list(part) for part in decision.parts]} if decision.parts else {}
    return dict(decision.offers) | parts


def build_card_terms(terms: AskTerms | None) -> dict[str, Any]:
    """Return the terms that a card needs to offer the right buttons."""
    if terms is None:
        return {}
    return {
        "need": terms.quorum, "editable": list(terms.editable), "grants": list(terms.grants), "reason": terms.reason,
        "severity": terms.severity, "reauth": terms.reauth,
    }  # fmt: skip


# What policy says about each command of a line that waits for a person, so that the page marks the one to look at.
#
# Each command is decided alone, as if the line were nothing else. A command that means something else in its line than
# alone gets no mark.
MAX_PARTS = 20  # commands of a line that are decided one by one
UNMARKED = ("", "")


def judge_parts(policy: RuleSet, request: PolicyRequest, decision: PolicyDecision) -> PolicyDecision:
    """Return the decision with a judgement of each command of its line.

    It has none unless it asks, and the line spells several commands.
    A judgement is `("allow", "")`, `("ask", why)`, or `UNMARKED`.
    """
    line = find_command_line(request.tool, request.input)
    if decision.effect is not Effect.ASK or not line:
        return decision
    segments = read_line(line, move_project(request.tool, request.input, request.project)).segments
    if not 1 < len(segments) <= MAX_PARTS or len(spell_commands(line)) != len(segments):
        return decision
    return decision.with_changes(parts=tuple(_judge(policy, request, segment) for segment in segments))


def _judge(policy: RuleSet, request: PolicyRequest, segment: CommandSegment) -> tuple[str, str]:
    alone = _build_request(request, segment)
    if alone is None:
        return UNMARKED
    decision = decide(policy, alone)
    if decision.effect is Effect.ALLOW:
        return ("ask", segment.doubt) if segment.folder_changed and segment.doubt else ("allow", "")
    if decision.effect is not Effect.ASK:
        return UNMARKED
    is_high = decision.ask is not None and decision.ask.severity in {"high", "critical"}
    return "ask", (decision.reason if is_high else segment.doubt or decision.reason)


def _build_request(request: PolicyRequest, segment: CommandSegment) -> PolicyRequest | None:
    """Return the request for the command alone, None if it would mean something else."""
    project = move_project(request.tool, request.input, request.project)
    if segment.folder != project:
        if project != request.project:  # the tool's argument for the folder would count a second time
            return None
        request = replace(request, folder=_spell_folder(segment.folder))
    segments = read_line(segment.text, segment.folder).segments
    if [each.words for each in segments] != [segment.words]:  # it has variables of the line
        return None
    return replace(request, input=replace_command_line(request.tool, request.input, segment.text))


def _spell_folder(project: Project | None) -> str:
    if project is None:
        return UNKNOWN_FOLDER
    joint = "\\" if project.folder.windows else "/"
    return joint.join((project.folder.root.rstrip("/\\"), *project.folder.parts))
