"""Repair as the server does it: what both ends agree on, with all of JSON Schema to check against."""

from __future__ import annotations

from functools import partial

from toolcards.client.common import repair
from toolcards.client.common.repair import DANGER, Mended, Offer, Offers, Trouble, fits, offers
from toolcards.core import schema

check = partial(repair.check, findings=schema.findings)
mend = partial(repair.mend, findings=schema.findings)

__all__ = ["DANGER", "Mended", "Offer", "Offers", "Trouble", "check", "fits", "mend", "offers"]
