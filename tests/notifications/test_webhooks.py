"""Webhooks: signed as the public library expects, never sent into private networks, retried, delivered."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from tests.support.webhook_receiver import Receiver
from toolcards.models.notifications import new_secret
from toolcards.notifications import webhooks
from toolcards.notifications.webhooks import NotDelivered, UnsafeUrl

HOSTILE = [
    "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "", "https://",
    "//example.com/", "https:example.com", "https://user:pw@example.com/", "https://127.0.0.1@example.com/", "https://example.com\\@127.0.0.1/",
    "https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
    "https://017700000001/", "https://127.0.0.1.", "https://0/", "https://0.0.0.0/", "https://10.0.0.1/", "https://172.16.3.4/",
    "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1/", "https://100.100.100.200/",
    "https://192.0.2.1/", "https://198.18.0.1/", "https://224.0.0.1/", "https://240.0.0.1/", "https://255.255.255.255/",
    "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[::ffff:a9fe:a9fe]/",
    "https://[fe80::1]/", "https://[fe80::1%25lo]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/", "https://[2001:0:7f00:1::]/", "https://[::127.0.0.1]/", "https://[ff02::1]/", "https://localhost/",
    "https://localhost.:443/", "https://example.com:22/", "https://example.com:25/", "https://exam ple.com/", "https://example.com/\r\nX: y",
    "https://example.com:99999/", "https://ⓛocalhost/", "https://8.8.8.8.8/", "https://1.2.3/", "https://[::1",
]  # fmt: skip


@pytest.mark.parametrize("url", HOSTILE)
def test_a_hostile_url_is_refused(url: str) -> None:
    with pytest.raises(UnsafeUrl):
        webhooks.resolve_url(url)


def test_a_name_that_points_inside_is_refused_and_so_is_one_of_many_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in (["10.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:10.0.0.1"]):
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda *a, entry=entry, **k: [(0, 0, 0, "", (ip, 443)) for ip in entry]
        )
        with pytest.raises(UnsafeUrl):
            webhooks.resolve_url("https://rebinding.example/")


def test_the_connection_goes_to_the_address_that_was_vetted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([[(0, 0, 0, "", ("93.184.216.34", 443))], [(0, 0, 0, "", ("127.0.0.1", 443))]])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: next(answers))
    gone_to: list[Any] = []

    def connect(address: Any, timeout: Any) -> Any:
        gone_to.append(address)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(NotDelivered):
        webhooks.post("https://rebinding.example/", b"", {})
    assert gone_to == [("93.184.216.34", 443)]


def test_another_secret_or_another_body_is_not_verified() -> None:
    headers = webhooks.sign([new_secret()], "evt_1", b"{}")
    with pytest.raises(Exception, match=r"[Nn]o matching"):
        Verifier(new_secret()).verify(b"{}", headers)


def test_an_answer_that_trickles_is_cut(receiver: Receiver) -> None:
    receiver.pause = 0.1
    began = time.monotonic()
    with pytest.raises(NotDelivered):
        webhooks.post(receiver.url, b"{}", {}, seconds=0.5)
    assert time.monotonic() - began < 60  # the whole answer takes 100 seconds


def test_only_the_hosts_that_are_allowed_may_be_private(receiver: Receiver, limits: Any) -> None:
    assert webhooks.post(receiver.url, b"{}", {}) == 200
    limits(webhook_private=("127.0.0.1:1",))
    with pytest.raises(UnsafeUrl):
        webhooks.post(receiver.url, b"{}", {})


@pytest.mark.parametrize(("text", "seconds"), [
    ("7", 7.0), ("0", 0.0), ("99999999999999999999", 3600.0), ("9" * 5000, 3600.0), ("²", None), ("٣", None), ("", None),
    ("-1", None), ("1.5", None), ("soon", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None),
])  # fmt: skip
def test_only_a_number_of_seconds_puts_off_the_next_try(text: str, seconds: float | None) -> None:
    assert webhooks._parse_retry_after(text) == seconds
