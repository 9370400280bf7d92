"""Push notifications in a real browser: its page, what the service worker shows, and where its buttons lead."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_pages import NEEDS_BROWSER, Open, armed, ask, card, in_state
from tests.support.push_service import Browser, PushService, encode, verify_authorization
from tests.support.server import PATIENCE, Server, until

pytestmark = [*NEEDS_BROWSER, pytest.mark.thorough]

READ_NOTIFICATIONS = """async () => {
  return (await self.registration.getNotifications()).map(one => ({
    title: one.title, body: one.body, tag: one.tag, silent: one.silent, data: one.data,
    actions: one.actions.map(each => each.action),
  }));
}"""


# Chromium's headless shell denies notifications to every page: pages see the permission of a full browser, and its
# service worker keeps its notifications in a list.
GRANTED = "Object.defineProperty(Notification, 'permission', {value: 'granted', configurable: true})"
NOTIFICATIONS = """() => {
  let list = [];
  self.registration.showNotification = async (title, options) => {
    if (options.renotify && !options.tag) throw new TypeError('renotify needs a tag');
    list = list.filter(one => one.tag !== options.tag);
    const notification = {title, ...options, close: () => { list = list.filter(one => one !== notification); }};
    list.push(notification);
  };
  self.registration.getNotifications = async ({tag} = {}) => list.filter(one => tag === undefined || one.tag === tag);
}"""
# What a browser does when someone presses a notification. Only a real press may open or focus a window.
CLICK = """async ({data, action}) => {
  const opened = [], waits = [];
  self.clients.openWindow = async url => { opened.push(url); };
  WindowClient.prototype.focus = async function () { opened.push(`focus ${this.url}`); };
  const event = new ExtendableEvent('notificationclick');
  event.notification = {data, close: () => opened.push('closed')};
  event.action = action;
  event.waitUntil = promise => waits.push(promise);
  self.dispatchEvent(event);
  await Promise.all(waits);
  return opened;
}"""


@pytest.fixture(scope="module")
def push_service() -> Iterator[PushService]:
    with PushService() as service:
        yield service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, push_service: PushService) -> Iterator[Server]:
    """A server of this module alone, since service workers keep state for an origin."""
    data: Path = tmp_path_factory.mktemp("push")
    with Server(data, push_private=push_service.host) as running:
        yield running


def push_page(visit: Open, path: str = "/settings/push/") -> Any:
    """Open the page of a browser that allows notifications, with its service worker ready."""
    page = visit(path, permissions=["notifications"])
    if page.evaluate("Notification.permission") != "granted":
        page.add_init_script(GRANTED)
        page.reload()
        page.wait_for_selector("body[data-live=up]")
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    if worker(page).evaluate("Notification.permission") != "granted":
        worker(page).evaluate(NOTIFICATIONS)
    return page


def worker(page: Any) -> Any:
    while not page.context.service_workers:  # the browser says so after the page knows
        page.wait_for_timeout(20)
    return page.context.service_workers[0]


def deliver(page: Any, message: dict[str, Any] | str) -> None:
    """Hand a message to the service worker, as the browser does after decrypting it."""
    devtools = page.context.new_cdp_session(page)
    registrations: list[str] = []
    devtools.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda update: registrations.extend(each["registrationId"] for each in update["registrations"]),
    )
    devtools.send("ServiceWorker.enable")
    while not registrations:
        page.wait_for_timeout(20)
    origin = "/".join(page.url.split("/")[:3])
    data = message if isinstance(message, str) else json.dumps(message)
    fields = {"origin": origin, "registrationId": registrations[0], "data": data}
    devtools.send("ServiceWorker.deliverPushMessage", fields)


def wait_for_notification(page: Any, title: str) -> dict[str, Any]:
    """Return the notification with this title, as soon as it is there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        notifications = [one for one in worker(page).evaluate(READ_NOTIFICATIONS) if one["title"] == title]
        if notifications:
            return dict(notifications[0])
        page.wait_for_timeout(50)
    raise AssertionError(f"no notification: {title}")


def message_about(approval: str, **fields: Any) -> dict[str, Any]:
    base = {"tag": "t1", "over": False, "title": "bot asks for approval", "body": "a.py", "answers": True}
    return base | {"path": f"/approvals/{approval}/"} | fields


def test_a_message_becomes_a_notification_and_its_end_closes_it(server: Server, visit: Open, run: str) -> None:
    approval = ask(server, run)["approval"]["id"]
    page = push_page(visit)
    deliver(page, message_about(approval))
    notification = wait_for_notification(page, "bot asks for approval")
    assert notification["actions"] == ["deny", "approve"] and notification["body"] == "a.py"
    assert notification["data"] == {"path": f"/approvals/{approval}/"} and not notification["silent"]
    deliver(page, message_about(approval, over=True, title="Denied: Edit", answers=False))
    end = time.monotonic() + PATIENCE
    while any(one["tag"] == "t1" for one in worker(page).evaluate(READ_NOTIFICATIONS)) and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert all(one["tag"] != "t1" for one in worker(page).evaluate(READ_NOTIFICATIONS))


def test_damaged_messages_still_show_something(visit: Open) -> None:
    page = push_page(visit)
    deliver(page, "not json")
    assert wait_for_notification(page, "Toolcards")["data"] == {"path": "/approvals/"}


def test_a_pressed_button_opens_the_call_with_the_answer_and_nowhere_else(visit: Open) -> None:
    page = push_page(visit)
    origin = page.url.removesuffix("/settings/push/")

    def click(path: str, action: str = "") -> list[str]:
        return list(worker(page).evaluate(CLICK, {"data": {"path": path}, "action": action}))

    assert click("/approvals/a1/", "deny") == ["closed", f"{origin}/approvals/a1/?answer=deny"]
    assert click("/approvals/a1/", "approve") == ["closed", f"{origin}/approvals/a1/?answer=approve"]
    assert click("/approvals/a1/") == ["closed", f"{origin}/approvals/a1/"]
    assert click("/approvals/a1/", "delete") == ["closed", f"{origin}/approvals/a1/"]
    assert click("https://elsewhere.example/approvals/a1/", "deny") == ["closed"]
    assert click("//elsewhere.example/", "deny") == ["closed"]


def test_a_pressed_button_points_at_the_answer_on_a_page_that_is_open(server: Server, visit: Open, run: str) -> None:
    approval = ask(server, run)["approval"]["id"]
    page = push_page(visit, f"/approvals/{approval}/")
    armed(page)
    data = {"data": {"path": f"/approvals/{approval}/"}, "action": "approve"}
    assert worker(page).evaluate(CLICK, data) == ["closed", f"focus {page.url}"]
    page.wait_for_function("document.activeElement.value === 'approve'")
    assert card(page).get_attribute("data-state") == "approval-requested"


@pytest.mark.parametrize("answer", ["deny", "approve"])
def test_the_page_points_at_the_answer_and_presses_nothing(server: Server, visit: Open, run: str, answer: str) -> None:
    approval = ask(server, run)["approval"]["id"]
    page = visit(f"/approvals/{approval}/?answer={answer}")
    armed(page)
    page.wait_for_function("answer => document.activeElement.value === answer", arg=answer)
    page.wait_for_url(f"**/approvals/{approval}/")
    assert card(page).get_attribute("data-state") == "approval-requested"
    assert approval in [one["id"] for one in server.get("/api/v1/approvals?state=waiting&limit=200")["approvals"]]


def test_an_unknown_answer_in_the_address_does_nothing(server: Server, visit: Open, run: str) -> None:
    approval = ask(server, run)["approval"]["id"]
    page = visit(f"/approvals/{approval}/?answer=constructor")
    page.wait_for_url(f"**/approvals/{approval}/")  # it has been read
    assert page.evaluate("document.activeElement.tagName") == "BODY"


def test_an_open_page_of_the_call_points_at_the_answer_when_the_worker_says_so(
    server: Server, visit: Open, run: str
) -> None:
    approval = ask(server, run)["approval"]["id"]
    page = visit(f"/approvals/{approval}/")
    armed(page)
    page.evaluate("navigator.serviceWorker.dispatchEvent(new MessageEvent('message', {data: {answer: 'approve'}}))")
    page.wait_for_function("document.activeElement.value === 'approve'")


def test_the_page_says_that_notifications_are_off_or_blocked(visit: Open) -> None:
    page = push_page(visit)
    page.get_by_role("button", name="Turn on").wait_for()
    page.add_init_script("Object.defineProperty(Notification, 'permission', {value: 'denied'})")
    page.reload()
    page.locator("[data-push-state=denied]").wait_for()


def test_the_page_says_that_plain_http_is_not_enough(visit: Open) -> None:
    page = push_page(visit)
    page.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: false})")
    page.reload()
    page.get_by_text("need an https address").wait_for()


def test_turning_on_registers_this_browser_and_removing_it_turns_it_off(visit: Open) -> None:
    page = push_page(visit)
    turn_on(page, Browser(), "https://push.example/send/abc")
    page.locator("[data-this-browser]:visible").wait_for()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Turn on").wait_for()


def test_a_call_that_waits_is_sent_to_the_push_service_and_its_button_opens_the_signed_in_page(
    server: Server, visit: Open, run: str, push_service: PushService
) -> None:
    page, browser = push_page(visit), Browser()
    turn_on(page, browser, push_service.endpoint(run.replace("/", "-")))
    approval = ask(server, run)["approval"]["id"]
    until(lambda: bool(push_service.requests))
    address, headers, body = push_service.requests[-1]
    assert address == f"/push/{run.replace('/', '-')}"
    verify_authorization(headers["Authorization"], f"http://{push_service.host}", time.time())
    deliver(page, browser.decrypt(body).decode())
    notification = wait_for_notification(page, json.loads(browser.decrypt(body))["title"])
    click = {"data": notification["data"], "action": "approve"}
    closing, address = worker(page).evaluate(CLICK, click)
    assert closing == "closed" and address == f"{server.base}/approvals/{approval}/?answer=approve"
    page.goto(address)
    armed(page)
    page.wait_for_function("document.activeElement.value === 'approve'")
    assert card(page).get_attribute("data-state") == "approval-requested"  # the press of the page's button decides
    page.keyboard.press("Enter")
    in_state(page, "approval-responded")


def turn_on(page: Any, browser: Browser, endpoint: str) -> None:
    """Turn push notifications on, with a subscription of this browser's keys."""
    keys = {"ENDPOINT": endpoint, "AUTH": browser.auth, "POINT": encode(browser.point)}
    script = PUSH_SERVICE
    for name, value in keys.items():
        script = script.replace(name, value)
    page.add_init_script(script)
    page.reload()
    page.get_by_role("button", name="Turn on").click()
    page.get_by_text("Push notifications are on in this browser.").first.wait_for()


# Stands in for the browser's part of a push service, which a test cannot reach: a subscription with valid keys.
PUSH_SERVICE = """
const plain = text => atob(text.replaceAll('-', '+').replaceAll('_', '/'));
const decode = text => Uint8Array.from(plain(text), sign => sign.charCodeAt(0));
const kept = () => sessionStorage.getItem('push-key');
const made = () => ({
  endpoint: 'ENDPOINT',
  options: {applicationServerKey: decode(kept()).buffer},
  getKey: name => decode(name === 'auth' ? 'AUTH' : 'POINT').buffer,
  unsubscribe: async () => { sessionStorage.removeItem('push-key'); return true; },
});
PushManager.prototype.getSubscription = async () => kept() ? made() : null;
PushManager.prototype.subscribe = async ({applicationServerKey}) => {
  sessionStorage.setItem('push-key', applicationServerKey);
  return made();
};
"""
