"""Recipes: each says what it can do, and how to undo it."""

from __future__ import annotations

from tests.support.tables import loop_over
from toolcards import connect


@loop_over("recipe", connect.RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_says_what_it_can_do(recipe: connect.Recipe) -> None:
    assert recipe.command == f"toolcards connect {recipe.name}"
    assert recipe.undo_command.endswith("--undo")
    assert recipe.fails and recipe.when_away and recipe.title and recipe.version and recipe.about
    assert recipe.can.observe == "yes" and recipe.transport in {"hooks", "http", "socket"}
