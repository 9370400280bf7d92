"""Which of a sender's own frame numbers were seen: all up to the first, then ranges beyond it, with gaps between them.

A list of whole numbers and pairs, as it stands in the run's row: `[7, [9, 12], [20, 20]]`. Numbers arrive out of order
over several sockets, so gaps are normal and soon closed; who never closes them is stopped at `MOST_GAPS`.
"""

from __future__ import annotations

from bisect import bisect
from typing import Any

MOST_GAPS = 1_000


class TooManyGaps(Exception):
    """The number would leave one gap more than is kept."""


def is_new(seen: list[Any], number: int) -> bool:
    """Return whether the number was not seen yet; raises TooManyGaps where it could not be kept."""
    if number <= seen[0]:
        return False
    at = bisect(seen, number, 1, key=_first)
    if at > 1 and number <= _last(seen[at - 1]):
        return False
    joins = number == _last(seen[at - 1]) + 1 or (at < len(seen) and number + 1 == _first(seen[at]))
    if not joins and len(seen) > MOST_GAPS:
        raise TooManyGaps
    return True


def keep(seen: list[Any], number: int) -> None:
    """Note a new number, in place."""
    at = bisect(seen, number, 1, key=_first)
    first = last = number
    if at < len(seen) and number + 1 == _first(seen[at]):
        last = _last(seen.pop(at))
    if number == _last(seen[at - 1]) + 1:
        if at == 1:
            seen[0] = last
            return
        first = _first(seen.pop(at - 1))
        at -= 1
    seen.insert(at, [first, last])


def _first(part: Any) -> int:
    return int(part[0] if isinstance(part, list) else part)


def _last(part: Any) -> int:
    return int(part[1] if isinstance(part, list) else part)
