"""Templates and scripts keep to the rules that the content security policy and htmx's traps make."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.tables import loop_over
from toolcards.core.calls.card import ToolCallState

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static" / "toolcards").rglob("*.js"))
STYLES = sorted((ROOT / "static" / "toolcards").glob("*.css"))
STATES = ROOT / "templates" / "toolcards" / "card"

BANNED = {
    "inline style": r"\sstyle\s*=",
    "inline handler": r"\son[a-z]+\s*=",
    "hx-on": r"hx-on",
    "js: expressions": r"[\"']\s*js:",
    "javascript: links": r"javascript:",
    "defer (hx-ws loses the race)": r"<script[^>]*\s(defer|async)|<script type=.module.[^>]*vendor",
    "unescaped text": r"\|\s*safe\b|autoescape off",
    "attribute without quotes": r"\s[\w:-]+=[^\"'\s<>{%]*\{\{",
    "inline script": r"<script(?![^>]*\ssrc=)",
    "inline style sheet": r"<style",
}
BANNED_SCRIPT = {
    "markup from text": r"\.(innerHTML|outerHTML)\s*=|insertAdjacentHTML|document\.write",
    "eval": r"\beval\(|new Function",
    "inline style": r"\.style\.",
}


def test_tables_that_can_scroll_are_reached_by_keyboard_and_have_a_name() -> None:
    tables = [
        (template.name, tag)
        for template in TEMPLATES
        for tag in re.findall(r'<div class="table\b[^>]*>', template.read_text())
    ]
    assert len(tables) > 15
    assert not [
        table
        for table in tables
        if not all(part in table[1] for part in ('tabindex="0"', 'role="region"', "aria-label="))
    ]


def test_no_line_of_a_template_script_or_style_is_longer_than_120_characters() -> None:
    assert STYLES and SCRIPTS and TEMPLATES
    assert not [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*TEMPLATES, *SCRIPTS, *STYLES]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]


@loop_over("template", TEMPLATES, ids=lambda path: path.relative_to(ROOT / "templates").as_posix())
def test_a_template_has_nothing_that_is_banned(template: Path) -> None:
    text = template.read_text()
    assert not [name for name, pattern in BANNED.items() if re.search(pattern, text, re.IGNORECASE)]


@loop_over("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_nothing_that_is_banned(script: Path) -> None:
    text = script.read_text()
    assert not [name for name, pattern in BANNED_SCRIPT.items() if re.search(pattern, text)]


def test_there_is_one_card_template_per_state() -> None:
    assert sorted(path.stem for path in STATES.glob("*.html")) == sorted(map(str, ToolCallState))


def test_every_icon_is_in_the_sprite() -> None:
    sprite = (ROOT / "static" / "vendor" / "lucide" / "sprite.svg").read_text()
    there = set(re.findall(r'id="i-([a-z0-9-]+)"', sprite))
    shown_text = {name for path in TEMPLATES for name in re.findall(r'{%\s*icon "([a-z0-9-]+)"', path.read_text())}
    code = (ROOT / "dashboard" / "cards" / "labels.py").read_text()
    shown_text |= set(re.findall(r'StateLabel\("[^"]+", "([a-z-]+)"', code))
    assert shown_text <= there


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _contrast(one: str, other: str) -> float:
    a, b = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def _tokens() -> dict[str, tuple[str, str]]:
    text = (ROOT / "static" / "toolcards" / "tokens.css").read_text()
    matches = re.findall(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", text)
    return {name: (light, dark) for name, light, dark in matches}


PAIRS = [(text, ground, 4.5) for text in ("text", "muted", "accent") for ground in ("bg", "surface", "sunken")]
PAIRS += [(f"st-{name}", "surface", 3.0) for name in ("stream", "run", "ask", "ok", "err", "deny")]
PAIRS += [
    ("line-2", "surface", 3.0),
    ("on-accent", "accent", 4.5),
    ("on-ask", "st-ask", 4.5),
    ("st-err", "surface", 4.5),
]


@loop_over(("front", "ground", "least"), PAIRS)
def test_colours_can_be_read_in_both_themes(front: str, ground: str, least: float) -> None:
    tokens = _tokens()
    for theme in (0, 1):
        assert _contrast(tokens[front][theme], tokens[ground][theme]) >= least
