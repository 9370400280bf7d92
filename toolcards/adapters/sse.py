"""Incremental splitting of byte streams into frames.

`EventSplitter` reads server-sent events (HTML standard, section 9.2.6) and returns the `data` of each;
`event`, `id`, `retry` and comments are ignored. It tolerates what senders do: a last event without its
blank line counts, `[DONE]` does not. `LineSplitter` does the same for newline-delimited JSON.
"""

from __future__ import annotations

import codecs
import re

from toolcards.adapters.base import BadFrame

LIMIT = 1 << 20  # characters of one frame; the transport passes its own setting
FIELD = 16  # characters on top for the field's name and its blank
_LINE = re.compile(r"\r\n|\r|\n")


class CutLine(str):
    """The beginning of a line that was too long."""

    __slots__ = ()


class LineReader:
    """Splits bytes into lines at CRLF, CR or LF; a CRLF split over two pieces ends one line.

    `cuts`: return the beginning of a line that is too long, instead of raising.
    """

    def __init__(self, limit: int = LIMIT, *, cuts: bool = False) -> None:
        self._limit, self._cuts = limit, cuts
        self._text = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._pieces: list[str] = []
        self._size = 0
        self._after_cr = False

    def feed(self, data: bytes, final: bool = False) -> list[str]:
        """Return the complete lines; `final` adds the rest. Raises BadFrame (too_large)."""
        text = self._text.decode(data, final)
        if self._after_cr and text:
            text, self._after_cr = text.removeprefix("\n"), False
        self._after_cr = self._after_cr or text.endswith("\r")
        first, *lines = _LINE.split(text)
        lines_out: list[str] = []
        self._keep(first)
        for line in lines:
            lines_out.append(self._take_line())
            self._keep(line)
        if final and self._pieces:
            lines_out.append(self._take_line())
        return lines_out

    def _take_line(self) -> str:
        text = "".join(self._pieces)
        is_cut = self._size > self._limit + FIELD
        self._pieces, self._size = [], 0
        return CutLine(text[:FIELD]) if is_cut else text

    def _keep(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > self._limit + FIELD:
            if not self._cuts:
                raise BadFrame(f"a line of more than {self._limit} characters", "too_large")
            self._pieces = ["".join([*self._pieces, piece[:FIELD]])[:FIELD]]
        elif piece:
            self._pieces.append(piece)


class EventSplitter:
    """Splits server-sent events into their `data`.

    `skips`: leave out events that are too long, instead of raising; `skipped_count` counts them.
    """

    def __init__(self, limit: int = LIMIT, *, skips: bool = False) -> None:
        self.skipped_count = 0
        self._limit, self._skips, self._is_too_long = limit, skips, False
        self._lines = LineReader(limit, cuts=skips)
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[str]:
        """Return the complete frames; raises BadFrame (too_large)."""
        return self._frames(self._lines.feed(data))

    def end(self) -> list[str]:
        """Return the last frame if its blank line is missing."""
        return self._frames([*self._lines.feed(b"", final=True), ""])

    def _frames(self, lines: list[str]) -> list[str]:
        frames: list[str] = []
        for line in lines:
            if line:
                self._read(line)
            elif self._is_too_long:
                self.skipped_count += 1
                self._data, self._size, self._is_too_long = [], 0, False
            elif self._data:
                frames.append("\n".join(self._data))
                self._data, self._size = [], 0
        return [frame for frame in frames if frame and frame.strip() != "[DONE]"]

    def _read(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name != "data" or self._is_too_long:
            return
        if isinstance(line, CutLine):
            self._is_too_long = True
            return
        self._data.append(value.removeprefix(" "))
        self._size += len(self._data[-1])
        if self._size > self._limit and self._skips:
            self._data, self._is_too_long = [], True
        elif self._size > self._limit:
            raise BadFrame(f"a frame of more than {self._limit} characters", "too_large")


class LineSplitter:
    """Splits newline-delimited JSON into lines; drops blank lines."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._lines = LineReader(limit)

    def feed(self, data: bytes) -> list[str]:
        """Return the complete frames; raises BadFrame (too_large)."""
        return [line for line in self._lines.feed(data) if line.strip()]

    def end(self) -> list[str]:
        """Return the last line if its line end is missing."""
        return [line for line in self._lines.feed(b"", final=True) if line.strip()]
