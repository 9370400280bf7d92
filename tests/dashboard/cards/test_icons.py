"""Icons as HTML: hidden from screen readers, drawn from the sprite, and every icon that is named is in it."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders

from dashboard.cards import labels
from dashboard.cards.icons import render_icon

SPRITE = "vendor/lucide/sprite.svg"


def list_icons() -> set[str]:
    path = finders.find(SPRITE)
    assert isinstance(path, str)
    return set(re.findall(r'id="i-([a-z0-9-]+)"', Path(path).read_text()))


def test_an_icon_is_a_part_of_the_sprite_that_screen_readers_skip() -> None:
    html = render_icon("hand", "large")
    assert re.fullmatch(r'<svg class="icon large" aria-hidden="true"><use href="([^"]+)#i-hand"/></svg>', html)
    assert f"{settings.STATIC_URL}{SPRITE}" in html


def test_a_name_is_escaped() -> None:
    html = render_icon('x"><script>', '"><b>')
    assert "<script>" not in html and "<b>" not in html and html.count("<") == 3


def test_every_icon_of_a_template_or_a_label_is_in_the_sprite() -> None:
    icons = list_icons()
    (templates,) = settings.TEMPLATES[0]["DIRS"]
    texts = [path.read_text() for path in templates.rglob("*.html")]
    template_icons = {name for text in texts for name in re.findall(r'\{% icon "([^"]+)"', text)}
    label_icons = {
        label.icon
        for table in vars(labels).values()
        if isinstance(table, dict)
        for label in table.values()
        if isinstance(label, labels.StateLabel)
    }
    assert len(template_icons) > 20 and len(label_icons) > 10
    assert template_icons | label_icons <= icons
