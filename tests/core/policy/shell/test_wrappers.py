"""Commands behind wrappers."""

from __future__ import annotations

from tests.support.command_rules import find_effect, policy
from toolcards.core.policy.decision import Effect


def test_a_wrapper_may_be_allowed_with_what_it_runs():
    rules = policy("allow", ["sudo systemctl status", "timeout 5 pytest", "bash build.sh"], "ask")
    for command in ("sudo systemctl status nginx", "timeout 5 pytest -q", "bash build.sh"):
        assert find_effect(rules, command).effect is Effect.ALLOW
    for command in ("sudo systemctl stop nginx", "timeout 5 rm x", "bash -c x build.sh", "bash build.sh --fast"):
        assert find_effect(rules, command).effect is Effect.ASK
