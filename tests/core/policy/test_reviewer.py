"""A reviewer's digests change with everything that can change its answers, and with nothing else."""

from dataclasses import replace

from toolcards.core.policy.reviewer import DEFAULT_PROMPT, Reviewer

GUARD = Reviewer("guard", "model", url="https://a.example", api="openai", model="m", prompt=DEFAULT_PROMPT)


def test_the_digest_changes_with_what_is_asked_and_who():
    others = [{"prompt": "Be strict."}, {"url": "https://b.example"}, {"model": "n"}, {"api": "anthropic"}]
    assert len({GUARD.sha256, *(replace(GUARD, **change).sha256 for change in others)}) == 5
    assert replace(GUARD, enforces=True, seconds=5.0).sha256 == GUARD.sha256


def test_only_models_have_a_prompt():
    assert len(GUARD.prompt_sha256) == 64 and replace(GUARD, prompt="").prompt_sha256 == ""
