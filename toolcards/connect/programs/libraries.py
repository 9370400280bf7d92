"""Recipes for agent libraries: the ones that write an environment file and copy the client next to your code.

Programs with settings of their own have a module each: `claude_code`, `codex`, `gemini_cli`, `copilot_cli`,
`cursor`, `cline`, `goose`, `opencode`, `acp`.
"""

from __future__ import annotations

from toolcards.connect import offline_probe
from toolcards.connect.base import JAVASCRIPT_GUIDE, PYTHON_GUIDE, Abilities, Recipe, Snippet
from toolcards.connect.project import ProjectFiles, copy_modules, copy_sdk, project_folder

CLOSED_AND_OPEN = "gated tools closed, watching open"
JAVASCRIPT_AWAY = (
    "Gated tools do not run and the model receives the reason. A watched stream passes unchanged, byte for byte."
)
PYTHON_AWAY = (
    "A gated call is denied after 15 seconds (offline=) and the model receives the reason. "
    "Code that only watches continues."
)
ANY_SSE_PIPE = "Any program that prints the SSE bytes of the response works. Nothing is held back."
SERVERS_ONLY = "For servers only: the key must never reach a browser."
WRITES_PYTHON = "In the project's folder: writes address and key into .env and copies the client to toolcards/client/."
WRITES_JAVASCRIPT = "In the app's folder: writes address and key into .env.local and copies {} to toolcards/."
# in static/clients/
GATE_MODULES = ("gate-client.mjs", "gate-answers.mjs", "gate-http.mjs", "call-ids.mjs", "payload-limits.mjs")
MODULES = ("ai-sdk.mjs", "app-approvals.mjs", "json-schema.mjs", "stream-mirror.mjs", "stream-copy.mjs", *GATE_MODULES)
FORMER_GATE_MODULES = ("asking.mjs", "answers.mjs")  # names until 0.1; each re-exports the module of today
FORMER_MODULES = ("mirroring.mjs", *FORMER_GATE_MODULES)
REMOVE_CODE_FIRST = "Take the lines out of your code, then this removes exactly what was written:"
LOAD_ENV = "Start your agent with .env in its environment: set -a; . ./.env; set +a"
LOAD_ENV_LOCAL = "Paste the lines above. Next.js reads .env.local by itself; otherwise: node --env-file=.env.local"

_ANYTHING = ProjectFiles("anything", ".env")
_AI_SDK = ProjectFiles("ai-sdk", ".env.local", copy_modules(*MODULES), copy_modules(*FORMER_MODULES))
_AI_SDK_AWAY = """
import { ask } from './toolcards/ai-sdk.mjs';
const answer = await ask({ tool: 'probe', callId: 'away', args: {} }, { run: 'away', seconds: 5 });
console.log(answer.allowed ? 'ran' : 'denied: ' + answer.reason);
process.exit();
"""
_TANSTACK = ProjectFiles(
    "tanstack-ai", ".env.local", copy_modules(*MODULES, "tanstack.mjs"), copy_modules(*FORMER_MODULES)
)
_TANSTACK_AWAY = """
import { gate } from './toolcards/tanstack.mjs';
const call = { toolName: 'probe', toolCallId: 'away', args: {} };
const answer = await gate({ run: 'away', seconds: 5 }).onBeforeToolCall({}, call);
console.log(answer?.type === 'skip' ? 'denied: ' + answer.result.error : 'ran');
process.exit();
"""
_AG_UI = ProjectFiles("ag-ui", ".env.local")


def _python_recipe(
    name: str, *, title: str, version: str, about: str, can: Abilities, notes: tuple[str, ...], paste: Snippet,
    aliases: tuple[str, ...] = (),
) -> Recipe:  # fmt: skip
    """Return the recipe of a Python library: `.env`, and the client as a copy."""
    files = ProjectFiles(name, ".env", copy_sdk)
    return Recipe(
        name=name,
        title=title,
        version=version,
        about=f"{about} {WRITES_PYTHON}",
        can=can,
        fails="closed",
        when_away=PYTHON_AWAY,
        notes=notes,
        plan=files.plan,
        undo=files.undo,
        read_key=files.read_key,
        probe_offline=lambda target: offline_probe.run_python(project_folder(target)),
        aliases=aliases,
        by_project=True,
        transport="socket",
        paste=(paste,),
        guide=PYTHON_GUIDE,
        undo_hint=REMOVE_CODE_FIRST,
        next_step=LOAD_ENV,
    )


ANYTHING = Recipe(
    name="anything",
    title="Anything (curl)",
    version="curl 7 and newer",
    about="Three requests, from any language: ask before the call, run it, report the result. In the project's "
    "folder: writes address and key into .env.",
    can=Abilities(edit="yes: run the arguments from the answer", stream="yes: as frames, see below"),
    fails="your program decides",
    when_away="Treat no answer as a denial: do not run the call.",
    notes=(),
    plan=_ANYTHING.plan,
    undo=_ANYTHING.undo,
    read_key=_ANYTHING.read_key,
    aliases=("curl",),
    by_project=True,
    paste=(
        Snippet("curl_decide", "1. Ask before the call", "Answers at once: allow, ask or deny."),
        Snippet(
            "curl_claim",
            "2. Use the permit, right before running",
            "Once. Run with the arguments from the answer: a person may have changed them.",
        ),
        Snippet("curl_result", "3. Report the result", "outcome is ok, error, aborted or unknown."),
    ),
    by_hand=(Snippet("curl_watch", "Only watching: send frames", "One JSON object per line; nothing is held back."),),
    guide="docs/api.md",
    undo_hint="Remove the requests from your code, then this removes exactly what was written:",
    next_step=LOAD_ENV,
)

AI_SDK = Recipe(
    name="ai-sdk",
    title="AI SDK",
    version="ai 7.0.173 and 6.0.326",
    about=f"Small modules without dependencies. {WRITES_JAVASCRIPT.format('ai-sdk.mjs and what it needs')}",
    can=Abilities(
        edit="with gated, the only way to gate in version 6; toolApproval denies the call and tells the model the edit",
        stream="yes",
    ),
    fails=CLOSED_AND_OPEN,
    when_away=JAVASCRIPT_AWAY,
    notes=(SERVERS_ONLY,),
    plan=_AI_SDK.plan,
    undo=_AI_SDK.undo,
    read_key=_AI_SDK.read_key,
    probe_offline=lambda target: offline_probe.run_node(project_folder(target), _AI_SDK_AWAY),
    by_project=True,
    paste=(
        Snippet("ai_sdk_7", "AI SDK 7, in the chat's route", "run is your id of the chat. mirror alone watches."),
        Snippet("ai_sdk_6", "AI SDK 6", "The same without toolApproval."),
    ),
    by_hand=(
        Snippet("ai_sdk_files", "Without the command", "The modules to copy, and the lines of .env.local."),
        Snippet("ai_sdk_curl", "Only watching: pipe the stream", ANY_SSE_PIPE),
    ),
    guide=JAVASCRIPT_GUIDE,
    undo_hint=REMOVE_CODE_FIRST,
    next_step=LOAD_ENV_LOCAL,
)

TANSTACK_AI = Recipe(
    name="tanstack-ai",
    title="TanStack AI",
    version="@tanstack/ai 0.58.0",
    about=f"A middleware for server tools. {WRITES_JAVASCRIPT.format('tanstack.mjs and what it needs')}",
    can=Abilities(edit="yes", stream="yes"),
    fails=CLOSED_AND_OPEN,
    when_away=JAVASCRIPT_AWAY,
    notes=(
        SERVERS_ONLY,
        "Put gate first in middleware: TanStack takes the answer of the first middleware.",
        "TanStack's own chat shows a denied call as complete, with the reason as its result.",
    ),
    plan=_TANSTACK.plan,
    undo=_TANSTACK.undo,
    read_key=_TANSTACK.read_key,
    probe_offline=lambda target: offline_probe.run_node(project_folder(target), _TANSTACK_AWAY),
    by_project=True,
    paste=(Snippet("tanstack", "In the chat's route"),),
    by_hand=(Snippet("tanstack_files", "Without the command", "The modules to copy, and the lines of .env.local."),),
    guide=JAVASCRIPT_GUIDE,
    undo_hint=REMOVE_CODE_FIRST,
    next_step=LOAD_ENV_LOCAL,
)

AG_UI = Recipe(
    name="ag-ui",
    title="AG-UI",
    version="@ag-ui/client 1.0.0",
    about="Any AG-UI agent, unchanged. In the client's folder: writes address and key into .env.local; an admin sets "
    "the agent's address when the server is started.",
    can=Abilities(
        gate="only what the agent itself asks; its other calls have run when they are seen",
        edit="of what the agent itself asks",
        stream="yes",
    ),
    fails="through Toolcards closed, a copy open",
    when_away="Clients reach the agent only through Toolcards, so they fail. A copy of the stream changes nothing.",
    notes=("The probe shows that the key can hold calls; it is not sent through your agent.",),
    plan=_AG_UI.plan,
    undo=_AG_UI.undo,
    read_key=_AG_UI.read_key,
    by_project=True,
    paste=(
        Snippet("ag_ui_serve", "Set the agent's address", "An admin does this where Toolcards is started."),
        Snippet("ag_ui_client", "Send clients there", "Only on the client's server: the request contains a key."),
    ),
    by_hand=(Snippet("ag_ui_curl", "Only watching: pipe the stream", ANY_SSE_PIPE),),
    guide=JAVASCRIPT_GUIDE,
    undo_hint="Give clients the agent's own address again, remove the name from TOOLCARDS_AGUI_UPSTREAMS, then:",
    next_step="Start the server with TOOLCARDS_AGUI_UPSTREAMS, and the client with .env.local in its environment.",
)

PYTHON = _python_recipe(
    "python",
    title="Python",
    version="3.11",
    about="Plain and async functions.",
    can=Abilities(edit="yes", stream="in a loop of your own, with call.delta"),
    notes=("The client needs only Python 3.11. With Toolcards installed by pip nothing has to be copied.",),
    paste=Snippet("python_gated", "agent.py", "A denial raises Denied, whose text is fit for the model."),
)
PYDANTIC_AI = _python_recipe(
    "pydantic-ai",
    title="Pydantic AI",
    version="pydantic-ai-slim 2.68.0",
    about="A capability of the agent; each agent run is a run of its own.",
    can=Abilities(edit="yes", stream="yes"),
    notes=(
        "Watch instead of Gate only shows.",
        "Tools with requires_approval=True are answered by the gate; approvals=False leaves them to the app.",
    ),
    paste=Snippet("pydantic_ai", "agent.py", "Every tool of the agent is gated."),
)
LANGCHAIN = _python_recipe(
    "langchain",
    title="LangChain",
    version="langchain 1.4.7, langgraph 1.2.22",
    about="A middleware, first in the list, and a config that watches.",
    can=Abilities(gate="yes: every tool behind Gate", edit="yes", stream="yes"),
    notes=("A plain exception in a tool ends LangChain's run: the card shows the error.",),
    paste=Snippet("langchain", "agent.py", "With HumanInTheLoopMiddleware, see resume in the guide."),
    aliases=("langgraph",),
)
OPENAI_AGENTS = _python_recipe(
    "openai-agents",
    title="OpenAI Agents",
    version="openai-agents 0.24.0",
    about="Tools are wrapped one by one; hooks watch the run.",
    can=Abilities(gate="every tool that is gated", edit="of gated tools", stream="yes: with streamed"),
    notes=("Hosted and MCP tools cannot be wrapped: let them ask, and answer with answered.",),
    paste=Snippet("openai_agents", "agent.py", "With needs_approval, see answered in the guide."),
)

LIBRARIES = (AI_SDK, TANSTACK_AI, AG_UI, PYTHON, PYDANTIC_AI, LANGCHAIN, OPENAI_AGENTS)
