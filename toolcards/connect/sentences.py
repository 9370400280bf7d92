"""Sentences that several recipes share."""

JAVASCRIPT, PYTHON, CODING = "docs/connect-javascript.md", "docs/connect-python.md", "docs/connect-coding-agents.md"
STARTS_HERE = "The gating hook starts Toolcards on this computer: connect again if you move or remove it."
OPEN_AND_CLOSED = "gated tools closed, watching open"
UNCHANGED = "Gated tools do not run and the model is told why; a stream that is only watched is the same, to the byte."
DENIED = (
    "A gated call is denied after 15 seconds (offline=) and the model is told why; where we only watch, all goes on."
)
PIPED = "Any program that prints the SSE bytes of the response will do. Nothing is held back."
SERVERS_ONLY = "For servers: the key must never reach a browser."
WRITES_PYTHON = "In the project's folder: writes address and key into .env and copies the client to toolcards/client/."
WRITES_JAVASCRIPT = "In the app's folder: writes address and key into .env.local and copies {} to toolcards/."
MODULES = ("ai-sdk.mjs", "mirroring.mjs", "asking.mjs", "answers.mjs")  # static/clients/, each needs those behind it
UNDOING = "Take the lines out of your code, then this removes exactly what was written:"
LOAD_ENV = "Start your agent with .env in its environment: set -a; . ./.env; set +a"
NEXT = "Paste the lines above; Next.js reads .env.local by itself, else: node --env-file=.env.local"
