"""The order of the inbox."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.cards.card_view import CardView
from dashboard.inbox import order

pytestmark = pytest.mark.django_db


def test_the_risky_stand_first_and_take_a_confirmation(ann: Client, a_call: Any, policy: Any) -> None:
    policy(
        {
            "default": "ask",
            "rules": [
                {"id": "high", "effect": "ask", "severity": "high", "match": {"tool": ["deploy"]}},
                {"id": "low", "effect": "ask", "severity": "low", "match": {"tool": ["tidy"]}},
            ],
        }
    )
    for tool in ("tidy", "bash", "deploy", "delete_file"):
        a_call("approval-requested", tool=tool, call_id=f"call-{tool}")
    page = ann.get("/approvals/").content.decode()
    texts = ["High risk", "call-deploy", "call-delete_file", "Medium risk", "call-bash", "Low risk", "call-tidy"]
    places = [page.index(text) for text in texts]
    assert places == sorted(places)
    assert page.count("data-sure=") == page.count('name="sure" required') == 2
    assert "marked high risk by rule" in page and "deletes or overwrites data" in page
    assert page.count('value="deny" formnovalidate') == 4


def test_the_places_on_the_cards_are_the_order_of_the_page(a_call: Any) -> None:
    tools = ("bash", "delete_file", "Edit", "delete_file", "bash")
    calls = [a_call("approval-requested", tool=tool, call_id=f"c{n}") for n, tool in enumerate(tools)]
    listed = [call for group in order.group_by_risk(reversed(calls)) for call in group.calls]
    places = [CardView(call.as_shown_card(), call=call).queue for call in listed]
    assert places == sorted(places) and len(places) == len(calls)
    assert [call.call_id for call in listed[:2]] == ["c1", "c3"]
