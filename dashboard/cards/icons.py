"""Icons as HTML."""

from __future__ import annotations

from functools import lru_cache

from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString


@lru_cache(maxsize=512)
def render_icon(name: str, classes: str = "") -> SafeString:
    """Return an icon of the sprite.

    The text next to it has its meaning.
    """
    sprite = static("vendor/lucide/sprite.svg")
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="{}#i-{}"/></svg>', classes, sprite, name)
