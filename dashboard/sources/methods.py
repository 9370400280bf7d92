"""The ways to connect an agent and what Toolcards can do with each: the connect page's table.

Most are recipes of `toolcards connect`, which describe themselves; the others are listed here. The table is tested with
the real programs and libraries (`tests/clients/`), and `docs/` explains each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolcards import connect
from toolcards.connect import Abilities, Snippet


@dataclass(frozen=True, slots=True)
class ConnectMethod:
    """One way to connect. `without_us`: what happens while Toolcards is down; `undo`: how to disconnect."""

    slug: str
    title: str
    about: str
    can: Abilities
    fails: str  # closed, open, or words for anything between
    without_us: str
    snippets: tuple[Snippet, ...]
    undo: str
    undo_command: str = ""
    tested: str = ""
    notes: tuple[str, ...] = ()
    guide: str = ""  # the document with the details
    by_project: bool = False

    @property
    def abilities(self) -> tuple[tuple[str, str, str], ...]:
        """Return the abilities in order: word; `yes`, `no` or `partly`; details."""
        words = (
            ("observe", self.can.observe),
            ("gate", self.can.gate),
            ("edit arguments", self.can.edit),
            ("stream", self.can.stream),
        )
        return tuple((word, *_parse_grade(grade_text)) for word, grade_text in words)


def _parse_grade(grade_text: str) -> tuple[str, str]:
    """Return the grade and the details of `yes`, `no: why` or other text."""
    head, _, detail = grade_text.partition(": ")
    return (head, detail) if head in {"yes", "no"} else ("partly", grade_text)


COMMAND = "command"  # the snippet that contains the command


def _build_method(recipe: connect.Recipe) -> ConnectMethod:
    """Return the method of a program or library with a recipe."""
    where = "In the folder of your code, or with --project FOLDER." if recipe.by_project else "Where the program runs."
    return ConnectMethod(
        slug=recipe.name,
        title=recipe.title,
        about=recipe.about,
        can=recipe.can,
        fails=recipe.fails,
        without_us=recipe.when_away,
        snippets=(Snippet(COMMAND, f"Connect {recipe.title}", where), *recipe.paste, *recipe.by_hand),
        undo=recipe.undo_hint,
        undo_command=recipe.undo_command,
        tested=recipe.version if recipe.by_project else f"{recipe.title} {recipe.version}",
        notes=recipe.notes,
        guide=recipe.guide,
        by_project=recipe.by_project,
    )


WEBSOCKET = ConnectMethod(
    slug="websocket",
    title="WebSocket",
    about="One socket per run: calls go in as they happen, decisions come back on the same socket.",
    can=Abilities(edit="yes: run the arguments that the decision has", stream="yes"),
    fails="closed",
    without_us="The socket closes; a call without a decision must not run.",
    snippets=(
        Snippet(
            "websocket_py",
            "gate.py",
            "Needs: pip install websockets. Where the decision has args, a person changed them: run those.",
        ),
    ),
    undo="Leave the program out again, and revoke the key under Sources.",
)

METHODS = (*map(_build_method, connect.RECIPES), WEBSOCKET)


def find_method(name: str) -> ConnectMethod | None:
    """Return the method with this slug or alias."""
    method_name = next((recipe.name for recipe in connect.RECIPES if name in recipe.aliases), name)
    return next((way for way in METHODS if way.slug == method_name), None)
