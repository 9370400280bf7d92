"""A failed delivery is sent again after longer and longer pauses, as the receiver asks, and given up at the end."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards.models import Delivery
from toolcards.notifications.retries import BACKOFF, BROWSER_BACKOFF, finish, retry

pytestmark = pytest.mark.django_db
NOW = 1_000_000.0


def make_delivery(attempts: int, event_id: str = "e") -> Delivery:
    return Delivery.objects.create(
        target="1", event_id=event_id, event="run.failed", payload="{}", created_at=0, next_at=5.0, attempts=attempts
    )


@pytest.mark.parametrize("backoff", [BACKOFF, BROWSER_BACKOFF])
def test_each_pause_is_that_of_its_attempt_and_after_the_last_one_it_is_given_up(backoff: tuple[int, ...]) -> None:
    delivery = make_delivery(0)
    for attempt, pause in enumerate(backoff, 1):
        delivery.attempts = attempt
        retry(delivery, "away", 503, None, NOW, backoff)
        delivery.refresh_from_db(fields=["state", "next_at", "error", "status", "done_at"])
        assert 0.9 * pause <= delivery.next_at - NOW <= 1.2 * pause
        assert (delivery.state, delivery.error, delivery.status, delivery.done_at) == ("pending", "away", 503, None)
    delivery.attempts += 1
    retry(delivery, "still away", 0, 60.0, NOW, backoff)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.error, delivery.status, delivery.done_at) == ("failed", "still away", None, NOW)


def test_the_pauses_grow() -> None:
    for backoff in (BACKOFF, BROWSER_BACKOFF):
        assert list(backoff) == sorted(set(backoff)) and backoff[0] == 5


@draw(30, suppress_health_check=list(HealthCheck))
@given(after=st.none() | st.floats(0, 10**6), attempt=st.integers(1, len(BACKOFF)))
def test_a_receiver_can_ask_for_a_longer_pause_and_not_for_a_shorter_one(
    db: None, after: float | None, attempt: int
) -> None:
    delivery = make_delivery(attempt)
    retry(delivery, "", 429, after, NOW)
    delivery.refresh_from_db()
    pause, shortest = delivery.next_at - NOW, 0.9 * BACKOFF[attempt - 1]
    assert pause == pytest.approx(after) if after and after > 1.2 * BACKOFF[attempt - 1] else pause >= shortest
    delivery.delete()


@pytest.mark.parametrize("how", ["again", "finished"])
def test_a_long_reason_is_cut_to_its_column(how: str) -> None:
    delivery, other = make_delivery(1), make_delivery(1, "another")
    if how == "again":
        retry(delivery, "x" * 1_000, 500, None, NOW)
    else:
        finish(delivery, "dropped", NOW, error="x" * 1_000, status=500)
    delivery.refresh_from_db()
    other.refresh_from_db()
    assert (delivery.error, delivery.status) == ("x" * 300, 500)
    assert (other.state, other.error, other.next_at, other.done_at) == ("pending", "", 5.0, None)
