"""Words of rules about commands: matched narrowly for allow, widely for ask and deny."""

from __future__ import annotations

import pytest

from tests.support.command_rules import DENY_RM, find_effect, policy
from toolcards.core.policy.decision import Effect


@pytest.mark.parametrize(
    "command",
    ["git rm f", "grep rm f", "echo rm", "ls rm", "confirm x", "npm run rm", "cat rm.txt", "git log --grep=rm",
    "ls 'rm x'",
     "rmdir x", "alarm", "python rm.py", "sed s/rm/x/ f"],
)  # fmt: skip
def test_a_deny_does_not_catch_the_word_elsewhere(command):
    assert find_effect(DENY_RM, command).effect is Effect.ALLOW


@pytest.mark.parametrize("command",
["git push", "git push origin main", "git -C /x push", "git --no-pager push", "sudo git push",
                                     "git -c a=b push", "git  push", "git 'push'",
                                     "ls && git push --dry-run"])  # fmt: skip
def test_words_may_have_options_between_for_ask_and_deny(command):
    assert find_effect(policy("deny", "git push", "allow"), command).effect is Effect.DENY


@pytest.mark.parametrize(
    "command", ["git pull", "git stash push", "git commit -m 'push it'", "gitpush", "git log push"]
)
def test_other_words_do_not_match(command):
    assert find_effect(policy("deny", "git push", "allow"), command).effect is Effect.ALLOW


@pytest.mark.parametrize(
    ("command", "caught"), [("rm -rf x", 1), ("rm -fr x", 1), ("rm -r -f x", 1), ("rm -r x", 0), ("rm x -vrf", 1)]
)
def test_bundled_flags(command, caught):
    assert (find_effect(policy("deny", "rm -rf", "allow"), command).effect is Effect.DENY) == bool(caught)
