"""Webhooks: signed as the public library expects, never sent into private networks, retried, delivered."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from channels.db import database_sync_to_async
from standardwebhooks.webhooks import Webhook as Verifier

from tests.support.server import PATIENCE
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.models import Delivery, Webhook
from toolcards.models.notifications import new_secret
from toolcards.notifications import dispatcher, subscriptions, webhooks
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


class Receiver(ThreadingHTTPServer):
    """A webhook receiver with configurable answers."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.status, self.headers, self.pause = 200, {}, 0.0
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook?x=1"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append((dict(self.headers.items()), body))
        if self.server.pause:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(1000):
                time.sleep(self.server.pause)
                try:
                    self.wfile.write(b"X-Drip: x\r\n")
                except OSError:
                    return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def receiver(limits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhooks, "SECONDS", PATIENCE)
    with Receiver() as server:
        limits(webhook_private=(server.host,))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def _nobody_yet() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


@pytest.fixture
def webhook(db: None, receiver: Receiver) -> Webhook:
    return Webhook.objects.create(name="theirs", url=receiver.url)


FAILED = [f.InputReady("c", "bash", {"command": "rm"}, True), f.OutputFailed("c", "broke", "timeout")]


def test_the_public_library_verifies_our_signature(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    a_run("r", *FAILED)
    assert dispatcher.send_due() == 3
    for headers, body in receiver.heard:
        verifier = Verifier(webhook.secret).verify(body, {name.lower(): value for name, value in headers.items()})
        assert verifier["type"].startswith("tool.execute.") and verifier["data"]["run_id"] == "r"
    assert [json.loads(body)["type"][13:] for _, body in receiver.heard] == ["before", "error", "settled"]
    assert not Delivery.objects.exclude(state="delivered").exists()
    assert b"rm" not in receiver.heard[0][1].replace(b'"summary": "rm"', b"")


def test_both_secrets_sign_while_one_replaces_the_other(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    old, new = webhook.secret, webhook.rotate()
    subscriptions.clear_cache()
    a_run("r", *FAILED)
    dispatcher.send_due()
    headers, body = receiver.heard[0]
    low = {name.lower(): value for name, value in headers.items()}
    assert Verifier(old).verify(body, low) and Verifier(new).verify(body, low)
    assert len(webhook.secrets(time.time() + 2 * 86_400)) == 1


def test_another_secret_or_another_body_is_not_verified() -> None:
    headers = webhooks.sign([new_secret()], "evt_1", b"{}")
    with pytest.raises(Exception, match=r"[Nn]o matching"):
        Verifier(new_secret()).verify(b"{}", headers)


def test_a_failure_is_tried_again_later_with_the_same_id(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status = 503
    a_run("r", f.InputReady("c", "bash", {}, True))
    now = time.time() + 1
    dispatcher.send_due(now)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.status, delivery.attempts) == ("pending", 503, 1)
    assert now + 4 <= delivery.next_at <= now + 7
    assert dispatcher.send_due(now) == 0
    receiver.status = 200
    dispatcher.send_due(delivery.next_at)
    assert Delivery.objects.get().state == "delivered"
    ids = {headers["webhook-id"] for headers, _ in receiver.heard}
    assert len(receiver.heard) == 2 and len(ids) == 1


def test_it_gives_up_after_the_last_try_and_can_be_sent_again(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status = 500
    a_run("r", f.InputReady("c", "bash", {}, True))
    now = time.time() + 1
    for _ in range(len(dispatcher.BACKOFF) + 1):
        dispatcher.send_due(now)
        now += 2 * 86_400
    delivery = Delivery.objects.get()
    assert delivery.state == "failed" and len(receiver.heard) == len(dispatcher.BACKOFF) + 1
    receiver.status = 200
    delivery.send_again(now)
    dispatcher.send_due(now)
    assert Delivery.objects.get().state == "delivered"


def test_redirects_are_not_followed(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status, receiver.headers = 307, {"Location": "http://127.0.0.1:1/"}
    a_run("r", f.InputReady("c", "bash", {}, True))
    dispatcher.send_due()
    assert "redirect" in Delivery.objects.get().error


def test_gone_switches_it_off(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status = 410
    a_run("r", f.InputReady("c", "bash", {}, True))
    dispatcher.send_due()
    webhook.refresh_from_db()
    assert not webhook.enabled and "410" in webhook.trouble
    audit_row = AuditRow.objects.get(act="notify.gone")
    assert (audit_row.actor_kind, audit_row.details["name"]) == ("gate", webhook.name)


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


def test_only_subscribed_events_are_sent(db: None, a_run: Any, source: Any) -> None:
    Webhook.objects.create(name="errors", url="https://example.com/", events='["tool.execute.error"]')
    Webhook.objects.create(name="loud", url="https://example.com/", severity="critical")
    Webhook.objects.create(name="another", url="https://example.com/", sources="[999999]")
    Webhook.objects.create(name="off", url="https://example.com/", enabled=False)
    a_run("r", *FAILED)
    assert [(delivery.webhook.name, delivery.event) for delivery in Delivery.objects.all()] == [
        ("errors", "tool.execute.error")
    ]


def test_two_dispatchers_send_it_once(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {}, True))
    pk, now = Delivery.objects.get().pk, time.time() + 1
    assert Delivery.objects.take(pk, now, 30) and not Delivery.objects.take(pk, now, 30)
    assert Delivery.objects.take(pk, now + 31, 30)  # the process that took it died


@pytest.mark.parametrize(("text", "seconds"), [
    ("7", 7.0), ("0", 0.0), ("99999999999999999999", 3600.0), ("9" * 5000, 3600.0), ("²", None), ("٣", None), ("", None),
    ("-1", None), ("1.5", None), ("soon", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None),
])  # fmt: skip
def test_only_a_number_of_seconds_puts_off_the_next_try(text: str, seconds: float | None) -> None:
    assert webhooks._parse_retry_after(text) == seconds


@pytest.mark.django_db(transaction=True)
async def test_a_receiver_that_never_answers_delays_no_other(receiver: Receiver, limits: Any) -> None:
    with Receiver() as silent:
        silent.pause = 0.05  # drips a header now and then, and never ends
        limits(webhook_private=(receiver.host, silent.host))
        threading.Thread(target=silent.serve_forever, args=(0.05,), daemon=True).start()
        good, bad = await database_sync_to_async(_two_webhooks)(receiver.url, silent.url)
        followed = asyncio.create_task(dispatcher.run_dispatcher())
        try:
            for nth in range(3):  # each comes after the silent one was asked
                await database_sync_to_async(_owed)(bad, f"b{nth}")
                await _reached(lambda: len(silent.heard) == 1)
                await database_sync_to_async(_owed)(good, f"g{nth}")
                await _reached(lambda nth=nth: len(receiver.heard) == nth + 1)
            assert len(silent.heard) == 1  # it is still being waited for, by one thread
        finally:
            silent.pause = 0.0  # now it ends, with too many headers
            rows = database_sync_to_async(Delivery.objects.filter(target=str(bad.pk)).exclude(error="").exists)
            while not await rows():
                await asyncio.sleep(0.02)
            followed.cancel()
            silent.shutdown()
            silent.server_close()
            await asyncio.gather(followed, return_exceptions=True)


def _two_webhooks(*urls: str) -> list[Webhook]:
    return [Webhook.objects.create(name=url, url=url) for url in urls]


def _owed(webhook: Webhook, event_id: str) -> None:
    Delivery.objects.create(
        webhook=webhook, target=str(webhook.pk), event_id=event_id, event="tool.failed", payload="{}", next_at=0,
        created_at=0,
    )  # fmt: skip
    subscriptions.clear_cache()


async def _reached(true: Any) -> None:
    async with asyncio.timeout(PATIENCE / 3):
        while not true():
            await asyncio.sleep(0.02)
