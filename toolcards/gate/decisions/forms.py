"""Forms that a tool's server or an agent shows its user: a person fills them in, whatever policy allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcards.core.calls import elicitation
from toolcards.core.calls.facts import Actor
from toolcards.core.policy.decision import AskTerms, Effect, PolicyDecision, PolicyRequest, require_approver

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
