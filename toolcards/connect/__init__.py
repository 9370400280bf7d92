"""Wiring agent programs to a server: one recipe per program or library, each an edit that can be taken back.

    recipe = connect.recipe("claude-code")
    changes = recipe.plan(connect.Wish(url="http://127.0.0.1:8000", key="tck_…"))      # what would be written
    connect.write(changes)                                                             # writes it
    connect.write(recipe.undo(wish))                                                   # removes exactly that

A recipe is a module of `programs/` with a `RECIPE` in it; nothing else has to know of it. The command, the connect
page and the README's table go by what it says.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from toolcards.connect import programs
from toolcards.connect.base import Abilities, Change, Recipe, Snippet, Unreadable, Wish, write


@cache
def _all() -> dict[str, Recipe]:
    names = [found.name for found in pkgutil.iter_modules(programs.__path__)]
    found: list[Recipe] = [import_module(f"{programs.__name__}.{name}").RECIPE for name in names]
    return {recipe.name: recipe for recipe in sorted(found, key=lambda recipe: (recipe.place, recipe.name))}


def recipes() -> list[Recipe]:
    """Return every recipe, in the order of the connect page."""
    return list(_all().values())


def recipe(name: str) -> Recipe:
    """Return the recipe of that name, or that goes by it too; raises KeyError."""
    return next((recipe for recipe in recipes() if name in recipe.also), None) or _all()[name]


__all__ = ["Abilities", "Change", "Recipe", "Snippet", "Unreadable", "Wish", "recipe", "recipes", "write"]
