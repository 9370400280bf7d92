"""Worked examples of AG-UI as TanStack AI wraps it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.worked_examples import (
    AG_UI,
    assert_story,
)


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AG_UI])
def test_wrapped_chunks_tell_the_same(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    assert_story("tanstack", [{"id": str(n), "chunk": frame} for n, frame in enumerate(frames)], states, facts)
