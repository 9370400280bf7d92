"""Rules that cost more than they help: they ask often, never decide anything, or never match."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from dashboard.policy.simulation.past_calls import Span, iterate_past_calls
from dashboard.policy.view_models import DAY, count_recent_hits
from toolcards.core.policy.decision import RuleSet, decide
from toolcards.core.policy.evaluation import evaluate
from toolcards.gate import policy_store
from toolcards.models import Approval, PolicyVersion

LOOKED_AT = Span(calls=1_000, days=60)
QUESTIONS = 2_000  # newest answers in which questions are counted
OFTEN = 10  # questions a day
LEAST_BEATEN = 3  # matches of a rule that never decided
QUIET_DAYS = 60


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A rule and what the record says about it. `rule_id` is "" for the default."""

    rule_id: str
    kind: str  # often, beaten, quiet
    words: str


def list_findings(policy: RuleSet) -> list[RuleFinding]:
    """Return what the record says about the rules of the active policy."""
    matched_ids, beaten = _find_matches(policy)
    return [*_list_often(policy), *beaten, *_list_quiet(policy, matched_ids)]


def _list_often(policy: RuleSet) -> Iterator[RuleFinding]:
    answers = Approval.objects.filter(asked=True, opener="gate", decided_at__gt=time.time() - 7 * DAY)
    rows = list(answers.order_by("-decided_at", "-id").values_list("rules", "decided_at")[:QUESTIONS])
    if not rows:
        return
    days = max(1.0, (time.time() - rows[-1][1]) / DAY)
    counts = Counter(rule_id for text, _ in rows for rule_id in json.loads(text))
    ids = {rule.id for rule in policy.rules} | {"default"}
    for rule_id, count in counts.most_common():
        if rule_id in ids and count / days >= OFTEN:
            words = f"asks {count / days:,.0f} times a day"
            yield RuleFinding("" if rule_id == "default" else rule_id, "often", words)


def _find_matches(policy: RuleSet) -> tuple[set[str], list[RuleFinding]]:
    """Return the rules that matched recent calls, and those of them that never decided one."""
    match_counts: Counter[str] = Counter()
    decided_ids: set[str] = set()
    winners: defaultdict[str, Counter[str]] = defaultdict(Counter)
    examined_count = 0
    for call in iterate_past_calls(LOOKED_AT):
        if call.question is None:
            continue
        examined_count += 1
        matches, decision = evaluate(policy, call.question), decide(policy, call.question)
        decided_ids.update(decision.rules)
        for rule in (*matches.deny, *matches.ask, *matches.allow):
            match_counts[rule.id] += 1
            if rule.id not in decision.rules:
                winners[rule.id][decision.rule or "the default"] += 1
    beaten = [
        RuleFinding(rule_id, "beaten", _describe_beaten(match_counts[rule_id], examined_count, counts))
        for rule_id, counts in winners.items()
        if rule_id not in decided_ids and match_counts[rule_id] >= LEAST_BEATEN
    ]
    return set(match_counts), sorted(beaten, key=lambda finding: finding.rule_id)


def _describe_beaten(count: int, examined_count: int, winners: Counter[str]) -> str:
    names = ", ".join(name for name, _ in winners.most_common(3))
    return f"matched {count:,} of the latest {examined_count:,} calls and decided none: beaten by {names}"


def _list_quiet(policy: RuleSet, matched_ids: set[str]) -> Iterator[RuleFinding]:
    """Yield the rules that have been active for two months without a match."""
    hits = count_recent_hits()
    long_ago = datetime.fromtimestamp(time.time() - QUIET_DAYS * DAY, UTC)
    version = PolicyVersion.objects.filter(created_at__lte=long_ago).order_by("-number").first()
    if hits.days < QUIET_DAYS or version is None:
        return
    try:
        old_rules = {rule.id: rule.sha256 for rule in policy_store.compile_version(version).rules}
    except policy_store.UnreadablePolicy:
        return
    for rule in policy.rules:
        is_quiet = not (hits.answers[rule.id] or hits.would[rule.id] or rule.id in matched_ids)
        if rule.enabled and is_quiet and old_rules.get(rule.id) == rule.sha256:
            yield RuleFinding(rule.id, "quiet", f"never matched in {QUIET_DAYS} days")
