"""The audit trail: one hash-chained row for each act, its signed end, and its verification."""
