"""Every way to connect an agent, with what Toolcards can do over it: the connect page's table.

What stands here is tested against the real programs and libraries (`tests/clients/`) and told at length in `docs/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolcards import connect
from toolcards.connect import Abilities


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to copy: its template, its title, and what to know about it."""

    name: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way to connect. `without_us` is what happens while Toolcards is away, `undo` how to take it back."""

    slug: str
    title: str
    about: str
    can: Abilities
    fails: str  # closed, open, or in words what is between
    without_us: str
    snippets: tuple[Snippet, ...]
    undo: str
    undo_command: str = ""
    tested: str = ""
    notes: tuple[str, ...] = ()
    guide: str = ""  # the file that tells the rest

    @property
    def abilities(self) -> tuple[tuple[str, str, str], ...]:
        """What it can do, in the page's order: word, `yes`, `no` or `partly`, and the part in words."""
        words = (
            ("observe", self.can.observe),
            ("gate", self.can.gate),
            ("edit arguments", self.can.edit),
            ("stream", self.can.stream),
        )
        return tuple((word, *_graded(said)) for word, said in words)


def _graded(said: str) -> tuple[str, str]:
    """`yes`, `no: why` or something between, as a grade and the rest in words."""
    head, _, rest = said.partition(": ")
    return (head, rest) if head in {"yes", "no"} else ("partly", said)


JAVASCRIPT, PYTHON = "docs/connect-javascript.md", "docs/connect-python.md"
PIPED = "Any program that prints the SSE bytes of the response will do. Nothing is held back."
OPEN_AND_CLOSED = "gated tools closed, watching open"
UNCHANGED = "Gated tools do not run and the model is told why; a stream that is only watched is the same, to the byte."
DENIED = (
    "A gated call is denied after 15 seconds (offline=) and the model is told why; where we only watch, all goes on."
)
TAKE_OUT = "Take these lines out again, and revoke the key under Sources."


def _of(recipe: connect.Recipe) -> Way:
    """The way of an agent program that `toolcards connect` wires."""
    name = recipe.name.replace("-", "_")
    about = "On the computer where it runs. Without pip install, in the checkout: python manage.py connect …"
    return Way(
        slug=recipe.name,
        title=recipe.title,
        about="One command: shows what it would write, writes it, and sends a call to try whether it is held.",
        can=recipe.can,
        fails=recipe.fails,
        without_us=recipe.when_away,
        snippets=(Snippet(name, f"Connect {recipe.title}", about),),
        undo="Removes exactly what was written:",
        undo_command=recipe.undo_command,
        tested=f"{recipe.title} {recipe.version}",
        notes=recipe.notes,
    )


ANYTHING = Way(
    slug="anything",
    title="Anything (curl)",
    about="Three requests: ask before the call, run it, say what came of it. Works from any language.",
    can=Abilities(edit="yes: run the arguments that the answer has", stream="yes: as frames, see below"),
    fails="your program decides",
    without_us="Your program decides. Treat no answer as no: do not run the call.",
    snippets=(
        Snippet("curl_decide", "1. Ask before the call", "Answers at once: allow, ask or deny."),
        Snippet(
            "curl_claim",
            "2. Use the permit, right before running",
            "Once. The answer has the arguments to run with: a person may have changed them.",
        ),
        Snippet("curl_result", "3. Say what came of it", "outcome is ok, error, aborted or unknown."),
        Snippet("curl_watch", "Only watching: send frames", "One JSON object per line; nothing is held back."),
    ),
    undo="Leave the requests out again, and revoke the key under Sources.",
)
AI_SDK = Way(
    slug="ai-sdk",
    title="AI SDK",
    about="One module without dependencies, for servers: it holds a key, which must never reach a browser.",
    can=Abilities(
        edit="with gated, the only way to gate in version 6; toolApproval denies the call and tells the model the edit",
        stream="yes",
    ),
    fails=OPEN_AND_CLOSED,
    without_us=UNCHANGED,
    snippets=(
        Snippet("ai_sdk_7", "AI SDK 7, in the chat's route", "run is your id of the chat. mirror alone watches."),
        Snippet("ai_sdk_6", "AI SDK 6", "The same without toolApproval."),
        Snippet("ai_sdk_curl", "Only watching: pipe the stream", PIPED),
    ),
    undo=TAKE_OUT,
    tested="ai 7.0.173 and 6.0.326",
    guide=JAVASCRIPT,
)
TANSTACK = Way(
    slug="tanstack-ai",
    title="TanStack AI",
    about="A middleware for server tools, and a copy of the stream.",
    can=Abilities(edit="yes", stream="yes"),
    fails=OPEN_AND_CLOSED,
    without_us=UNCHANGED,
    snippets=(Snippet("tanstack", "In the chat's route", "For servers: the key must never reach a browser."),),
    undo=TAKE_OUT,
    tested="@tanstack/ai 0.58.0",
    notes=("TanStack's own chat shows a denied call as complete, with the reason as its result.",),
    guide=JAVASCRIPT,
)
AG_UI = Way(
    slug="ag-ui",
    title="AG-UI",
    about="Any AG-UI agent, without touching it: its clients reach it through Toolcards.",
    can=Abilities(
        gate="only what the agent itself asks; its other calls run by the time they pass by",
        edit="of what the agent itself asks",
        stream="yes",
    ),
    fails="through Toolcards closed, a copy open",
    without_us="Clients do not reach the agent: Toolcards stands in the way. A copy of the stream changes nothing.",
    snippets=(
        Snippet("ag_ui_serve", "1. Say where the agent is", "An admin does, where Toolcards is started."),
        Snippet("ag_ui_client", "2. Send clients there", "Needs the client's server: it holds a key."),
        Snippet("ag_ui_curl", "Only watching: pipe the stream", PIPED),
    ),
    undo="Give clients the agent's own address again, and leave the name out of TOOLCARDS_AGUI_UPSTREAMS.",
    tested="@ag-ui/client 1.0.0",
    guide=JAVASCRIPT,
)
FUNCTIONS = Way(
    slug="python",
    title="Python",
    about="Plain and async functions. toolcards.client needs nothing but Python 3.11; its folder may be copied.",
    can=Abilities(edit="yes", stream="in a loop of your own, with call.delta"),
    fails="closed",
    without_us=DENIED,
    snippets=(Snippet("python_gated", "agent.py", "A no raises Denied, whose text is fit for the model."),),
    undo="Take @gated off again, and revoke the key under Sources.",
    guide=PYTHON,
)
PYDANTIC_AI = Way(
    slug="pydantic-ai",
    title="Pydantic AI",
    about="A capability of the agent. Each agent run is a run of its own; Watch instead of Gate only shows.",
    can=Abilities(edit="yes", stream="yes"),
    fails="closed",
    without_us=DENIED,
    snippets=(Snippet("pydantic_ai", "agent.py", "Every tool of the agent is gated."),),
    undo=TAKE_OUT,
    tested="pydantic-ai-slim 2.68.0",
    notes=("Tools with requires_approval=True are answered by the gate; approvals=False leaves them to the app.",),
    guide=PYTHON,
)
LANGCHAIN = Way(
    slug="langchain",
    title="LangChain",
    about="A middleware, first in the list, and a config that watches. For LangChain's and LangGraph's agents.",
    can=Abilities(gate="yes: every tool behind Gate", edit="yes", stream="yes"),
    fails="closed",
    without_us=DENIED,
    snippets=(Snippet("langchain", "agent.py", "With HumanInTheLoopMiddleware, see resume in the guide."),),
    undo=TAKE_OUT,
    tested="langchain 1.4.7, langgraph 1.2.22",
    notes=("A plain exception in a tool ends LangChain's run: the card says what it was.",),
    guide=PYTHON,
)
OPENAI_AGENTS = Way(
    slug="openai-agents",
    title="OpenAI Agents",
    about="Tools are wrapped one by one; hooks watch the run.",
    can=Abilities(gate="every tool that is gated", edit="of gated tools", stream="yes: with streamed"),
    fails="closed",
    without_us=DENIED,
    snippets=(Snippet("openai_agents", "agent.py", "With needs_approval, see answered in the guide."),),
    undo=TAKE_OUT,
    tested="openai-agents 0.24.0",
    notes=("Hosted and MCP tools cannot be wrapped: let them ask, and answer with answered.",),
    guide=PYTHON,
)
ACP = Way(
    slug="acp",
    title="ACP editors",
    about="Stands between an editor and its agent (Agent Client Protocol); both directions pass byte for byte.",
    can=Abilities(
        gate="what the agent asks permission for: set its own permissions to ask",
        edit="no: an edit is a no with a reason",
        stream="no: the protocol tells arguments whole",
    ),
    fails="closed; with --mirror the editor decides",
    without_us="With --gate (the default) every question is answered no. With --mirror the editor decides as ever.",
    snippets=(Snippet("acp", "In the editor's settings of the agent", "Put toolcards acp -- before its command."),),
    undo="Take toolcards acp -- out of the command again, and revoke the key under Sources.",
    tested="opencode 1.18.33",
    guide=PYTHON,
)
WEBSOCKET = Way(
    slug="websocket",
    title="WebSocket",
    about="One socket per run: calls go in as they happen, decisions come back on the same socket.",
    can=Abilities(edit="yes: run the arguments that the decision has", stream="yes"),
    fails="closed",
    without_us="The socket closes; a call without a decision must not run.",
    snippets=(
        Snippet(
            "websocket_py",
            "gate.py",
            "Needs: pip install websockets. Where the decision has args, a person changed them: run those.",
        ),
    ),
    undo="Leave the program out again, and revoke the key under Sources.",
)

WAYS = (
    ANYTHING, *map(_of, connect.recipes()), AI_SDK, TANSTACK, AG_UI,
    FUNCTIONS, PYDANTIC_AI, LANGCHAIN, OPENAI_AGENTS, ACP, WEBSOCKET,
)  # fmt: skip
