"""Worked examples of AG-UI events, frame by frame."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.worked_examples import (
    AG_UI,
    assert_story,
)


@loop_over("protocol", ["ag-ui", "tanstack"])
@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AG_UI])
def test_an_ag_ui_example_ends_as_written(
    protocol: str, frames: list[Any], states: list[str], facts: dict[str, Any]
) -> None:
    assert_story(protocol, frames, states, facts)
