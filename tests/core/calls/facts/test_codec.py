"""Stored facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.fact_samples import SAMPLES
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.facts import dump, load, revise


@loop_over("fact", SAMPLES, ids=lambda fact: type(fact).__name__)
def test_a_revised_fact_is_a_copy_and_leaves_the_original_as_it_is(fact: Any) -> None:
    text, moment = dump(fact), fact.at
    assert revise(fact, call_id="other", at=moment + 1) == replace(fact, call_id="other", at=moment + 1)
    assert (dump(fact), fact.at) == (text, moment) and load(text, moment) == fact


def test_a_field_that_a_fact_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError):
        revise(SAMPLES[0], nothing=1)


def test_an_unknown_fact_type_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fact type"):
        f.load('{"type":"tomorrow"}')
