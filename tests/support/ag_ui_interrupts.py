"""AG-UI interrupts that ask for a value, as the adapter decodes them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from toolcards.adapters import ADAPTERS
from toolcards.core.calls import facts as f

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


def decode(**interrupt: Any) -> list[Any]:
    outcome = {"type": "interrupt", "interrupts": [{"id": "i1", **interrupt}]}
    event = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r1", "outcome": outcome}
    facts = ADAPTERS["ag-ui"].decode(json.dumps(event))
    assert isinstance(facts, list)
    return [fact for fact in facts if isinstance(fact, f.ApprovalRequested)]
