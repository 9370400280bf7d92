"""Who guesses is slowed down; whose name is guessed comes in all the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from dashboard.accounts import sign_in_links
from dashboard.accounts.guessing.throttle import (
    ADDRESS,
    CROWDED,
    DEVICE,
    MAX_BUCKETS,
    NAME,
    PAIR,
    Throttle,
    TooManyAttempts,
)
from tests.support.accounts import DEVICES, sign_in


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> Throttle:
    return Throttle(clock)


def guess(throttle: Throttle, times: int, name: str = "admin", address: str = "10.0.0.1", device: str = "") -> int:
    """Fail that often in a row; return how many attempts were let through."""
    pass_count = 0
    for _ in range(times):
        try:
            throttle.admit(name, address, device)
        except TooManyAttempts:
            continue
        pass_count += 1
    return pass_count


def test_one_address_guesses_one_name_a_few_times_only(throttle: Throttle, clock: Clock) -> None:
    assert guess(throttle, 1000) == PAIR.size
    with pytest.raises(TooManyAttempts) as error:
        throttle.admit("admin", "10.0.0.1")
    assert 0 < error.value.wait <= PAIR.refill
    clock.now += error.value.wait
    assert guess(throttle, 1000) == 1


def test_one_address_guesses_a_few_times_only_whatever_the_names(throttle: Throttle) -> None:
    assert sum(guess(throttle, 1, f"name-{n}") for n in range(1000)) == ADDRESS.size


def test_the_first_attempt_from_an_address_counts_however_many_guess_the_name(throttle: Throttle) -> None:
    for n in range(300):
        guess(throttle, 50, address=f"10.1.{n // 250}.{n % 250}")
    assert guess(throttle, 50, address="10.9.9.9") == CROWDED.size == 1
    throttle.admit("bea", "10.9.9.8")
    assert guess(throttle, 50, "bea", "10.9.9.8") > 1  # other names are not crowded


def test_a_name_is_not_crowded_for_long_after_the_last_guess(throttle: Throttle, clock: Clock) -> None:
    for n in range(5000):
        guess(throttle, 1, address=f"10.{n // 62500}.{n // 250 % 250}.{n % 250}")
    clock.now += 2 * NAME.size * NAME.refill
    assert guess(throttle, 50, address="10.200.9.9") == PAIR.size


def test_a_known_browser_is_slowed_down_by_its_own_failures_alone(throttle: Throttle) -> None:
    guess(throttle, 1000)
    assert guess(throttle, 1000, device="laptop 1") == DEVICE.size
    assert guess(throttle, 1, device="laptop 2") == 1


def test_who_signs_in_can_do_so_for_ever(throttle: Throttle) -> None:
    for _ in range(1000):
        throttle.admit("admin", "10.0.0.1").succeed()


def test_a_success_forgives_the_failures_of_that_name_from_there_and_no_others(throttle: Throttle) -> None:
    guess(throttle, PAIR.size - 1)
    throttle.admit("admin", "10.0.0.1").succeed()
    assert guess(throttle, 1000) == PAIR.size


@pytest.mark.parametrize("victims", [1, 1000])
def test_signing_in_as_oneself_opens_no_way_to_guess_at_others(throttle: Throttle, victims: int) -> None:
    pass_count = 0
    for n in range(1000):
        try:
            throttle.admit("mallory", "10.0.0.1").succeed()
        except TooManyAttempts:
            break
        pass_count += guess(throttle, 1, f"victim-{n % victims}")
    assert pass_count == (PAIR if victims == 1 else ADDRESS).size


def test_an_attempt_that_was_not_made_costs_nothing(throttle: Throttle) -> None:
    for _ in range(1000):
        throttle.admit("admin", "10.0.0.1").refund()


def test_attempts_at_the_same_moment_are_counted_before_their_answers(throttle: Throttle) -> None:
    open_attempts = []
    with pytest.raises(TooManyAttempts):
        for _ in range(1000):
            open_attempts.append(throttle.admit("admin", "10.0.0.1"))
    assert len(open_attempts) == PAIR.size


@pytest.mark.parametrize("spelling", ["ADMIN", "Admin", "\uff41dmin", "ad\uff4din"])
def test_spellings_of_one_name_are_one_name(throttle: Throttle, spelling: str) -> None:
    guess(throttle, 1000)
    assert guess(throttle, 10, spelling) == 0


def test_it_says_once_that_the_bucket_is_empty(throttle: Throttle, clock: Clock) -> None:
    def refusals() -> list[bool]:
        entries = []
        for _ in range(PAIR.size + 5):
            try:
                throttle.admit("admin", "10.0.0.1")
            except TooManyAttempts as refused:
                entries.append(refused.first)
        return entries

    assert refusals() == [True] + [False] * 4
    clock.now += PAIR.size * PAIR.refill
    assert refusals()[0] is True


@pytest.mark.slow
def test_memory_is_bounded_and_holds_no_name(throttle: Throttle) -> None:
    for n in range(MAX_BUCKETS // 2):
        guess(throttle, 1, f"a-secret-{n}", f"2001:db8:{n:x}::1")
    assert len(throttle._buckets) <= MAX_BUCKETS
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in throttle._buckets)


steps = st.lists(st.tuples(st.sampled_from(["fail", "succeed", "refund", "wait"]), st.integers(0, 3)), max_size=60)


@given(steps)
def test_no_order_of_attempts_keeps_a_fresh_address_out_or_lets_one_guess_on(moves: list[tuple[str, int]]) -> None:
    clock = Clock()
    throttle, failed, seconds_waited = Throttle(clock), 0, 0.0
    for move, whose in moves:
        if move == "wait":
            clock.now += 7.0 * whose
            seconds_waited += 7.0 * whose
            continue
        try:
            attempt: Any = throttle.admit(f"name-{whose}", "10.0.0.1")
        except TooManyAttempts as refused:
            assert refused.wait > 0
            continue
        if move == "fail":
            failed += 1
        else:
            getattr(attempt, move)()
    assert failed <= ADDRESS.size + seconds_waited / ADDRESS.refill + 1
    throttle.admit("name-0", "10.0.0.99")


pytestmark = pytest.mark.django_db


def test_a_known_browser_is_known_for_its_own_people_only(bea: User, a_person: Any) -> None:
    a_person("viewer", "cleo")
    browser = Client()
    assert sign_in(browser, "cleo").status_code == 302
    browser.post("/logout/")
    for _ in range(PAIR.size):
        sign_in(browser, password="wrong")
    assert sign_in(browser).status_code == 429
    assert sign_in(browser, "cleo").status_code == 302


def test_the_cookie_of_a_browser_lets_no_one_in_and_cannot_be_made_up(bea: User) -> None:
    browser = Client()
    sign_in(browser)
    cookie = browser.cookies[DEVICES]
    assert cookie["httponly"] and cookie["samesite"] == "Lax" and "bea" not in cookie.value
    stolen = Client()
    stolen.cookies[DEVICES] = cookie.value
    assert stolen.get("/").status_code == 302
    assert sum(sign_in(stolen, password="wrong").status_code == 200 for _ in range(50)) == DEVICE.size
    forged = Client()
    forged.cookies[DEVICES] = cookie.value[:-1] + ("A" if cookie.value[-1] != "A" else "B")
    for _ in range(PAIR.size):
        sign_in(forged, password="wrong", address="10.3.3.3")
    assert sign_in(forged, password="wrong", address="10.3.3.3").status_code == 429


def test_a_browser_that_came_by_a_link_is_known(bea: User) -> None:
    browser = Client()
    browser.post(sign_in_links.make_link(bea, ""))
    browser.post("/logout/")
    for _ in range(PAIR.size + 1):
        sign_in(Client(), password="wrong")
    assert sign_in(Client()).status_code == 429 and sign_in(browser).status_code == 302
