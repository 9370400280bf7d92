"""Repair as the server does it: what both ends agree on, with all of JSON Schema to check against."""

from __future__ import annotations

from functools import partial

from toolcards.client.common import input_repair
from toolcards.client.common.input_repair import DANGER, Mended, Offer, Offers, Trouble, fits, offers
from toolcards.core.schemas import json_schema

check = partial(input_repair.check, findings=json_schema.find_errors)
mend = partial(input_repair.mend, findings=json_schema.find_errors)

__all__ = ["DANGER", "Mended", "Offer", "Offers", "Trouble", "check", "fits", "mend", "offers"]
