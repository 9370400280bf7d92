"""Lines of the log, and the facts that they are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolcards.core.calls import facts as f

MOMENT = 1_700_000_000.5


def read_line(line: str) -> tuple[type, dict[str, Any]]:
    """Return the class of the fact in the line and all its fields but the time; the fact must give the line back."""
    fact = f.load(line, MOMENT)
    assert f.dump(fact) == line
    fields = asdict(fact)
    assert fields.pop("at") == MOMENT
    return type(fact), fields
