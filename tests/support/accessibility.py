"""The accessibility check: axe, which a page takes in once, asked for its violations alone."""

from __future__ import annotations

from typing import Any

import pytest

# Options in both color schemes: what is no color is the same page in the second one.
SCHEMES: dict[str, dict[str, Any]] = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast", "link-in-text-block"]},
}
# All that axe answers, with what passed, is much more than what a failure says.
CHECK = """async options => (await axe.run(options)).violations.map(
  ({id, nodes}) => [id, nodes[0].html.slice(0, 200), (nodes[0].failureSummary || '').slice(0, 300)])"""

Violation = tuple[str, str, str, str]  # color scheme, rule, element, what to do


def find_violations(page: Any, *schemes: str, reduced_motion: str = "reduce") -> list[Violation]:
    """Return what axe finds on the page in these color schemes; in both without one."""
    axe = pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT
    entries: list[Violation] = []
    for scheme in schemes or SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion=reduced_motion)
        if not page.evaluate("'axe' in window"):  # a new document
            page.evaluate(axe)
        entries += [(scheme, *violation) for violation in page.evaluate(CHECK, SCHEMES[scheme])]
    return entries
