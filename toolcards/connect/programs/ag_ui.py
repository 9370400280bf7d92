"""AG-UI: clients reach the agent through Toolcards, which answers its interrupts."""

from __future__ import annotations

from toolcards.connect import sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project

_FILES = Project("ag-ui", ".env.local")

RECIPE = Recipe(
    name="ag-ui",
    title="AG-UI",
    version="@ag-ui/client 1.0.0",
    about="Any AG-UI agent, without touching it. In the client's folder: writes address and key into .env.local; "
    "where the agent is, only an admin says, when the server is started.",
    can=Abilities(
        gate="only what the agent itself asks; its other calls run by the time they pass by",
        edit="of what the agent itself asks",
        stream="yes",
    ),
    fails="through Toolcards closed, a copy open",
    when_away="Clients do not reach the agent: Toolcards stands in the way. A copy of the stream changes nothing.",
    notes=("The probe shows that the key is good for holding calls; it is not sent through your agent.",),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    by_project=True,
    place=50,
    paste=(
        Snippet("ag_ui_serve", "Say where the agent is", "An admin does, where Toolcards is started."),
        Snippet("ag_ui_client", "Send clients there", "Needs the client's server: it holds a key."),
    ),
    by_hand=(Snippet("ag_ui_curl", "Only watching: pipe the stream", sentences.PIPED),),
    guide=sentences.JAVASCRIPT,
    undoing="Give clients the agent's own address again, leave the name out of TOOLCARDS_AGUI_UPSTREAMS, then:",
    next_step="Start the server with TOOLCARDS_AGUI_UPSTREAMS, and the client with .env.local in its environment.",
)
