"""A question opens with the terms of its rules and the shortest time limit: the rule's, the server's or the agent's."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards import gate
from toolcards.gate.questions.opening import USE_TTL, build_card_terms
from toolcards.models import Approval, Source

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("terms", "seconds", "use_ttl"),
    [({}, 900, USE_TTL), ({"decide_ttl": "1m"}, 60, USE_TTL), ({"use_ttl": "30s"}, 900, 30)],
)
def test_the_time_limits_are_those_of_the_rule_else_of_the_server(
    source: Source, policy: Any, an_approver: Any, terms: dict[str, Any], seconds: int, use_ttl: float
) -> None:
    policy({"rules": [{"effect": "ask", "match": {"tool": "bash"}, "ask": terms}]})
    gate.decide(source, gate.DecisionRequest("r", "c", "bash", {}))
    row = Approval.objects.get()
    assert (round(row.expires_at - row.requested_at), row.use_ttl) == (seconds, use_ttl)


def test_without_terms_a_card_offers_no_special_buttons() -> None:
    assert build_card_terms(None) == {}
