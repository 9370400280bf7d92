"""Everyday read-only commands run without a question under the starter policy."""

from tests.support.shell_samples import read_lines
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS
from toolcards.core.policy.shell.script import Likelihood, read_line

PACK = parse(PRESETS["ask-on-writes"].document)
EVERYDAY = read_lines("everyday")


@loop_over("line", EVERYDAY)
def test_an_everyday_command_is_allowed(line):
    decision = decide(
        PACK, PolicyRequest.for_tool("Bash", input={"command": line, "description": "look", "timeout": 5})
    )
    assert decision.effect is Effect.ALLOW, decision.reason


@loop_over("line", read_lines("no_look"))
def test_what_only_resembles_one_is_no_look(line):
    assert read_line(line).doubt


def test_what_asks_a_server_is_a_look_that_sends():
    for line in ("curl localhost", "gh api user", "kubectl get pods", "aws s3 ls", "redis-cli get a"):
        assert not read_line(line).doubt and read_line(line).effects["sends"] is Likelihood.YES


def test_there_are_enough_of_them():
    assert len(set(EVERYDAY)) >= 100
