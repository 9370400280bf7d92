"""The set of received sequence numbers of a sender: all up to the first entry, then ranges with gaps between them.

A list of integers and pairs, as stored in the run's row: `[7, [9, 12], [20, 20]]`. Numbers arrive out of order
over several sockets, so gaps are normal and close soon; a sender with more than `MAX_GAPS` gaps is stopped.

Some protocols, and agents that name their stream (`?stream=`), number the frames of each stream of a run separately, in
order: such a number is `(stream, n)`, and the last number of each stream is kept in an object at the list's end:
`[7, {"request-1": 42}]`.
"""

from __future__ import annotations

from bisect import bisect
from typing import Any

MAX_GAPS = 1_000
MAX_STREAMS = 20  # the newest ones; older streams do not continue
SequenceNumber = int | tuple[str, int]


class TooManyGaps(Exception):
    """The number would leave more than `MAX_GAPS` gaps."""


def is_new(ranges: list[Any], number: SequenceNumber) -> bool:
    """Return whether the number is new; raise TooManyGaps beyond the limit."""
    if isinstance(number, tuple):
        return number[1] > _get_streams(ranges).get(number[0], -1)
    if number <= ranges[0]:
        return False
    index = bisect(ranges, number, 1, key=_first)
    if index > 1 and number <= _last(ranges[index - 1]):
        return False
    is_adjacent = number == _last(ranges[index - 1]) + 1 or (
        index < len(ranges) and number + 1 == _first(ranges[index])
    )
    if not is_adjacent and len(ranges) > MAX_GAPS:
        raise TooManyGaps
    return True


def add_next(ranges: list[Any], number: SequenceNumber) -> bool:
    """Add the number if it directly follows; return whether it did.

    This is the fast path: the number follows all others, or those of its stream.
    """
    if isinstance(number, tuple):
        streams = _get_streams(ranges)
        if streams.get(number[0], 0) + 1 != number[1] or number[0] not in streams:
            return False
        del streams[number[0]]  # the newest stream comes last
        streams[number[0]] = number[1]
        return True
    if len(ranges) == 1 and number == ranges[0] + 1:
        ranges[0] = number
        return True
    return False


def add(ranges: list[Any], number: SequenceNumber) -> None:
    """Add a new number in place."""
    if isinstance(number, tuple):
        name, last = number
        streams = {stream: n for stream, n in _get_streams(ranges).items() if stream != name}
        ranges[:] = [part for part in ranges if not isinstance(part, dict)]
        ranges.append(dict([*streams.items()][1 - MAX_STREAMS :]) | {name: last})
        return
    index = bisect(ranges, number, 1, key=_first)
    first = last = number
    if index < len(ranges) and number + 1 == _first(ranges[index]):
        last = _last(ranges.pop(index))
    if number == _last(ranges[index - 1]) + 1:
        if index == 1:
            ranges[0] = last
            return
        first = _first(ranges.pop(index - 1))
        index -= 1
    ranges.insert(index, [first, last])


def _get_streams(ranges: list[Any]) -> dict[str, int]:
    return ranges[-1] if isinstance(ranges[-1], dict) else {}


def _first(part: Any) -> int:
    if isinstance(part, dict):
        return 1 << 63  # beyond every number
    return int(part[0] if isinstance(part, list) else part)


def _last(part: Any) -> int:
    return int(part[1] if isinstance(part, list) else part)
