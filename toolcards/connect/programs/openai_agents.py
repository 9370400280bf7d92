"""The OpenAI Agents SDK: tools wrapped one by one, hooks that watch the run."""

from __future__ import annotations

from toolcards.connect import offline_probe, sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, sdk

_FILES = Project("openai-agents", ".env", sdk)

RECIPE = Recipe(
    name="openai-agents",
    title="OpenAI Agents",
    version="openai-agents 0.24.0",
    about=f"Tools are wrapped one by one; hooks watch the run. {sentences.WRITES_PYTHON}",
    can=Abilities(gate="every tool that is gated", edit="of gated tools", stream="yes: with streamed"),
    fails="closed",
    when_away=sentences.DENIED,
    notes=("Hosted and MCP tools cannot be wrapped: let them ask, and answer with answered.",),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: offline_probe.python(folder_of(wish)),
    by_project=True,
    place=90,
    road="socket",
    paste=(Snippet("openai_agents", "agent.py", "With needs_approval, see answered in the guide."),),
    guide=sentences.PYTHON,
    undoing=sentences.UNDOING,
    next_step=sentences.LOAD_ENV,
)
