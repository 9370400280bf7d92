"""The fields that AG-UI events have in common."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from toolcards.adapters.frames import ProtocolFrame


class TimestampedEvent(ProtocolFrame):
    """An event with its time, which is the sender's and orders nothing."""

    model_config = ConfigDict(alias_generator=to_camel)
    timestamp: float | None = None


class AgUiEvent(TimestampedEvent):
    """What every event may carry."""

    metadata: dict[str, Any] | None = None
    subagent_run_id: str | None = None

    @property
    def lane(self) -> str:
        """The sub-agent that speaks."""
        return self.subagent_run_id or ""

    @property
    def tanstack(self) -> dict[str, Any]:
        """TanStack's extras; nobody else uses this place."""
        extras = (self.metadata or {}).get("tanstack")
        return extras if isinstance(extras, dict) else {}


def to_text(value: Any) -> str:
    """Return the value if it is a text, else nothing."""
    return value if isinstance(value, str) else ""
