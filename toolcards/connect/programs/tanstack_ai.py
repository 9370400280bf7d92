"""TanStack AI: a middleware for server tools, and a copy of the stream."""

from __future__ import annotations

from toolcards.connect import offline_probe, sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, modules

_FILES = Project("tanstack-ai", ".env.local", modules(*sentences.MODULES, "tanstack.mjs"))
_AWAY = """
import { gate } from './toolcards/tanstack.mjs';
const call = { toolName: 'probe', toolCallId: 'away', args: {} };
const said = await gate({ run: 'away', seconds: 5 }).onBeforeToolCall({}, call);
console.log(said?.type === 'skip' ? 'denied: ' + said.result.error : 'ran');
process.exit();
"""

RECIPE = Recipe(
    name="tanstack-ai",
    title="TanStack AI",
    version="@tanstack/ai 0.58.0",
    about=f"A middleware for server tools. {sentences.WRITES_JAVASCRIPT.format('tanstack.mjs and what it needs')}",
    can=Abilities(edit="yes", stream="yes"),
    fails=sentences.OPEN_AND_CLOSED,
    when_away=sentences.UNCHANGED,
    notes=(
        sentences.SERVERS_ONLY,
        "gate comes first in middleware: TanStack takes the first middleware's word on a call.",
        "TanStack's own chat shows a denied call as complete, with the reason as its result.",
    ),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: offline_probe.node(folder_of(wish), _AWAY),
    by_project=True,
    place=40,
    paste=(Snippet("tanstack", "In the chat's route"),),
    by_hand=(Snippet("tanstack_files", "Without the command", "The modules to copy, and what .env.local says."),),
    guide=sentences.JAVASCRIPT,
    undoing=sentences.UNDOING,
    next_step=sentences.NEXT,
)
