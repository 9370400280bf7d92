"""`toolcards hook <program>`: a command hook that asks the gate, for programs that trust any HTTP answer.

Claude Code's HTTP hooks accept every 2xx and every content type, and their answers name no call; the other programs
have only command hooks. So the program starts this command: it sends the hook input from standard input and prints the
answer only if it answers exactly these bytes (see `HttpClient`, and `bound` in docs/api.md). Everything else is a deny.

The gate reads hook inputs as Claude Code writes them; `programs` translates those of the others, and its answers back.
Only the standard library and our client: no database.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from toolcards.client.common.json_text import parse_strict_object
from toolcards.client.transport.http_client import HttpClient, Unreachable
from toolcards.hook_relay.answers import CHECKS, DENIALS, NOTE_EVENTS, JsonObject, UnusableAnswer, is_waiting, read_note
from toolcards.hook_relay.programs import PROGRAMS
from toolcards.hook_relay.translation import keep_question

PATH = "/api/v1/hooks/claude-code"
HOLD = 930.0  # seconds that a call is held by default
MARGIN = 15.0  # seconds on top for the answer to arrive
GIVE_UP = 1.0  # seconds for a hook that only reports
LONGEST = 8 << 20  # bytes of one hook input
BLOCK = 2  # the exit code that blocks in every program, with the reason on standard error
NO_ANSWER = "Toolcards gave no valid answer ({}), so nothing was run."
NOT_STORED = "Toolcards could not store that this call may run ({}), so nothing was run."


def main(argv: Sequence[str], program: str = "toolcards") -> int:
    """Relay one hook input; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"{program} hook", description="Pass one hook input to the gate.")
    parser.add_argument("program", choices=sorted(PROGRAMS))
    parser.add_argument("event", nargs="?", default="", help="the event, for programs whose inputs do not name it")
    parser.add_argument("--url", default=os.environ.get("TOOLCARDS_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--key-env", default="TOOLCARDS_AGENT_KEY", help="the environment variable with the agent key")
    parser.add_argument("--key-file", type=Path, help="a file with the agent key")
    parser.add_argument("--limit", type=float, default=HOLD, help="seconds that a call is held")
    parser.add_argument("--by", default="", help=argparse.SUPPRESS)  # marks the hooks that `connect` wrote
    options = parser.parse_args(argv)
    data = sys.stdin.buffer.read(LONGEST + 1)
    try:
        if len(data) > LONGEST:
            raise ValueError("it is too long")
        hook = parse_strict_object(data)
        output = relay(options, data, hook)
    except Exception as error:
        print(f"Toolcards could not read this hook input ({error}), so nothing was run.", file=sys.stderr)  # noqa: T201
        return BLOCK
    print(json.dumps(output))  # noqa: T201
    return 0


def relay(options: argparse.Namespace, data: bytes, hook: JsonObject) -> JsonObject:
    """Send the hook input; return the output for the program.

    Raises ValueError if the program's input cannot be translated.
    """
    program = PROGRAMS[options.program]
    translated_hook = program.translate(hook, getattr(options, "event", ""))
    if translated_hook is None:
        return {}
    if translated_hook is not hook:
        data, hook = json.dumps(translated_hook).encode(), translated_hook
    event = str(hook.get("hook_event_name", ""))
    check = CHECKS.get(event) or (read_note if program.takes_notes and event in NOTE_EVENTS else None)
    try:
        answer = _send(options, data, options.limit + MARGIN if event in CHECKS else GIVE_UP)
        output = check(answer, hook, data) if check else {}
        if program.asks_again and event == "PreToolUse" and is_waiting(answer, data):
            keep_question(hook)
    except (Unreachable, UnusableAnswer, OSError, ValueError) as error:
        if program.asks_again and event == "PreToolUse" and not getattr(error, "may_have_arrived", True):
            keep_question(hook)  # the gate has not seen that the call came again
        deny = DENIALS.get(event)
        if deny is None:
            return program.warn(f"Toolcards did not receive {event} ({error}), so it may be missing there.")
        output = deny(NO_ANSWER.format(error))
    try:
        return program.format(output, hook)
    except OSError as error:  # a full disk
        return program.format(DENIALS[event](NOT_STORED.format(error.strerror or error)), hook)


def _send(options: argparse.Namespace, data: bytes, seconds: float) -> JsonObject:
    key = options.key_file.read_text("utf-8") if options.key_file else os.environ.get(options.key_env, "")
    program = PROGRAMS[options.program]
    query = urlencode({"limit": f"{options.limit:g}", "agent": program.title, "program": program.catalog, "bound": 1})
    query += "&ask_again=1" if program.asks_again else ""
    client = HttpClient(options.url.rstrip("/"), {"Authorization": f"Bearer {key.strip()}"}, keep_alive=False)
    return client.request("POST", f"{PATH}?{query}", data, seconds)
