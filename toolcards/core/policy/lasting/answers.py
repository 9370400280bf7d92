"""The lasting answers to one question, each tried before it is offered, and the rule that one of them writes.

What a lasting answer promises is what the next call of its kind gets. So it is only offered if the policy with its rule
decides this call that way: a rule that could not win is not offered, and the reason is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from toolcards.client.common.canonical_json import digest
from toolcards.client.common.tool_results import is_exact
from toolcards.core.policy.decision import Effect, PolicyDecision, PolicyRequest, Rule, RuleSet, decide
from toolcards.core.policy.language import document as documents
from toolcards.core.policy.lasting.subjects import is_plain, list_subjects
from toolcards.core.policy.lasting.tool_groups import Subject

START = "always:"
_SCOPES = ("agent", "any", "run")
_LASTING = frozenset({"run", "until"})  # standing approvals: where a rule offers none, it offers no lasting answer
_MAX_COMMAND_RULES, _MAX_EXCEPTIONS = 200, 20  # of a policy and of a rule, when an answer is tried
_DECIDED_BY_RULES = frozenset({"default", "rule_asks", "opaque_command", "unknown_tool"})
# Subjects that cover more than the person has seen: no secret is among it, whatever the policy says of secrets.
_WIDE = frozenset({"reads", "edits", "file", "local", "work", "object", "notes", "tool"})
NO_SECRETS = {"path": "", "op": "avoids", "value": ["secrets"]}
_REASONS = {
    Effect.ALLOW: "A person allowed calls like this one.",
    Effect.DENY: "A person denied calls like this one, now and in the future. Find another way.",
}


@dataclass(frozen=True)
class LastingAnswer:
    """A rule that may be written by one press.

    `value` is its name in forms, `words` what it covers, `scope` the agents or the run, `match` the conditions of its
    rule.
    """

    value: str
    words: str
    scope: str
    match: dict[str, Any]

    def build_rule(self, effect: Effect) -> dict[str, Any]:
        """Return the rule; its id is the same for the same content."""
        match = self.match
        if effect is Effect.ALLOW and self.value.split(":")[1] in _WIDE:
            match = match | {"args": [*match.get("args", ()), NO_SECRETS]}
        rule = {"effect": effect.value, "match": match, "public_reason": _REASONS[effect]}
        slug = re.sub(r"[^a-z0-9]+", "-", self.words.lower()).strip("-")[:40].rstrip("-")
        verb = "always" if effect is Effect.ALLOW else "never"
        return {"id": f"{verb}-{slug}-{digest(rule)[:6]}"} | rule


def list_lasting_answers(
    policy: RuleSet, request: PolicyRequest, decision: PolicyDecision, effect: Effect = Effect.ALLOW
) -> list[LastingAnswer]:
    """Return the lasting answers to a question that keep their promise."""
    if explain_refusal(policy, decision) or not is_exact(request.input):
        return []
    answers: list[LastingAnswer] = []
    for subject in list_subjects(request):
        candidates = list(_list_scopes(subject, request))
        # The scopes differ in names that this call has: if one keeps the promise, so do the others.
        if candidates and _is_kept(policy, request, decision, candidates[0], effect):
            answers += candidates
    return answers


def list_candidates(request: PolicyRequest) -> list[LastingAnswer]:
    """Return the lasting answers to this call, whatever the policy says."""
    return [answer for subject in list_subjects(request) for answer in _list_scopes(subject, request)]


def explain_refusal(policy: RuleSet, decision: PolicyDecision) -> str:
    """Return why no lasting answer is possible whatever it covers, or ""."""
    terms = decision.ask
    if decision.effect is not Effect.ASK or terms is None or decision.code not in _DECIDED_BY_RULES:
        return "Only what a rule asks about has lasting answers."
    if terms.severity in {"high", "critical"}:
        return "This is high risk, so each call is asked about."
    if max(terms.quorum, terms.deny_quorum) > 1:
        return "Several people must approve each call."
    asking_rules = _find_asking_rules(policy, decision)
    if not all(_LASTING.intersection(each.ask.grants) for each in asking_rules) or (
        not asking_rules and not _LASTING.intersection(policy.ask.grants)
    ):
        return "The rule that asks wants an answer to each call."
    return ""


def list_asking_ids(policy: RuleSet, decision: PolicyDecision) -> frozenset[str]:
    """Return the ids of the rules that ask about the call."""
    return frozenset(rule.id for rule in _find_asking_rules(policy, decision))


def _find_asking_rules(policy: RuleSet, decision: PolicyDecision) -> list[Rule]:
    return [rule for rule in policy.rules if rule.effect is Effect.ASK and rule.id in decision.rules]


def _list_scopes(subject: Subject, request: PolicyRequest) -> Iterator[LastingAnswer]:
    for scope in _SCOPES:
        match = _narrow(subject, scope, request)
        if match is not None:
            words, whose = subject.words, _describe_scope(scope, request)
            yield LastingAnswer(f"{START}{subject.name}:{scope}", words, whose, match)


def _narrow(subject: Subject, scope: str, request: PolicyRequest) -> dict[str, Any] | None:
    """Return the subject's conditions for this scope, None if the scope cannot be named in a rule."""
    names = {"agent": request.agent_path[-1:], "run": (request.run,)}.get(scope)
    if names is None:
        return subject.match
    return subject.match | {scope: list(names)} if names and names[0] and is_plain(list(names)) else None


def _describe_scope(scope: str, request: PolicyRequest) -> str:
    return {"agent": request.agent_path[-1] if request.agent_path else "", "any": "any agent"}.get(scope, "this run")


def _is_kept(
    policy: RuleSet, request: PolicyRequest, decision: PolicyDecision, answer: LastingAnswer, effect: Effect
) -> bool:
    """Return whether the policy with the answer's rule decides the call in this way.

    Only the rules that matched are looked at, since the others do not match with the new rule either, and rules that
    allow commands, since each part of a line may be allowed by another rule.
    """
    asking_ids = list_asking_ids(policy, decision)
    command_rules = [rule.id for rule in policy.rules if rule.effect is Effect.ALLOW and rule.focus is not None]
    ids = {*decision.rules, *command_rules[:_MAX_COMMAND_RULES]}
    rules = [_cut_exceptions(rule) for rule in list_rules(policy) if rule["id"] in ids]
    document = dict(policy.document) | {"rules": rules}
    try:
        changed_policy = documents.parse(add_rule(document, answer.build_rule(effect), asking_ids))
    except documents.PolicyError:
        return False
    return decide(changed_policy, replace(request, can_wait=True)).effect is effect


def list_rules(policy: RuleSet) -> list[dict[str, Any]]:
    """Return the rules of the policy's document, each with its id."""
    return [
        rule | {"id": compiled_rule.id}
        for rule, compiled_rule in zip(policy.document.get("rules", ()), policy.rules, strict=True)
    ]


def add_rule(document: dict[str, Any], rule: dict[str, Any], asking_ids: Iterable[str]) -> dict[str, Any]:
    """Return the document with the rule, an exception of those that ask.

    An allow rule alone is enough where no rule asks, only the default.
    """
    ids = frozenset(asking_ids) if rule["effect"] == Effect.ALLOW else frozenset()
    rules = [
        except_clause(each, rule["match"]) if each.get("id") in ids else each for each in document.get("rules", ())
    ]
    return document | {"rules": [*(each for each in rules if each.get("id") != rule["id"]), rule]}


def remove_rule(document: dict[str, Any], rule_id: str) -> dict[str, Any] | None:
    """Return the document without the rule and its exceptions, or None."""
    rules = document.get("rules", ())
    rule = next((each for each in rules if each.get("id") == rule_id), None)
    if rule is None:
        return None
    return document | {"rules": [_include(each, rule["match"]) for each in rules if each is not rule]}


def except_clause(rule: dict[str, Any], clause: dict[str, Any]) -> dict[str, Any]:
    """Return the rule with these conditions as an exception."""
    exceptions = _list_exceptions(rule)
    return rule if clause in exceptions else rule | {"unless": [*exceptions, clause]}


def _include(rule: dict[str, Any], clause: dict[str, Any]) -> dict[str, Any]:
    exceptions = [each for each in _list_exceptions(rule) if each != clause]
    if len(exceptions) == len(_list_exceptions(rule)):
        return rule
    return (rule | {"unless": exceptions}) if exceptions else {k: v for k, v in rule.items() if k != "unless"}


def _cut_exceptions(rule: dict[str, Any]) -> dict[str, Any]:
    exceptions = _list_exceptions(rule)
    return rule | {"unless": exceptions[:_MAX_EXCEPTIONS]} if len(exceptions) > _MAX_EXCEPTIONS else rule


def _list_exceptions(rule: dict[str, Any]) -> list[dict[str, Any]]:
    exceptions = rule.get("unless") or []
    return [exceptions] if isinstance(exceptions, dict) else list(exceptions)
