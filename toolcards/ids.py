"""Names for new things: a prefix that says what it is, and 120 random bits."""

import secrets


def new_id(prefix: str) -> str:
    """Return an id such as `apr_…` that no one can guess."""
    return f"{prefix}_{secrets.token_urlsafe(15)}"
