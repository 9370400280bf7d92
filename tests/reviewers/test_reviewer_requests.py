"""Each kind of reviewer is asked as documented; all that is late, broken or elsewhere is a failure, never an answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from tests.support.reviewers import FakeModel, reply, run_model
from tests.support.tables import loop_over
from toolcards.core.policy.reviewer import DEFAULT_PROMPT, Reviewer
from toolcards.core.review.review_answer import ReviewAnswer
from toolcards.models.notifications import new_secret
from toolcards.reviewers import reviewer_requests
from toolcards.reviewers.reviewer_requests import ReviewFailed, ReviewQuestion, ask, build_model_url

CALL = {"tool": {"name": "bash"}, "input": {"command": "make report"}}
QUESTION = ReviewQuestion("rev_1", CALL, "0" * 64)
ALLOWED = ReviewAnswer("allow", "It is small.")
ANSWER = json.dumps({"answer": "allow", "reason": "It is small."})


@pytest.fixture
def model(limits: Any) -> Iterator[FakeModel]:
    """A fake model that allows, whose address is allowed, with a key."""
    with run_model(lambda body: reply("allow")) as server:
        limits(webhook_private=(server.host,), reviewer_keys=(f"{server.host}=KEY_OF_THE_MODEL",))
        yield server


def build_model(server: FakeModel, api: str = "openai") -> Reviewer:
    """Return the reviewer of this server."""
    return Reviewer("guard", "model", True, 5.0, url=server.url, api=api, model="m", prompt=DEFAULT_PROMPT)


# ---------------------------------------------------------------- models


def test_a_model_of_the_openai_api_gets_the_prompt_and_the_call_as_data(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THE_MODEL", "sk-1")
    assert ask(build_model(model), QUESTION) == ALLOWED
    headers, body = model.requests[0]
    assert headers["Authorization"] == "Bearer sk-1" and body["model"] == "m"
    system, user = body["messages"]
    assert system == {"role": "system", "content": DEFAULT_PROMPT}
    assert json.loads(user["content"].split("\n")[1]) == CALL


def test_a_model_of_the_anthropic_api_is_asked_in_its_form(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_THE_MODEL", "sk-2")
    model.respond = lambda body: json.dumps({"content": [{"type": "text", "text": ANSWER}]}).encode()
    assert ask(build_model(model, "anthropic"), QUESTION) == ALLOWED
    headers, body = model.requests[0]
    assert headers["x-api-key"] == "sk-2" and headers["anthropic-version"] and body["system"] == DEFAULT_PROMPT
    assert [message["role"] for message in body["messages"]] == ["user"] and body["max_tokens"] > 0


BROKEN: list[bytes] = [
    b"", b"no", b"{}", b"[]", b'{"choices": []}', b"\xff\xfe", reply("maybe"), reply("allow", ""), reply("allow")[:-1],
    json.dumps({"choices": [{"message": {"content": f"Sure! {ANSWER}"}}]}).encode(),
    json.dumps({"choices": [{"message": {"content": {"answer": "allow", "reason": "x"}}}]}).encode(),
    json.dumps({"answer": "allow", "reason": "x"}).encode(), b"[" * 60_000, b" " * (65 << 10) + reply("allow"),
]  # fmt: skip


def test_a_broken_reply_is_a_failure(model: FakeModel) -> None:
    for content in BROKEN:
        model.respond = lambda body, content=content: content
        with pytest.raises(ReviewFailed):
            ask(build_model(model), QUESTION)


def test_a_call_that_is_too_large_is_not_sent(model: FakeModel) -> None:
    with pytest.raises(ReviewFailed, match="too large"):
        ask(build_model(model), ReviewQuestion("rev_1", {"input": "a" * 70_000}, "0" * 64))
    assert model.requests == []


def test_a_private_address_is_refused_unless_the_operator_allows_it(model: FakeModel, limits: Any) -> None:
    limits(webhook_private=())
    with pytest.raises(ReviewFailed):
        ask(build_model(model), QUESTION)
    assert model.requests == []


def test_a_key_goes_to_its_host_only(model: FakeModel, monkeypatch: pytest.MonkeyPatch, limits: Any) -> None:
    monkeypatch.setenv("KEY_OF_THE_MODEL", "sk-1")
    limits(webhook_private=(model.host,), reviewer_keys=("api.example.com=KEY_OF_THE_MODEL",))
    assert ask(build_model(model), QUESTION) == ALLOWED
    assert "Authorization" not in model.requests[0][0]


@loop_over(
    ("api", "url", "endpoint"),
    [
        ("openai", "https://a.example/v1", "https://a.example/v1/chat/completions"),
        ("openai", "https://a.example", "https://a.example/v1/chat/completions"),
        ("openai", "https://a.example/v1/chat/completions", "https://a.example/v1/chat/completions"),
        ("anthropic", "https://a.example/", "https://a.example/v1/messages"),
        ("anthropic", "https://a.example/v1/messages", "https://a.example/v1/messages"),
    ],
)
def test_the_address_may_be_that_of_the_api(api: str, url: str, endpoint: str) -> None:
    assert build_model_url(api, url) == endpoint


# ---------------------------------------------------------------- webhooks


def test_a_webhook_is_signed_and_answers(model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    monkeypatch.setenv("KEY_OF_THE_MODEL", secret)
    model.respond = lambda body: ANSWER.encode()
    assert ask(Reviewer("hook", "webhook", True, 5.0, url=model.url), QUESTION) == ALLOWED
    headers, body = model.requests[0]
    content = json.dumps(body).encode()
    Verifier(secret).verify(content, {name.lower(): value for name, value in headers.items()})
    assert body["data"]["call"] == CALL and body["data"]["args_sha256"] == "0" * 64


@pytest.mark.parametrize("secret", ["", "not base64!"])
def test_a_webhook_without_a_secret_is_not_asked(
    model: FakeModel, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("KEY_OF_THE_MODEL", secret)
    with pytest.raises(ReviewFailed, match="secret"):
        ask(Reviewer("hook", "webhook", True, 5.0, url=model.url), QUESTION)
    assert model.requests == []


# ---------------------------------------------------------------- commands


def run_script(limits: Any, folder: Path, script: str, seconds: float = 30.0) -> ReviewAnswer:
    """Ask a command that runs this Python script."""
    file = folder / "guard.py"
    file.write_text(script)
    limits(reviewer_commands=(f"guard={sys.executable} {file}",))
    return ask(Reviewer("guard", "command", True, seconds, command="guard"), QUESTION)


def test_a_command_reads_the_call_and_prints_its_answer(
    limits: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCARDS_SECRET_KEY", "s")
    script = (
        "import json, os, sys\nasked = json.load(sys.stdin)\n"
        "reason = asked['call']['input']['command'] + str('TOOLCARDS_SECRET_KEY' in os.environ)\n"
        "print(json.dumps({'answer': 'deny', 'reason': reason}))\n"
    )
    assert run_script(limits, tmp_path, script) == ReviewAnswer("deny", "make reportFalse")


@loop_over(
    "script",
    [
        "", "print('allow')", "raise SystemExit(3)", f"print('{ANSWER}')\nraise SystemExit(1)",
        "import sys; sys.stdout.buffer.write(b'\\xff')", f"print('{ANSWER}')\nprint('{ANSWER}')",
    ],
)  # fmt: skip
def test_a_command_that_prints_anything_else_failed(script: str) -> None:
    with pytest.raises((ReviewFailed, reviewer_requests.InvalidReview)):
        reviewer_requests.read_answer(reviewer_requests.run_program([sys.executable, "-c", script], "{}", 30.0))


@loop_over("script", ["while True: print('x' * 9_000)", "print('x' * 200_000)\nimport time\ntime.sleep(600)"])
def test_of_a_command_that_prints_without_an_end_only_the_beginning_is_read(script: str) -> None:
    with pytest.raises(reviewer_requests.InvalidReview, match="too long"):
        reviewer_requests.run_program([sys.executable, "-c", script], "{}", 30.0)


def test_a_command_need_not_read_its_input() -> None:
    script = f"print('{ANSWER}')"
    assert reviewer_requests.run_program([sys.executable, "-c", script], "x" * 500_000, 30.0).strip() == ANSWER


def test_a_command_that_takes_too_long_is_killed(limits: Any, tmp_path: Path) -> None:
    with pytest.raises(ReviewFailed, match="No answer in time"):
        run_script(limits, tmp_path, "import time\ntime.sleep(600)", seconds=0.5)


def test_only_commands_that_the_operator_lists_are_run(limits: Any) -> None:
    limits(reviewer_commands=("guard=/bin/false",))
    for name in ("/bin/true", "other", ""):
        with pytest.raises(ReviewFailed, match="TOOLCARDS_REVIEWER_COMMANDS"):
            ask(Reviewer("guard", "command", True, 5.0, command=name), QUESTION)
    limits(reviewer_commands=("guard=/no/such/program",))
    with pytest.raises(ReviewFailed, match="cannot be started"):
        ask(Reviewer("guard", "command", True, 5.0, command="guard"), QUESTION)
