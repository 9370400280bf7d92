"""Decisions of the gate: the question, the answer that is checked against it, and the wait in between."""
