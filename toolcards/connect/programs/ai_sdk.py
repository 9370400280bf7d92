"""The Vercel AI SDK: a module in the chat's route, and those that it needs."""

from __future__ import annotations

from toolcards.connect import offline_probe, sentences
from toolcards.connect.base import Abilities, Recipe, Snippet
from toolcards.connect.project import Project, folder_of, modules

_FILES = Project("ai-sdk", ".env.local", modules(*sentences.MODULES))
_AWAY = """
import { ask } from './toolcards/ai-sdk.mjs';
const said = await ask({ tool: 'probe', callId: 'away', args: {} }, { run: 'away', seconds: 5 });
console.log(said.allowed ? 'ran' : 'denied: ' + said.reason);
process.exit();
"""

RECIPE = Recipe(
    name="ai-sdk",
    title="AI SDK",
    version="ai 7.0.173 and 6.0.326",
    about=f"Small modules without dependencies. {sentences.WRITES_JAVASCRIPT.format('ai-sdk.mjs and what it needs')}",
    can=Abilities(
        edit="with gated, the only way to gate in version 6; toolApproval denies the call and tells the model the edit",
        stream="yes",
    ),
    fails=sentences.OPEN_AND_CLOSED,
    when_away=sentences.UNCHANGED,
    notes=(sentences.SERVERS_ONLY,),
    plan=_FILES.plan,
    undo=_FILES.undo,
    key_in=_FILES.key_in,
    away=lambda wish: offline_probe.node(folder_of(wish), _AWAY),
    by_project=True,
    place=30,
    paste=(
        Snippet("ai_sdk_7", "AI SDK 7, in the chat's route", "run is your id of the chat. mirror alone watches."),
        Snippet("ai_sdk_6", "AI SDK 6", "The same without toolApproval."),
    ),
    by_hand=(
        Snippet("ai_sdk_files", "Without the command", "The modules to copy, and what .env.local says."),
        Snippet("ai_sdk_curl", "Only watching: pipe the stream", sentences.PIPED),
    ),
    guide=sentences.JAVASCRIPT,
    undoing=sentences.UNDOING,
    next_step=sentences.NEXT,
)
