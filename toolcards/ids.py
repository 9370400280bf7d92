"""Identifiers: a prefix for the type, and 120 random bits."""

import secrets


def new_id(prefix: str) -> str:
    """Return an id such as `apr_…` that no one can guess."""
    return f"{prefix}_{secrets.token_urlsafe(15)}"
