"""Rows of the catalog that cannot be meant."""

from __future__ import annotations

import pytest

from toolcards.core.policy.shell.catalogs import (
    ProgramCatalog,
)
from toolcards.core.policy.shell.program_forms import InvalidCatalog


@pytest.mark.parametrize(
    "row",
    [
        {"lokks": "-a"},
        {"read_only": "a"},
        {"read_only": "-a -a"},
        {"read_only": "-a", "writes": "-a"},
        {"read_only": "-a", "other": "-a:"},
        {"does": "breaks"},
        {"style": "odd"},
        {"script": "cobol"},
        {"values": "("},
        {"read_only": "@none"},
        {"sub": {"x": {"lokks": ""}}},
    ],
)
def test_a_row_that_cannot_be_meant_is_refused(row):
    with pytest.raises(InvalidCatalog):
        ProgramCatalog({"programs": {"x": row}}).find("x")


def test_a_program_that_is_listed_twice_is_refused():
    with pytest.raises(InvalidCatalog):
        ProgramCatalog({"programs": {"x y": {"read_only": "*"}, "y": {"does": "writes"}}})
