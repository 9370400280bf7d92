"""Passwords are hashed in few slots; a full queue answers 429, and the attempt does not count."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.hashers import check_password, make_password
from django.test import Client

from dashboard.accounts.guessing import hashing
from dashboard.accounts.guessing.hashing import HashingBusy, HashingSlots
from tests.support.server import PATIENCE

PASSWORD = "a password for tests"


def holding(places: HashingSlots, count: int) -> tuple[list[threading.Thread], threading.Event, list[int]]:
    """Have that many threads ask for a place; the event lets them go, the list grows as they are let in."""
    leave, inside = threading.Event(), []

    def hold(number: int) -> None:
        with places.hold_slot():
            inside.append(number)
            leave.wait(PATIENCE)

    threads = [threading.Thread(target=hold, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads, leave, inside


def full(places: HashingSlots) -> tuple[list[threading.Thread], threading.Event]:
    threads, leave, _ = holding(places, places._most)
    wait_event = threading.Event()
    while places._inside < places._most:
        wait_event.wait(0.01)
    return threads, leave


def test_only_so_many_hash_at_a_time_and_so_many_wait() -> None:
    places = HashingSlots(places=2, queue=3)
    threads, leave, inside = holding(places, 5)
    pause = threading.Event()
    while places._inside < 5 or len(inside) < 2:
        pause.wait(0.01)
    with pytest.raises(HashingBusy), places.hold_slot():
        raise AssertionError("it was let in")
    assert len(inside) == 2
    leave.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(inside) == 5 and places._inside == 0
    with places.hold_slot():
        pass


def test_a_place_is_given_back_whatever_happens_in_it() -> None:
    places = HashingSlots(places=1, queue=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), places.hold_slot():
            raise ZeroDivisionError
    assert places._inside == 0


@pytest.fixture
def real_hasher(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PASSWORD_HASHERS = ["dashboard.accounts.guessing.hashing.BoundedPBKDF2"]
    monkeypatch.setattr(hashing.BoundedPBKDF2, "iterations", 100)


@pytest.mark.usefixtures("real_hasher")
def test_hashes_are_django_s_own() -> None:
    stored_hash = make_password(PASSWORD)
    assert stored_hash.startswith("pbkdf2_sha256$") and check_password(PASSWORD, stored_hash)


@pytest.fixture
def crowd(real_hasher: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    places = HashingSlots(places=1, queue=2)
    monkeypatch.setattr(hashing, "hashing_slots", places)
    slots: list[Any] = []

    def come() -> None:
        slots.append(full(places))

    yield come
    for threads, leave in slots:
        leave.set()
        for thread in threads:
            thread.join(PATIENCE)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["bea", "nobody"])
def test_a_full_queue_asks_to_try_again_later(a_person: Any, crowd: Any, name: str) -> None:
    a_person("viewer", "bea")
    crowd()
    for _ in range(50):  # and is not taken for one who guesses
        answer = Client().post("/login/", {"username": name, "password": PASSWORD})
        assert answer.status_code == 429 and answer["Retry-After"] == str(hashing.RETRY_AFTER)
        assert "Too many people are signing in" in answer.content.decode()


@pytest.mark.django_db
def test_other_pages_that_hash_say_so_too(client: Client, a_person: Any, crowd: Any) -> None:
    client.force_login(a_person("viewer", "bea"))
    crowd()
    fields = {"old_password": PASSWORD, "new_password1": "quite another", "new_password2": "quite another"}
    answer = client.post("/settings/password/", fields)
    assert answer.status_code == 429 and answer["Retry-After"] and "busy" in answer.content.decode()
