"""Connecting agent programs to a server: one recipe per program or library, each an edit that can be undone.

    recipe = connect.get_recipe("claude-code")
    changes = recipe.plan(connect.Target(url="http://127.0.0.1:8000", key="tck_…"))      # what would be written
    connect.write_changes(changes)                                                     # writes it
    connect.write_changes(recipe.undo(target))                                           # removes exactly that

The command, the connect page and the README's table are made from `RECIPES`.
"""

from __future__ import annotations

from toolcards.connect.base import Abilities, Change, Recipe, Snippet, Target, Unreadable, Unwritable, write_changes
from toolcards.connect.programs import (
    acp,
    claude_code,
    cline,
    codex,
    copilot_cli,
    cursor,
    gemini_cli,
    goose,
    libraries,
    mcp,
    opencode,
)

# In the order of the connect page.
RECIPES: tuple[Recipe, ...] = (
    libraries.ANYTHING, claude_code.RECIPE, codex.RECIPE, gemini_cli.RECIPE, copilot_cli.RECIPE, cursor.RECIPE,
    cline.RECIPE, goose.RECIPE, opencode.RECIPE,
    *libraries.LIBRARIES, mcp.RECIPE, acp.RECIPE,
)  # fmt: skip


def get_recipe(name: str) -> Recipe:
    """Return the recipe with this name or alias; raises KeyError."""
    for recipe in RECIPES:
        if name == recipe.name or name in recipe.aliases:
            return recipe
    raise KeyError(name)


__all__ = [
    "RECIPES", "Abilities", "Change", "Recipe", "Snippet", "Target", "Unreadable", "Unwritable", "get_recipe",
    "write_changes",
]  # fmt: skip
