"""Ids of calls on the wire."""

from __future__ import annotations

from toolcards.client.transport.pending import WireIds


def test_wire_ids_are_unique_even_where_a_model_writes_such_ids_itself() -> None:
    ids = WireIds()
    names = [ids.make_unique(each) for each in ["a", "a#2", "a", "a", "a#2", "a#2#2", "a", "b"]]
    assert len(set(names)) == len(names) and names[0] == "a" and names[-1] == "b"
