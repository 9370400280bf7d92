"""Policy for people: rules as sentences, grouped by effect, with recent hits."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Max

from toolcards.client.common.canonical_json import digest
from toolcards.core.calls.facts import PolicyDecided
from toolcards.core.policy.decision import RuleSet
from toolcards.core.policy.language import document as documents
from toolcards.core.policy.language.diff import PolicyDifference, compare_documents
from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.core.policy.rule import Rule
from toolcards.encryption import UnreadableText
from toolcards.gate import policy_draft, policy_store
from toolcards.models import DraftRule, Event, PolicyVersion

DAY = 86_400.0
LOOKED_AT = 20_000  # newest events of the log in which hits are counted
TITLES = (("deny", "Deny"), ("ask", "Ask"), ("allow", "Allow"))
ANSWERS = {"deny": "deny", "ask": "ask", "allow": "allow"}


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule on a page."""

    name: str
    effect: str
    sentence: str
    reason: str = ""
    suggest: str = ""
    enabled: bool = True
    monitor: bool = False
    severity: str = "medium"
    expires_at: float = 0.0
    hits: int = 0
    author: str = ""
    would: int = 0
    quiet: str = ""  # "30 days": how long it had no hits
    review: str = ""  # the reviewer that is asked before people
    change: str = ""  # in the draft: added, changed or removed
    before: str = ""  # the sentence of the active version, where it is another one
    decides: int = 0  # past calls that this rule would decide in another way than today

    @property
    def conditions(self) -> str:
        """Return the sentence after its effect; "" where it is no sentence."""
        effect, _, conditions = self.sentence.partition(" ")
        return conditions if effect.lower() == self.effect else ""


@dataclass(frozen=True)
class RuleHits:
    """Number of calls each rule decided, or would have; `days` is the counted period."""

    answers: Counter[str] = field(default_factory=Counter)
    would: Counter[str] = field(default_factory=Counter)
    days: float = 0.0

    @property
    def words(self) -> str:
        """Return how long a rule had no hits, "" below a day."""
        days = min(int(self.days), 30)
        return f"{days} day{'s' if days > 1 else ''}" if days else ""


@dataclass(frozen=True, slots=True)
class EffectGroup:
    """The rules of one effect."""

    effect: str
    title: str
    rows: list[RuleRow]


@dataclass(frozen=True, slots=True)
class DraftReview:
    """The effect of activating the draft: changes, warnings, and whether it can be activated."""

    document: dict[str, Any]
    sha256: str
    active: int
    changes: list[PolicyDifference]
    warnings: list[PolicyFinding]
    refusals: list[PolicyFinding]
    policy: RuleSet | None
    is_unreadable: bool = False  # the active version, by this release

    @property
    def is_open(self) -> bool:
        """Return whether there is something to activate or to repair."""
        return bool(self.changes or self.refusals or not self.active)

    @property
    def named_warnings(self) -> list[tuple[str, PolicyFinding]]:
        """Return the warnings, each with the name of its rule."""
        return [(_get_rule_name(finding.pointer, self.document), finding) for finding in self.warnings]


def _get_rule_name(pointer: str, document: Mapping[str, Any]) -> str:
    steps = pointer.split("/")
    if steps[1:2] != ["rules"] or not steps[2:3] or not steps[2].isdecimal():
        return pointer or "the policy"
    return str(document["rules"][int(steps[2])]["id"])


def group_by_effect(rows: list[RuleRow]) -> list[EffectGroup]:
    """Return the rules by strictness."""
    return [EffectGroup(effect, title, [row for row in rows if row.effect == effect]) for effect, title in TITLES]


def build_rows(policy: RuleSet, hits: RuleHits) -> list[RuleRow]:
    """Return the rows of a policy."""
    return [_build_row(rule, hits) for rule in policy.rules]


def _build_row(rule: Rule, hits: RuleHits, author: str = "") -> RuleRow:
    answers, would = hits.answers[rule.id], hits.would[rule.id]
    quiet = hits.words if rule.enabled and not answers and not would else ""
    return RuleRow(
        rule.id, str(rule.effect), rule.sentence, rule.public_reason, rule.suggest, rule.enabled, rule.monitor,
        rule.severity, rule.expires_at, answers, author, would, quiet, rule.ask.review or rule.ask.shadow_review,
    )  # fmt: skip


def describe_rule(document: dict[str, Any]) -> str:
    """Return the rule as a sentence; "" if it is invalid."""
    try:
        return documents.parse_rule(document).sentence
    except PolicyError:
        return ""


def list_draft_rows(review: DraftReview, hits: RuleHits, decides: Mapping[str, int]) -> list[RuleRow]:
    """Return the draft rows, and those of rules that it removes.

    An invalid rule shows its JSON, to be fixed. `decides`: how many past calls each rule would decide differently.
    """
    changes = {change.name: change for change in review.changes if change.effect}
    rows = [_build_draft_row(rule, hits) for rule in DraftRule.objects.all()]
    rows += [
        RuleRow(
            change.name, change.effect, change.before, hits=hits.answers[change.name], would=hits.would[change.name]
        )
        for change in changes.values()
        if change.kind == "removed"
    ]
    return [_mark_change(row, changes.get(row.name), decides.get(row.name, 0)) for row in rows]


def _mark_change(row: RuleRow, change: PolicyDifference | None, decides: int) -> RuleRow:
    if change is None:
        return row
    before = change.before if change.kind == "changed" and change.before != change.after else ""
    return replace(row, change=change.kind, before=before, decides=decides, quiet="")


def _build_draft_row(rule: DraftRule, hits: RuleHits) -> RuleRow:
    body = policy_draft.build_rule_document(rule)
    try:
        compiled_rule = documents.parse_rule(body)
    except PolicyError:
        return RuleRow(rule.rule_id, rule.effect, json.dumps(body, ensure_ascii=False), author=rule.updated_by)
    row = _build_row(compiled_rule, hits, rule.updated_by)
    return replace(row, review=str(body.get("review") or ""))


def count_recent_hits() -> RuleHits:
    """Count the decisions of each rule in the newest events."""
    newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
    part = Event.objects.filter(id__gt=newest - LOOKED_AT)
    rows = list(part.of_type(PolicyDecided.type).values_list("fact", "at"))
    facts = [json.loads(fact) for fact, _ in rows if type(fact) is not UnreadableText]
    oldest = min((event_time for _, event_time in rows), default=0.0)
    return RuleHits(
        answers=Counter(rule for fact in facts if (rule := fact.get("rule"))),
        would=Counter(str(entry.get("rule")) for fact in facts for entry in fact.get("would") or ()),
        days=(time.time() - oldest) / DAY if oldest else 0.0,
    )


def review_draft() -> DraftReview:
    """Compare the draft with the active policy."""
    document = policy_draft.load_draft()
    version = PolicyVersion.objects.filter(active=True).first()
    number = version.number if version else 0
    old, is_unreadable = None, False
    try:
        old = policy_store.load_document(version) if version else None
    except policy_store.UnreadablePolicy:  # then all of the draft is new, and activating it repairs the policy
        is_unreadable = True
    sha256 = digest(document)
    try:
        warnings = policy_store.check_document(document)
    except PolicyError as refused:
        return DraftReview(document, sha256, number, [], [], refused.findings, None, is_unreadable)
    changes = compare_documents(old, document)
    return DraftReview(document, sha256, number, changes, warnings, [], documents.parse(document), is_unreadable)


def describe_model(document: Mapping[str, Any]) -> str:
    """Return the whole model in one sentence."""
    default = ANSWERS.get(str(document.get("default", "ask")), "ask")
    sentence = f"Deny beats ask, ask beats allow. If nothing matches: {default}."
    unknown = document.get("unknown_tool")
    sentence = f"{sentence} Tools not seen before: {unknown}." if unknown else sentence
    requester = (document.get("default_ask") or {}).get("allow_requester")
    return f"{sentence} The agent’s owner may approve calls that no rule matches." if requester else sentence
