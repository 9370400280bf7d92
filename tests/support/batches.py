"""Similar waiting calls, and votes on them."""

from __future__ import annotations

import re


def tickets(page: str) -> list[str]:
    """What the boxes of the page send, in its order."""
    return re.findall(r'<input type="checkbox" name="pick" value="([^"]+)"', page)
