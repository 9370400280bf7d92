"""Input repair on the server: the shared rules, checked against full JSON Schema."""

from __future__ import annotations

from functools import partial

from toolcards.client.common import input_repair
from toolcards.client.common.input_repair import DANGER, Offer, Offers, Repair, Trouble, fits, parse_offers
from toolcards.core.schemas import json_schema

check = partial(input_repair.check, findings=json_schema.find_errors)
repair = partial(input_repair.repair, findings=json_schema.find_errors)

__all__ = ["DANGER", "Offer", "Offers", "Repair", "Trouble", "check", "fits", "parse_offers", "repair"]
