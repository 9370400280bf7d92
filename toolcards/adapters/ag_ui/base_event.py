"""The fields that AG-UI events have in common."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from toolcards.adapters.frames import ProtocolFrame


class TimestampedEvent(ProtocolFrame):
    """An event with the sender's time, which is not used for order."""

    model_config = ConfigDict(alias_generator=to_camel)
    timestamp: float | None = None


class AgUiEvent(TimestampedEvent):
    """The common fields of all events."""

    metadata: dict[str, Any] | None = None
    subagent_run_id: str | None = None

    @property
    def lane(self) -> str:
        """Return the id of the sub-agent."""
        return self.subagent_run_id or ""

    @property
    def tanstack(self) -> dict[str, Any]:
        """Return TanStack's extras from the metadata."""
        extras = (self.metadata or {}).get("tanstack")
        return extras if isinstance(extras, dict) else {}


def to_text(value: Any) -> str:
    """Return the value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""
