"""`toolcards approvals` against a real server: what it shows, what it answers, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from tests.support.server import Server
from tests.support.terminals import get_state
from toolcards.terminal import main


class TypedText(io.StringIO):
    """A terminal on which a person has typed this."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(own_server: Server, token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Give `run(*words, keys=…)`: exit code, output, errors."""
    monkeypatch.setenv("TOOLCARDS_URL", own_server.base)
    monkeypatch.setenv("TOOLCARDS_TOKEN", token)

    def call(*words: str, keys: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO() if keys is None else TypedText(keys))
        code = main(words)
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


def test_what_waits_is_listed(run: Any, question: Any) -> None:
    approval = question("Bash", {"command": "git push origin main"})
    code, out, _ = run("list")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == [approval]
    assert "Push main to origin  Bash" in out
    (entry,) = json.loads(run("list", "--json")[1])
    assert (entry["id"], entry["call"]["input"]) == (approval, {"command": "git push origin main"})


def test_nothing_waiting_is_said(run: Any) -> None:
    assert run("list") == (0, "", "Nothing waits.\n")


@pytest.mark.parametrize(("keys", "state"), [("y\n", "approved"), ("n\n", "pending"), ("\n", "pending")])
def test_a_call_is_approved_after_it_was_shown(
    run: Any, question: Any, own_server: Server, keys: str, state: str
) -> None:
    approval = question()
    code, out, err = run("approve", approval[:10], keys=keys)
    assert get_state(own_server, approval)["approval"]["state"] == state
    assert "file_path: /srv/app/a.txt" in out
    assert (code, err) == ((0, "") if state == "approved" else (1, "Not approved.\n"))


def test_a_high_risk_needs_the_whole_word(run: Any, question: Any, own_server: Server) -> None:
    approval = question("Bash", {"command": "rm -r /srv/app"})
    assert run("approve", approval, keys="y\n")[0] == 1
    assert get_state(own_server, approval)["approval"]["state"] == "pending"
    assert run("approve", approval, keys="yes\n")[0] == 0
    assert get_state(own_server, approval)["by"]["name"] == "bea"


def test_a_script_names_what_it_approves(run: Any, question: Any, own_server: Server) -> None:
    approval = question()
    digest = json.loads(run("list", "--json")[1])[0]["args_sha256"]
    assert "--args-sha256" in run("approve", approval)[2]  # without a terminal no one is asked
    for wrong in (digest[:7], "0" * 64, digest[1:]):
        assert run("approve", approval, "--args-sha256", wrong)[0] == 1
    assert get_state(own_server, approval)["approval"]["state"] == "pending"
    code, out, _ = run("approve", approval, "--args-sha256", digest[:12], "--json")
    assert code == 0 and json.loads(out)["state"] == "approved"


@pytest.mark.slow
def test_a_denial_has_its_reason(run: Any, question: Any, own_server: Server) -> None:
    approval = question()
    assert run("deny", approval, "--reason", "use staging") == (0, f"{approval} denied\n", "")
    assert get_state(own_server, approval)["reason"]["text"] == "A person declined: use staging"
    code, _, err = run("deny", approval)
    assert code == 1 and "No waiting call has an id that begins" in err


def test_an_approval_is_taken_back(run: Any, question: Any) -> None:
    approval = question()
    run("approve", approval, keys="y\n")
    assert run("undo", approval)[0] == 0
    assert run("undo", "apr_unknown")[0] == 1


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("2", "1,3"), {"Color?": "red", "Sizes?": "S, L"}),
        (("a darker one", "2"), {"Color?": "a darker one", "Sizes?": "M"}),
    ],
)
def test_the_questions_of_an_agent_are_answered(
    run: Any, question: Any, own_server: Server, answers: Any, expected: dict[str, str]
) -> None:
    def ask(text: str, labels: str, several: bool) -> dict[str, Any]:
        options = [{"label": label, "description": ""} for label in labels.split()]
        return {"question": text, "header": text, "options": options, "multiSelect": several}

    questions = [ask("Color?", "blue red", False), ask("Sizes?", "S M L", True)]
    approval = question("AskUserQuestion", {"questions": questions})
    assert run("approve", approval, keys="y\n")[0] == 1
    assert run("answer", approval, "1")[0] == 1  # two questions
    code, _, err = run("answer", approval, *answers)
    assert (code, err) == (0, "")
    assert get_state(own_server, approval)["args"]["answers"] == expected


@pytest.mark.parametrize(
    ("token_text", "message"), [("tcp_wrong", "Unknown, revoked or expired"), ("tck_line\nbreak", "line break")]
)
def test_a_wrong_token_says_so(run: Any, monkeypatch: pytest.MonkeyPatch, token_text: str, message: str) -> None:
    monkeypatch.setenv("TOOLCARDS_TOKEN", token_text)
    code, out, err = run("list")
    assert (code, out) == (1, "") and message in err


def test_a_server_that_is_away_says_so(run: Any) -> None:
    code, _, err = run("--url", "http://127.0.0.1:9", "list")
    assert code == 1 and "cannot be reached" in err


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("list", "--nonsense"), ("approve",), ("--url", "ftp://x", "list")])
def test_a_wrong_command_line_explains_itself(run: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as end:
        run(*words)
    assert end.value.code == 2
