"""Identifiers."""

from __future__ import annotations

import re

from toolcards.ids import new_id


def test_an_id_is_its_prefix_and_120_random_bits_for_addresses() -> None:
    ids = {new_id("apr") for _ in range(200)}
    assert len(ids) == 200 and all(re.fullmatch(r"apr_[A-Za-z0-9_-]{20}", each) for each in ids)
    assert len({each[4:8] for each in ids}) > 190  # no part of them is a time or a count
