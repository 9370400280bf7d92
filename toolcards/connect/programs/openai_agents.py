"""The OpenAI Agents SDK: tools wrapped one by one, hooks that watch the run."""

from __future__ import annotations

from toolcards.connect import away, words
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, sdk

_FILES = Project("openai-agents", ".env", sdk)

RECIPE = Recipe(
    name="openai-agents",
    title="OpenAI Agents",
    version="openai-agents 0.24.0",
    about=f"Tools are wrapped one by one; hooks watch the run. {words.WRITES_PYTHON}",
    can=Abilities(gate="every tool that is gated", edit="of gated tools", stream="yes: with streamed"),
    fails="closed",
    when_away=words.DENIED,
    notes=("Hosted and MCP tools cannot be wrapped: let them ask, and answer with answered.",),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: away.python(folder_of(wish)),
    by_project=True,
    place=90,
    road="socket",
    paste=(Snippet("openai_agents", "agent.py", "With needs_approval, see answered in the guide."),),
    guide=words.PYTHON,
    undoing=words.UNDOING,
    next_step=words.LOAD_ENV,
)
