"""Anything that speaks HTTP: three requests."""

from __future__ import annotations

from toolcards.connect import sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project

_FILES = Project("anything", ".env")

RECIPE = Recipe(
    name="anything",
    title="Anything (curl)",
    version="curl 7 and newer",
    about="Three requests, from any language: ask before the call, run it, say what came of it. In the project's "
    "folder: writes address and key into .env.",
    can=Abilities(edit="yes: run the arguments that the answer has", stream="yes: as frames, see below"),
    fails="your program decides",
    when_away="Treat no answer as no: do not run the call.",
    notes=(),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    also=("curl",),
    by_project=True,
    place=0,
    paste=(
        Snippet("curl_decide", "1. Ask before the call", "Answers at once: allow, ask or deny."),
        Snippet(
            "curl_claim",
            "2. Use the permit, right before running",
            "Once. The answer has the arguments to run with: a person may have changed them.",
        ),
        Snippet("curl_result", "3. Say what came of it", "outcome is ok, error, aborted or unknown."),
    ),
    by_hand=(Snippet("curl_watch", "Only watching: send frames", "One JSON object per line; nothing is held back."),),
    guide="docs/api.md",
    undoing="Leave the requests out again, then this removes exactly what was written:",
    next_step=sentences.LOAD_ENV,
)
