"""Pydantic AI: a capability of the agent."""

from __future__ import annotations

from toolcards.connect import offline_probe, sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, sdk

_FILES = Project("pydantic-ai", ".env", sdk)

RECIPE = Recipe(
    name="pydantic-ai",
    title="Pydantic AI",
    version="pydantic-ai-slim 2.68.0",
    about=f"A capability of the agent; each agent run is a run of its own. {sentences.WRITES_PYTHON}",
    can=Abilities(edit="yes", stream="yes"),
    fails="closed",
    when_away=sentences.DENIED,
    notes=(
        "Watch instead of Gate only shows.",
        "Tools with requires_approval=True are answered by the gate; approvals=False leaves them to the app.",
    ),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: offline_probe.python(folder_of(wish)),
    by_project=True,
    place=70,
    road="socket",
    paste=(Snippet("pydantic_ai", "agent.py", "Every tool of the agent is gated."),),
    guide=sentences.PYTHON,
    undoing=sentences.UNDOING,
    next_step=sentences.LOAD_ENV,
)
