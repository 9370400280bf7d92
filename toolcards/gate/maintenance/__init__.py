"""Maintenance of the store: retention, rebuild from the log, and new keys."""
