"""Identifiers: a prefix for the type, and 120 random bits."""

import secrets


def new_id(prefix: str) -> str:
    """Return an unguessable id such as `apr_…`."""
    return f"{prefix}_{secrets.token_urlsafe(15)}"
