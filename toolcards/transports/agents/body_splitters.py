"""Splits the bodies of /api/v1/ingest into frames, piece by piece: JSON, NDJSON and server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings

from toolcards.adapters import BadFrame
from toolcards.adapters.sse import EventSplitter, LineSplitter
from toolcards.transports.agents.frame_intake import iterate_frames
from toolcards.transports.api.api_errors import Problem


class JsonBodySplitter:
    """The frames of an application/json body: one object, or an array of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[str]:
        """Add the piece; raises BadFrame with code too_large."""
        self._size += len(data)
        if self._size > self._limit:
            raise BadFrame(f"a JSON body must have at most {self._limit} bytes; stream it as NDJSON", "too_large")
        self._pieces.append(data)
        return []

    def end(self) -> Iterator[str]:
        """Yield the frames.

        Raises BadFrame, perhaps only at the end of an array.
        """
        try:
            text = b"".join(self._pieces).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadFrame("not JSON: not UTF-8", "not_json") from None
        return iterate_frames(text.strip())


class SseBodySplitter(EventSplitter):
    """Splits server-sent events; refuses a body without a single SSE line."""

    FIELDS = ("data", "event", "id", "retry", ":")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._has_field = False
        self._has_text = False

    def _frames(self, lines: list[str]) -> list[str]:
        for line in lines if not self._has_field else ():
            self._has_text = self._has_text or bool(line.strip())
            self._has_field = self._has_field or line.startswith(self.FIELDS)
        return super()._frames(lines)

    def end(self) -> list[str]:
        """Return the last frames.

        Raises BadFrame if there was no event at all.
        """
        frames = super().end()
        if self._has_text and not self._has_field:
            raise BadFrame("no server-sent events in this body", "not_sse")
        return frames


def build_splitter(content_type: str) -> Any:
    """Return the splitter for a Content-Type; raises Problem 415."""
    env, kind = settings.TOOLCARDS, content_type.partition(";")[0].strip().lower()
    splitters: dict[str, Callable[[], Any]] = {
        "text/event-stream": lambda: SseBodySplitter(env.max_frame),
        "application/x-ndjson": lambda: LineSplitter(env.max_frame),
        "application/json": lambda: JsonBodySplitter(env.max_body),
    }
    if kind not in splitters:
        raise Problem(415, "unsupported_media_type", f"Content-Type must be one of: {', '.join(sorted(splitters))}.")
    return splitters[kind]()
