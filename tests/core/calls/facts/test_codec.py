"""A fact is written to the log and read back unchanged, and completed by copies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.fact_samples import SAMPLES
from tests.support.tables import loop_over
from toolcards.core.calls.facts import dump, load, revise


@loop_over("fact", SAMPLES, ids=lambda fact: type(fact).__name__)
def test_a_revised_fact_is_a_copy_and_leaves_the_original_as_it_is(fact: Any) -> None:
    text, moment = dump(fact), fact.at
    assert revise(fact, call_id="other", at=moment + 1) == replace(fact, call_id="other", at=moment + 1)
    assert (dump(fact), fact.at) == (text, moment) and load(text, moment) == fact


def test_a_field_that_a_fact_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError):
        revise(SAMPLES[0], nothing=1)
