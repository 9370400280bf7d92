"""The audit trail as a page."""
