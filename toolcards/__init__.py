"""The engine: what agents do becomes facts, facts become cards, and the gate decides."""
