"""Lasting answers in the gate: the rule that one press on a question writes, activates and undoes.

`core/policy/lasting` says what an answer may cover and tries it; this module offers it with the question, and writes it
in the transaction of the vote, under the policy that is active then.
"""

from __future__ import annotations

from typing import Any

from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import Effect, PolicyDecision, PolicyRequest, RuleSet, decide
from toolcards.core.policy.language.document import PolicyError, parse
from toolcards.core.policy.lasting import answers
from toolcards.core.policy.lasting.answers import LastingAnswer
from toolcards.encryption import get_redactor
from toolcards.gate import policy_draft, policy_store
from toolcards.gate.refusals import AlreadyDecided, InvalidRequest, NotAllowed
from toolcards.models import prepared_selects

EDIT_POLICY = "toolcards.edit_policy"
_EFFECTS = {"always": Effect.ALLOW, "always_deny": Effect.DENY}


def offer_lasting_answers(decision: PolicyDecision, policy: RuleSet, request: PolicyRequest) -> PolicyDecision:
    """Return the decision with the lasting answers that its question offers.

    `offers` has for each field of the form lists of its value, what it covers, and its scope.
    """
    if decision.effect is not Effect.ASK:
        return decision
    offers: dict[str, Any] = {
        verb: [[each.value, each.words, each.scope] for each in lasting]
        for verb, effect in _EFFECTS.items()
        if (lasting := _list_readable(answers.list_lasting_answers(policy, request, decision, effect)))
    }
    return decision.with_changes(offers=offers) if offers else decision


def _list_readable(lasting: list[LastingAnswer]) -> list[LastingAnswer]:
    """Return the answers whose rules hold no secret, since anyone may read a policy."""
    redactor = get_redactor()
    return [each for each in lasting if redactor.value([each.words, each.match]) == [each.words, each.match]]


def list_answers(policy: RuleSet, request: PolicyRequest) -> list[LastingAnswer]:
    """Return the lasting approvals of this call under the policy."""
    return _list_readable(answers.list_lasting_answers(policy, request, decide(policy, request), Effect.ALLOW))


def try_answer(policy: RuleSet, request: PolicyRequest, answer: LastingAnswer) -> RuleSet:
    """Return the policy with the rule of this answer; raises InvalidRequest."""
    asking_ids = answers.list_asking_ids(policy, decide(policy, request))
    return _parse(_add_to_policy(policy, answer.build_rule(Effect.ALLOW), asking_ids))


def _add_to_policy(policy: RuleSet, rule: dict[str, Any], asking_ids: frozenset[str]) -> dict[str, Any]:
    document = dict(policy.document) | {"rules": answers.list_rules(policy)}
    return answers.add_rule(document, rule, asking_ids)


def write_rule(
    request: PolicyRequest, card: Card, person: Any, value: str, *, is_approved: bool, evidence: str = ""
) -> tuple[str, int]:
    """Activate the rule of a lasting answer; return its id and version.

    The note of the version has the call and the evidence for the rule. Raises NotAllowed for people who may not edit
    the policy, and InvalidRequest for an answer that the active policy would not keep. If the policy already decides
    the call this way, nothing is written: ("", 0).
    """
    if not person.has_perm(EDIT_POLICY):
        raise NotAllowed("Only people who may edit the policy can give lasting answers.", code="forbidden")
    effect = Effect.ALLOW if is_approved else Effect.DENY
    policy = policy_store.get_active_policy()
    decision = decide(policy, request)
    if decision.effect is effect and decision.rule:  # an answer to another call did it
        return "", 0
    offers = _list_readable(answers.list_lasting_answers(policy, request, decision, effect))
    answer = next((each for each in offers if each.value == value), None)
    if answer is None:
        why = answers.explain_refusal(policy, decision) or "The policy would not keep this answer."
        raise InvalidRequest(f"{why} Answer this call alone.", code="always_not_offered")
    rule, asking_ids = answer.build_rule(effect), answers.list_asking_ids(policy, decision)
    changed_document = _add_to_policy(policy, rule, asking_ids)
    if decide(_parse(changed_document), request).effect is not effect:
        raise InvalidRequest(
            "The policy would not keep this answer. Answer this call alone.", code="always_not_offered"
        )
    why = f"{evidence}, last with call {card.call_id}" if evidence else f"from call {card.call_id}"
    _activate(changed_document, policy, person, f"{rule['id']}: {why}")
    draft = policy_draft.load_draft()
    policy_draft.replace_draft(
        answers.add_rule(draft, rule, asking_ids), author=person.get_username(), text=policy_store.load_draft_text()
    )
    return rule["id"], policy_store.get_active_version_number()


def take_back(card: Card, person: Any) -> None:
    """Remove the rule that the answer on this card wrote."""
    rule_id = card.approval.lasting_rule if card.approval else ""
    remove_rule(rule_id, person, f"the answer to call {card.call_id} was undone")


def remove_rule(rule_id: str, person: Any, why: str) -> bool:
    """Remove the rule of a lasting answer; return whether it was active."""
    policy = policy_store.get_active_policy()
    document = answers.remove_rule(dict(policy.document), rule_id)
    if document is None:
        return False
    _activate(document, policy, person, f"{rule_id} removed: {why}")
    draft = answers.remove_rule(policy_draft.load_draft(), rule_id)
    if draft is not None:
        policy_draft.replace_draft(draft, author=person.get_username(), text=policy_store.load_draft_text())
    return True


def _parse(document: dict[str, Any]) -> RuleSet:
    try:
        return parse(document)
    except PolicyError as wrong:
        raise InvalidRequest(f"The policy cannot have this rule: {wrong}", code="always_not_offered") from wrong


def _activate(document: dict[str, Any], policy: RuleSet, person: Any, note: str) -> None:
    """Activate the document, which was made from this policy.

    Raises AlreadyDecided if another version is active now.
    """
    name = person.get_username()
    try:
        policy_store.activate(document, author=name, note=f"{note}, by {name}.", expected_active=policy.version)
    except policy_store.VersionConflict as late:
        message = f"Version {late.active} of the policy was activated at this moment. Try again."
        raise AlreadyDecided(message, code="policy_changed") from late
    prepared_selects.forget()
