"""Plain Python: functions behind `@gated`, or a loop of one's own; nothing but the standard library."""

from __future__ import annotations

from toolcards.connect import offline_probe, sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, sdk

_FILES = Project("python", ".env", sdk)

RECIPE = Recipe(
    name="python",
    title="Python",
    version="3.11",
    about=f"Plain and async functions. {sentences.WRITES_PYTHON}",
    can=Abilities(edit="yes", stream="in a loop of your own, with call.delta"),
    fails="closed",
    when_away=sentences.DENIED,
    notes=("The client needs nothing but Python 3.11. With Toolcards installed by pip nothing has to be copied.",),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: offline_probe.python(folder_of(wish)),
    by_project=True,
    place=60,
    road="socket",
    paste=(Snippet("python_gated", "agent.py", "A no raises Denied, whose text is fit for the model."),),
    guide=sentences.PYTHON,
    undoing=sentences.UNDOING,
    next_step=sentences.LOAD_ENV,
)
