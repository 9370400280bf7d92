"""One question to a reviewer: a command on this server, a signed webhook, or a model; the answer is read strictly.

Commands and keys are the operator's: a policy only names a command, and the host of an address selects its key. So who
edits the policy can run nothing else, and sends a key to no other host.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from toolcards.client.common.json_text import parse_strict_object
from toolcards.core.policy.reviewer import Reviewer
from toolcards.core.review.review_answer import (
    MAX_SIZE,
    InvalidReview,
    ReviewAnswer,
    build_message,
    dump_call,
    find_model_text,
    read_answer,
)
from toolcards.notifications import webhooks
from toolcards.notifications.webhooks import NotDelivered, UnsafeUrl

MAX_TOKENS = 500  # of a model's answer
MAX_OUTPUT = 100_000  # bytes that a command prints; an answer has fewer
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TZ")  # commands get no others, since the server's are secrets
_MODEL_PATHS = {"openai": "chat/completions", "anthropic": "messages"}


class ReviewFailed(Exception):
    """There is no answer; the message says why to people."""


@dataclass(frozen=True, slots=True)
class ReviewQuestion:
    """What is asked: the id of the review, the masked call, and the digest of its input."""

    id: str
    call: dict[str, Any]
    args_sha256: str


def ask(reviewer: Reviewer, question: ReviewQuestion) -> ReviewAnswer:
    """Return the reviewer's answer; raises ReviewFailed."""
    if len(dump_call(question.call)) > MAX_SIZE:
        raise ReviewFailed("The call is too large to be reviewed.")
    try:
        return _SENDERS[reviewer.kind](reviewer, question)
    except InvalidReview as error:
        raise ReviewFailed(str(error)) from error
    except (UnsafeUrl, NotDelivered) as error:
        raise ReviewFailed(str(error)) from error


def _build_payload(reviewer: Reviewer, question: ReviewQuestion) -> dict[str, Any]:
    return {
        "v": 1, "review": question.id, "reviewer": reviewer.name, "args_sha256": question.args_sha256,
        "call": question.call,
    }  # fmt: skip


# ---------------------------------------------------------------- commands


def _ask_command(reviewer: Reviewer, question: ReviewQuestion) -> ReviewAnswer:
    line = settings.TOOLCARDS.commands_of_reviewers.get(reviewer.command)
    if line is None:
        raise ReviewFailed(f"The command {reviewer.command} is not in TOOLCARDS_REVIEWER_COMMANDS.")
    text = json.dumps(_build_payload(reviewer, question))
    return read_answer(run_program(shlex.split(line), text, reviewer.seconds))


def run_program(words: list[str], text: str, seconds: float) -> str:
    """Return what the program prints; raises ReviewFailed.

    After its time, or if it prints more than an answer can be, it is killed with the processes that it started.
    """
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    try:
        process = subprocess.Popen(  # noqa: S603 - a command that the operator allows
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=environment,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise ReviewFailed(f"The command cannot be started: {error.strerror}.") from error
    output, is_late = _exchange(process, text.encode(), seconds)
    if len(output) > MAX_OUTPUT:
        raise InvalidReview("The reply is too long.")
    if is_late:
        raise ReviewFailed("No answer in time.")
    if process.returncode != 0:
        raise ReviewFailed(f"The command ended with the status {process.returncode}.")
    try:
        return output.decode()
    except UnicodeDecodeError as error:
        raise InvalidReview("The reply is not one JSON object.") from error


def _exchange(process: subprocess.Popen[bytes], text: bytes, seconds: float) -> tuple[bytes, bool]:
    """Return the first bytes that the program prints, and whether it is late."""
    outputs: list[bytes] = []

    def write() -> None:
        with suppress(OSError):  # a program need not read its input
            process.stdin.write(text)  # type: ignore[union-attr]
            process.stdin.close()  # type: ignore[union-attr]

    def read() -> None:
        outputs.append(process.stdout.read(MAX_OUTPUT + 1))  # type: ignore[union-attr]

    threads = [threading.Thread(target=each, daemon=True) for each in (read, write)]
    for thread in threads:
        thread.start()
    threads[0].join(seconds)
    is_late = threads[0].is_alive()
    try:
        process.wait(0 if is_late or len(outputs[0]) > MAX_OUTPUT else max(seconds, 1.0))
    except subprocess.TimeoutExpired:
        is_late = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for thread in threads:
        thread.join(1.0)
    return (outputs[0] if outputs else b""), is_late


# ---------------------------------------------------------------- addresses


def _ask_webhook(reviewer: Reviewer, question: ReviewQuestion) -> ReviewAnswer:
    key = find_key(reviewer.url)
    if not key:
        raise ReviewFailed("TOOLCARDS_REVIEWER_KEYS has no signing secret for this host.")
    body = json.dumps({"type": "call.review", "data": _build_payload(reviewer, question)}).encode()
    try:
        signature = webhooks.sign([key], question.id, body)
    except ValueError as error:
        raise ReviewFailed("The signing secret of this host is not base64.") from error
    return read_answer(_post(reviewer, reviewer.url, body, signature))


def _ask_model(reviewer: Reviewer, question: ReviewQuestion) -> ReviewAnswer:
    message = {"role": "user", "content": build_message(dump_call(question.call))}
    key, is_openai = find_key(reviewer.url), reviewer.api == "openai"
    if is_openai:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body: dict[str, Any] = {"messages": [{"role": "system", "content": reviewer.prompt}, message]}
    else:
        headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})
        body = {"system": reviewer.prompt, "messages": [message], "max_tokens": MAX_TOKENS}
    body = {"model": reviewer.model} | body
    response = _post(reviewer, build_model_url(reviewer.api, reviewer.url), json.dumps(body).encode(), headers)
    try:
        content = parse_strict_object(response.encode())
    except ValueError as error:
        raise InvalidReview("The response is not JSON.") from error
    return read_answer(find_model_text(reviewer.api, content))


def build_model_url(api: str, url: str) -> str:
    """Return the endpoint for an address of the API."""
    path, base = _MODEL_PATHS[api], url.rstrip("/")
    if base.endswith(f"/{path}"):
        return base
    return f"{base}/{path}" if urlsplit(base).path else f"{base}/v1/{path}"


def _post(reviewer: Reviewer, url: str, body: bytes, headers: dict[str, str]) -> str:
    """Return the text of the response."""
    all_headers = {"Content-Type": "application/json", **headers}
    _, content = webhooks.post_and_read(url, body, all_headers, reviewer.seconds)
    return content.decode("utf-8", "replace")


def find_key(url: str) -> str:
    """Return the key for the host of this address, "" without one."""
    parts = urlsplit(url)
    variables = settings.TOOLCARDS.keys_of_reviewers
    variable = variables.get(parts.netloc.lower()) or variables.get((parts.hostname or "").lower(), "")
    return os.environ.get(variable, "")


_SENDERS = {"command": _ask_command, "webhook": _ask_webhook, "model": _ask_model}
