"""Masking of a run's log: every state stays, and long runs are quick."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards.core.calls import facts as f
from toolcards.core.redaction.log_masking import LogMasker, find_difference, fold_facts
from toolcards.core.redaction.redactor import Redactor

GITHUB = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


WORD = "hunter2-correct-horse"


_PARTS = ['{"password": "', WORD, '"}', "{", "}", GITHUB[:9], GITHUB[9:], "12", "", " "]
TEXTS = st.sampled_from([*_PARTS, f'{{"token": "{GITHUB}"}}', f"token={GITHUB}"])
VALUES = st.one_of(TEXTS, st.just({"password": WORD}), st.just({"a": [GITHUB, 1]}), st.none(), st.integers())
CALL = st.sampled_from(["a", "b"])
FACTS = st.one_of(
    st.builds(f.InputStarted, CALL, st.sampled_from(["bash", "x"])),
    st.builds(f.InputDelta, CALL, TEXTS),
    st.builds(f.InputDelta, CALL, TEXTS),
    st.builds(f.InputDelta, CALL, TEXTS),
    st.builds(f.InputReady, CALL, st.just("bash")),
    st.builds(f.InputReady, CALL, st.just("bash"), VALUES, st.just(True)),
    st.builds(f.InputRepaired, CALL, st.just("x"), VALUES, VALUES),
    st.builds(f.InputInvalid, CALL, st.just("x"), VALUES, TEXTS),
    st.builds(f.PolicyDecided, CALL, st.sampled_from(["allow", "ask"]), reason=TEXTS),
    st.builds(f.ApprovalRequested, CALL, source_id=st.just("s"), id=st.just("i"), reason=TEXTS, reply_to=VALUES),
    st.builds(f.ApprovalAnswered, CALL, st.booleans(), reason=TEXTS, input=VALUES, has_input=st.booleans()),
    st.builds(f.OutputPartial, CALL, VALUES),
    st.builds(f.OutputReady, CALL, VALUES),
    st.builds(f.OutputFailed, CALL, TEXTS),
    st.builds(f.OutputDenied, CALL, TEXTS),
    st.builds(f.SnapshotReceived, CALL, VALUES),
    st.builds(f.TextDelta, text=TEXTS),
    st.builds(f.RunStarted, agent=st.just("bot")),
    st.builds(f.StepReset),
    st.builds(f.RunEnded, outcome=st.sampled_from(["ok", "error", "interrupt"]), close_open_input=st.booleans()),
)


@pytest.mark.slow
@draw(400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FACTS, max_size=25))
@example([f.InputDelta("a", ""), f.OutputPartial("a", 1), f.InputDelta("a", f'{{"token": "{GITHUB}"}}')])
@example([f.InputDelta("a", '{"token": "'), f.OutputPartial("a", 1), f.InputDelta("a", f'{GITHUB}"}} ')])
def test_whatever_happened_every_state_stays(story: list[Any]) -> None:
    hide = Redactor(b"key")
    scrub, places = LogMasker(hide), []
    for fact in story:
        for ordinal, routed in scrub.before.route(fact):
            scrub.read(ordinal, routed, len(places) + 1)
            places.append((ordinal, len(places) + 1))
    masked_facts = scrub.mask_facts()
    after, _ = fold_facts(places, masked_facts)
    assert find_difference(scrub.before, after) == ""
    again = LogMasker(hide)
    for (ordinal, seq), fact in zip(places, masked_facts, strict=True):
        again.read(ordinal, fact, seq)
    assert list(map(f.dump, again.mask_facts())) == list(map(f.dump, masked_facts))
    for old, new in zip(scrub.before.cards.values(), after.cards.values(), strict=True):
        assert hide.value(new.input) == new.input and (old.has_input == new.has_input)


def test_reading_a_long_run_is_quick() -> None:
    scrub, start = LogMasker(Redactor(b"key")), time.perf_counter()
    scrub.read(1, f.InputStarted("a", "bash"), 1)
    for seq in range(2, 20_000):
        scrub.read(1, f.InputDelta("a", "password"), seq)
    scrub.mask_facts()
    assert time.perf_counter() - start < 5
