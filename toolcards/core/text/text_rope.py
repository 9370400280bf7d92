"""Immutable text that grows by pieces with O(1) appends."""

from __future__ import annotations

import re

_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_pieces(pieces: list[str]) -> str:
    """Return the pieces as one text, with split surrogate pairs joined.

    JavaScript splits them.
    """
    text = "".join(pieces)
    if text.isascii() or not _HALVES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Rope:
    """An immutable text made of pieces.

    Ropes that were extended from each other share one list; each sees only its first `count` pieces,
    so ten thousand deltas cost ten thousand appends and not ten thousand copies.
    """

    __slots__ = ("_pieces", "_count", "length")

    def __init__(self, text: str = "") -> None:
        self._pieces: list[str] = [text] if text else []
        self._count = len(self._pieces)
        self.length = len(text)

    def plus(self, piece: str) -> Rope:
        """Return this text with the piece at its end."""
        if not piece:
            return self
        longer = object.__new__(Rope)
        if len(self._pieces) == self._count:
            longer._pieces = self._pieces  # this is the newest rope: share and append
        else:
            longer._pieces = self._pieces[: self._count]  # another rope was extended from here: copy
        longer._pieces.append(piece)
        longer._count = self._count + 1
        longer.length = self.length + len(piece)
        return longer

    def __str__(self) -> str:
        text = "".join(self._pieces[: self._count])
        return text if text.isascii() else join_pieces([text])

    def join(self) -> Rope:
        """Return this text in one piece, which takes less memory."""
        return Rope(str(self)) if self._count > 1 else self

    def head(self, size: int) -> str:
        """Return the first `size` characters without joining the whole text."""
        pieces: list[str] = []
        for index in range(self._count):
            if size <= 0:
                break
            pieces.append(self._pieces[index][:size])
            size -= len(pieces[-1])
        return "".join(pieces)

    def tail(self, size: int) -> str:
        """Return at least the last `size` characters without joining the whole text."""
        pieces: list[str] = []
        for index in range(self._count - 1, -1, -1):
            if size <= 0:
                break
            pieces.append(self._pieces[index])
            size -= len(pieces[-1])
        return join_pieces(list(reversed(pieces)))

    def __len__(self) -> int:
        return self.length

    def __eq__(self, value: object) -> bool:
        return isinstance(value, Rope) and str(self) == str(value)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Rope({str(self)!r})"


EMPTY = Rope()
