"""Everyday read-only commands run without a question under the starter policy."""

from tests.support.shell_samples import read_lines
from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.language.presets import PRESETS

PACK = parse(PRESETS["ask-on-writes"].document)
EVERYDAY = read_lines("everyday")


@loop_over("line", EVERYDAY)
def test_an_everyday_command_is_allowed(line):
    decision = decide(
        PACK, PolicyRequest.for_tool("Bash", input={"command": line, "description": "look", "timeout": 5})
    )
    assert decision.effect is Effect.ALLOW, decision.reason


def test_there_are_enough_of_them():
    assert len(set(EVERYDAY)) >= 100
