"""The command line of `toolcards approvals`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolcards.terminal.approvals_client import ApprovalsClient, RequestFailed
from toolcards.terminal.waiting_calls import WaitingCall, draw, draw_line
from toolcards.terminal.watch import InboxWatch, Keyboard, can_read_keys, stream_json

ABOUT = "List, watch and answer the calls that wait for a person, with a personal token."
NOTE = (
    "The address and token may also come from TOOLCARDS_URL and TOOLCARDS_TOKEN. Create the token under Your account."
)
DEFAULT_ADDRESS = "http://127.0.0.1:8000"


def main(argv: Sequence[str], program: str = "toolcards") -> int:
    """Run one action; return the exit code."""
    parser = _build_parser(program)
    options = parser.parse_args(argv)
    try:
        token = options.token_file.read_text("utf-8").strip() if options.token_file else options.token
        if not token:
            parser.error("set TOOLCARDS_TOKEN or name a --token-file")
        client = ApprovalsClient(options.url, token)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    try:
        result: int = _ACTIONS[options.action](client, options)
        return result
    except RequestFailed as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130


def _build_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} approvals", description=ABOUT, epilog=NOTE)
    parser.add_argument("--url", default=os.environ.get("TOOLCARDS_URL") or DEFAULT_ADDRESS)
    parser.add_argument("--token-file", type=Path, help="a file with the token")
    parser.set_defaults(token=os.environ.get("TOOLCARDS_TOKEN", "").strip())
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="list what waits")
    watching = actions.add_parser("watch", help="show questions as they come; a approves, d denies")
    watching.add_argument("--bell", action="store_true", help="ring the terminal's bell for each new question")
    watching.add_argument("--notify", action="store_true", help="show a desktop notification for each new question")
    approve = actions.add_parser("approve", help="approve one call, after showing it")
    deny = actions.add_parser("deny", help="deny one call")
    answer = actions.add_parser("answer", help="answer the questions that an agent asks")
    undo = actions.add_parser("undo", help="take an approval back that the agent has not received")
    for action in (approve, deny, answer, undo):
        action.add_argument("id", help="the approval's id, or its beginning")
    for action in (approve, deny, answer):
        action.add_argument("--reason", default="")
    approve.add_argument(
        "--args-sha256", default="", metavar="DIGEST",
        help="approve without a question, if this is still the digest of the arguments (at least 8 digits)",
    )  # fmt: skip
    answer.add_argument(
        "answers", nargs="+", metavar="ANSWER",
        help="one for each question, in their order: the number of an option, several as 1,3, or a text",
    )  # fmt: skip
    for action in (listing, watching, approve, deny, answer, undo):
        action.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _list(client: ApprovalsClient, options: argparse.Namespace) -> int:
    waiting = client.list_waiting()
    if options.json:
        print(json.dumps([question.entry for question in waiting], indent=2))  # noqa: T201
        return 0
    for question in waiting:
        print(draw_line(question, color=_has_color()))  # noqa: T201
    if not waiting:
        print("Nothing waits.", file=sys.stderr)  # noqa: T201
    return 0


def _watch(client: ApprovalsClient, options: argparse.Namespace) -> int:
    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    if options.json:
        stream_json(client, write)
    if not sys.stdin.isatty() or not can_read_keys():
        raise RequestFailed("`watch` needs a terminal, or --json.")
    InboxWatch(client, Keyboard(sys.stdin), write, _has_color(), options.bell, options.notify).run()
    return 0


def _approve(client: ApprovalsClient, options: argparse.Namespace) -> int:
    question = _find(client, options.id)
    if question.asks:
        raise RequestFailed(f"The agent asks a question: use `approvals answer {question.id}`.")
    if options.args_sha256:
        digest = str(question.ballot["args_sha256"])
        if len(options.args_sha256) < 8 or not digest.startswith(options.args_sha256.lower()):
            raise RequestFailed("The arguments are others now, or the digest is too short. Look at the call again.")
    elif not _confirm(question):
        raise RequestFailed("Not approved.")
    return _report(client.vote(question, "approve", reason=options.reason), options)


def _confirm(question: WaitingCall) -> bool:
    """Show the call and ask on the terminal."""
    if not sys.stdin.isatty():
        raise RequestFailed("Without a terminal, name what you approve with --args-sha256 (see `list --json`).")
    for line in draw(question, color=_has_color()):
        print(line)  # noqa: T201
    word = "yes" if question.risk == "high" else "y"
    return input(f"Approve? Type {word}: ").strip().lower() in {word, "yes"}


def _deny(client: ApprovalsClient, options: argparse.Namespace) -> int:
    return _report(client.vote(_find(client, options.id), "deny", reason=options.reason), options)


def _answer(client: ApprovalsClient, options: argparse.Namespace) -> int:
    question = _find(client, options.id)
    if len(options.answers) != len(question.asks):
        raise RequestFailed(f"This call asks {len(question.asks)} questions, not {len(options.answers)}.")
    fields: dict[str, Any] = {"reason": options.reason}
    for number, (query, text) in enumerate(zip(question.asks, options.answers, strict=True)):
        places = [part.strip() for part in text.split(",")]
        if query["options"] and all(part.isdigit() and 0 < int(part) <= len(query["options"]) for part in places):
            fields[f"answer-{number}"] = [str(int(part) - 1) for part in places]
        else:
            fields[f"answer-{number}-text"] = text
    return _report(client.vote(question, "answer", **fields), options)


def _undo(client: ApprovalsClient, options: argparse.Namespace) -> int:
    return _report(client.undo(options.id), options)


def _find(client: ApprovalsClient, name: str) -> WaitingCall:
    """Return the waiting call of this id, or of the only id that begins so."""
    matching = [question for question in client.list_waiting() if question.id.startswith(name)]
    exact = [question for question in matching if question.id == name]
    if len(exact or matching) != 1:
        start = "Several waiting calls have ids that begin" if matching else "No waiting call has an id that begins"
        raise RequestFailed(f"{start} with {name}.")
    return (exact or matching)[0]


def _report(answer: dict[str, Any], options: argparse.Namespace) -> int:
    print(json.dumps(answer, indent=2) if options.json else f"{answer['id']} {answer['state']}")  # noqa: T201
    return 0


def _has_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_ACTIONS = {
    "list": _list, "watch": _watch, "approve": _approve, "deny": _deny, "answer": _answer, "undo": _undo,
}  # fmt: skip
