"""Twins: a call that is asked about again while its question is open, or its approval unused, waits for that answer."""
