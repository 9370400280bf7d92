"""Values that the writer has read in the open transaction, so that the calls of one commit read them once.

Each thread has its own memo, which a transaction starts empty.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_thread = threading.local()


@contextmanager
def open_memo() -> Iterator[None]:
    """Cache reads in the block."""
    before = getattr(_thread, "memo", None)
    _thread.memo = {}
    try:
        yield
    finally:
        _thread.memo = before


def recall(key: Any, load: Callable[[], T]) -> T:
    """Return what `load` returned in this transaction under the key.

    Outside of one, call it each time.
    """
    memo: dict[Any, T] | None = getattr(_thread, "memo", None)
    if memo is None:
        return load()
    if key not in memo:
        memo[key] = load()
    return memo[key]


def forget() -> None:
    """Clear the memo, because the transaction has changed a cached value."""
    memo = getattr(_thread, "memo", None)
    if memo is not None:
        memo.clear()
