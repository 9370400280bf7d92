"""How many examples property tests draw: a quarter of them in `make test`, all of them in `make test-thorough`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., Any])
THOROUGH = "thorough"  # the profile of `make test-thorough`


def draw(most: int, **options: Any) -> Callable[[Test], Test]:
    """Return a decorator for a test of `@given` that draws at most that many examples.

    `options`: more settings of Hypothesis.
    """
    is_thorough = settings.get_current_profile_name() == THOROUGH
    chosen = settings(deadline=None, max_examples=most if is_thorough else max(most // 4, 10), **options)

    def mark(test: Test) -> Test:
        marked_test: Test = pytest.mark.examples(chosen(test))
        return marked_test

    return mark
