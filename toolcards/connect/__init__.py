"""Wiring agent programs on this computer to a server: one recipe per program, each an edit that can be taken back.

    recipe = connect.recipe("claude-code")
    changes = recipe.plan(connect.Wish(url="http://127.0.0.1:8000", key="tck_…"))      # what would be written
    connect.write(changes)                                                             # writes it
    connect.write(recipe.undo(wish))                                                   # removes exactly that

`recipes()` is for pages: name, title, command, what the program can do, what happens while the server is away.
"""

from __future__ import annotations

from toolcards.connect.base import Abilities, Change, Recipe, Unreadable, Wish, write
from toolcards.connect.claude_code import CLAUDE_CODE
from toolcards.connect.opencode import OPENCODE

_RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (CLAUDE_CODE, OPENCODE)}


def recipes() -> list[Recipe]:
    """Return every recipe."""
    return list(_RECIPES.values())


def recipe(name: str) -> Recipe:
    """Return the recipe of that name; raises KeyError."""
    return _RECIPES[name]


__all__ = ["Abilities", "Change", "Recipe", "Unreadable", "Wish", "recipe", "recipes", "write"]
