"""LangChain and LangGraph: a middleware that gates, a config that watches."""

from __future__ import annotations

from toolcards.connect import offline_probe, sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, sdk

_FILES = Project("langchain", ".env", sdk)

RECIPE = Recipe(
    name="langchain",
    title="LangChain",
    version="langchain 1.4.7, langgraph 1.2.22",
    about=f"A middleware, first in the list, and a config that watches. {sentences.WRITES_PYTHON}",
    can=Abilities(gate="yes: every tool behind Gate", edit="yes", stream="yes"),
    fails="closed",
    when_away=sentences.DENIED,
    notes=("A plain exception in a tool ends LangChain's run: the card says what it was.",),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: offline_probe.python(folder_of(wish)),
    also=("langgraph",),
    by_project=True,
    place=80,
    road="socket",
    paste=(Snippet("langchain", "agent.py", "With HumanInTheLoopMiddleware, see resume in the guide."),),
    guide=sentences.PYTHON,
    undoing=sentences.UNDOING,
    next_step=sentences.LOAD_ENV,
)
