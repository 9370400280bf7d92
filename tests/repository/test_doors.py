"""Every address has a guard: who may ask for what is written down here, and a new address without a row fails.

People's pages come from Django's URL configuration, addresses of machines from `ROUTES`, sockets from both routings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from channels.db import database_sync_to_async as in_thread
from channels.testing import WebsocketCommunicator
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import get_resolver
from django.urls import path as django_path

from dashboard import urls
from dashboard.accounts import access, roles
from dashboard.live.sockets import websocket_urlpatterns
from tests.support.odd_numbers import ODD_NUMBERS
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.models import AgentKey, Approval, Source, ToolCall
from toolcards.models.sources import SCOPES
from toolcards.transports.api import auth
from toolcards.transports.urls import ROUTES

# ---------------------------------------------------------------- machines: method, and the scopes that open it

READ_SCOPE = frozenset({"read"})
ANY = frozenset({"ingest", "decide"})
MACHINES: dict[str, tuple[str, frozenset[str]]] = {
    "healthz": ("GET", frozenset()),
    "readyz": ("GET", frozenset()),
    "metrics": ("GET", frozenset()),
    "api/v1/runs": ("GET", READ_SCOPE),
    "api/v1/runs/<run>": ("GET", READ_SCOPE),
    "api/v1/runs/<run>/calls": ("GET", READ_SCOPE),
    "api/v1/runs/<run>/events": ("GET", READ_SCOPE),
    "api/v1/runs/<run>/beat": ("POST", ANY),
    "api/v1/runs/<run>/end": ("POST", ANY),
    "api/v1/approvals": ("GET", READ_SCOPE),
    "api/v1/approvals/<approval>": ("GET", frozenset({"decide"})),
    "api/v1/approvals/<approval>/withdraw": ("POST", frozenset({"decide"})),
    "api/v1/calls/decide": ("POST", frozenset({"decide"})),
    "api/v1/calls/<call_id>/result": ("POST", frozenset({"result"})),
    "api/v1/permits/<permit>/claim": ("POST", frozenset({"decide"})),
    "api/v1/ag-ui/<upstream>": ("POST", frozenset({"ingest"})),
    "api/v1/ag-ui/<upstream>/resume": ("GET", frozenset({"ingest"})),
    "api/v1/hooks/claude-code": ("POST", frozenset()),  # both ingest and decide
    "api/v1/ingest": ("POST", frozenset({"ingest"})),
}
OPEN = frozenset({"healthz", "readyz", "metrics"})
READ_BY_PEOPLE = frozenset({
    "api/v1/runs", "api/v1/runs/<run>", "api/v1/runs/<run>/calls", "api/v1/runs/<run>/events", "api/v1/approvals",
})  # fmt: skip
BODIES: dict[str, Any] = {
    "api/v1/calls/decide": {"run": "new", "call_id": "c", "tool": {"name": "bash"}, "args": {}},
    "api/v1/ingest": '{"type":"tool.input.available","call_id":"x","tool":"t","input":{}}\n',
    "api/v1/hooks/claude-code": {"session_id": "s", "hook_event_name": "Stop"},
}

# ---------------------------------------------------------------- pages: who may GET, who may POST (or PUT, or DELETE)

NO, ALL, VIEWER, APPROVER, ADMIN = "-", "everyone", "viewer", "approver", "admin"
PAGES: dict[str, tuple[str, str]] = {
    "": (VIEWER, NO),
    "runs/": (VIEWER, NO),
    "runs/<path:name>/": (VIEWER, NO),
    "export/runs/<number:run>/calls.jsonl": (VIEWER, NO),
    "export/runs/<number:run>/calls.csv": (VIEWER, NO),
    "export/runs/<number:run>/run.html": (VIEWER, NO),
    "calls/": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/card/": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/pictures/<str:part>/<int:number>/": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/call.md": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/call.json": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/call.sh": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/why/": (VIEWER, NO),
    "calls/<number:run>-<number:ordinal>/rule/": (ADMIN, NO),
    "calls/<number:run>-<number:ordinal>/covered/": (ADMIN, NO),
    "calls/<number:run>-<number:ordinal>/settle": (NO, APPROVER),
    "calls/<number:run>-<number:ordinal>/refusal": (NO, APPROVER),
    "calls/<str:public_id>/reveal": (NO, ADMIN),
    "login/": (ALL, ALL),
    "login/link/<str:token>/": (ALL, ALL),
    "logout/": (NO, ALL),
    "approvals/": (VIEWER, NO),
    "approvals/history/": (VIEWER, NO),
    "approvals/votes": (NO, APPROVER),
    "approvals/<str:pk>/vote": (NO, APPROVER),
    "approvals/<str:pk>/undo": (NO, APPROVER),
    "approvals/<str:pk>/": (VIEWER, NO),
    "api/v1/approvals/votes": (NO, APPROVER),
    "api/v1/approvals/<str:pk>/vote": (NO, APPROVER),
    "api/v1/approvals/<str:pk>/undo": (NO, APPROVER),
    "api/v1/audit": (ADMIN, NO),
    "policy/": (VIEWER, NO),
    "policy/reviewers/": (ADMIN, NO),
    "policy/reviewers/<str:name>/": (NO, ADMIN),
    "policy/reviewers/<str:name>/reset/": (NO, ADMIN),
    "policy/suggestions/": (ADMIN, NO),
    "policy/suggestions/accept/": (NO, ADMIN),
    "policy/suggestions/undo/": (NO, ADMIN),
    "policy/try/": (VIEWER, VIEWER),
    "policy/export/": (VIEWER, NO),
    "policy/import/": (NO, ADMIN),
    "policy/draft/": (VIEWER, NO),
    "policy/draft/default/": (NO, ADMIN),
    "policy/draft/activate/": (NO, ADMIN),
    "policy/draft/text/": (ADMIN, ADMIN),
    "policy/draft/simulate/": (NO, ADMIN),
    "policy/simulations/<str:pk>/": (ADMIN, NO),
    "policy/simulations/<str:pk>/cancel/": (NO, ADMIN),
    "policy/packs/<slug:name>/": (NO, ADMIN),
    "policy/rules/new/": (ADMIN, ADMIN),
    "policy/rules/<str:rule_id>/": (ADMIN, ADMIN),
    "policy/rules/<str:rule_id>/switch/": (NO, ADMIN),
    "policy/rules/<str:rule_id>/effect/": (NO, ADMIN),
    "policy/rules/<str:rule_id>/restore/": (NO, ADMIN),
    "policy/rules/<str:rule_id>/remove/": (NO, ADMIN),
    "policy/versions/": (VIEWER, NO),
    "policy/versions/<number:number>/": (VIEWER, NO),
    "policy/versions/<number:number>/copy/": (NO, ADMIN),
    "policy/grants/": (VIEWER, NO),
    "policy/grants/<str:pk>/revoke/": (NO, APPROVER),
    "api/v1/policy/draft": (ADMIN, ADMIN),
    "api/v1/policy/validate": (NO, ADMIN),
    "api/v1/policy/simulate": (NO, ADMIN),
    "api/v1/policy/activate": (NO, ADMIN),
    "api/v1/policy/versions": (ADMIN, NO),
    "api/v1/grants": (VIEWER, VIEWER),  # each grant asks who gave it
    "api/v1/grants/<str:pk>": (VIEWER, VIEWER),
    "api/v1/killswitch": (VIEWER, ADMIN),
    "api/v1/breakglass": (VIEWER, ADMIN),
    "settings/": (VIEWER, NO),
    "settings/killswitch/": (ADMIN, ADMIN),
    "settings/breakglass/": (VIEWER, ADMIN),
    "settings/audit/": (ADMIN, NO),
    "settings/audit/verify/": (NO, ADMIN),
    "settings/audit/export/": (ADMIN, NO),
    "settings/notify/": (ADMIN, ADMIN),
    "settings/notify/<number:pk>/": (ADMIN, ADMIN),
    "settings/notify/<number:pk>/<str:action>/": (NO, ADMIN),
    "settings/notify/deliveries/<number:pk>/": (ADMIN, NO),
    "settings/notify/deliveries/<number:pk>/again/": (NO, ADMIN),
    "settings/push/": (VIEWER, VIEWER),
    "settings/push/<number:pk>/<str:action>/": (NO, VIEWER),
    "settings/people/": (ADMIN, ADMIN),
    "settings/people/<number:pk>/": (ADMIN, ADMIN),
    "settings/people/<number:pk>/<str:action>/": (NO, ADMIN),
    "settings/people/<number:pk>/tokens/revoke/": (NO, ADMIN),
    "settings/tokens/": (VIEWER, VIEWER),
    "settings/tokens/<number:pk>/revoke/": (NO, VIEWER),
    "settings/password/": (VIEWER, VIEWER),
    "calls/tools/": (VIEWER, NO),
    "calls/agents/": (VIEWER, NO),
    "filters/": (NO, VIEWER),
    "filters/<number:pk>/rename": (NO, VIEWER),
    "filters/<number:pk>/delete": (NO, VIEWER),
    "sources/": (VIEWER, NO),
    "sources/unknown-frames/": (VIEWER, NO),
    "sources/keys/": (NO, ADMIN),
    "sources/keys/<number:pk>/revoke/": (NO, ADMIN),
    "sources/keys/<number:pk>/rotate/": (NO, ADMIN),
    "sources/<number:pk>/": (VIEWER, NO),
    "sources/<number:pk>/owner/": (NO, ADMIN),
    "sources/tools/<number:pk>/accept/": (NO, ADMIN),
    "connect/": (VIEWER, ADMIN),
    "connect/<slug:slug>/": (VIEWER, ADMIN),
    "help/": (VIEWER, NO),
    "help/<slug:name>/": (VIEWER, NO),
    "api/v1/openapi.json": (ALL, NO),
    "manifest.webmanifest": (ALL, NO),
    "service-worker.js": (ALL, NO),
    "offline/": (ALL, NO),
    "api/v1/policy/schema.json": (ALL, NO),
}
OTHER_METHOD = {
    "api/v1/policy/draft": "PUT", "api/v1/grants": "DELETE", "api/v1/grants/<str:pk>": "DELETE",
}  # fmt: skip
# The rows that a GET writes: the export of the audit trail, and the proofs of a source that its page collects.
ALLOWED_CHANGES = {"settings/audit/export/": ["toolcards.AuditRow"], "sources/<number:pk>/": ["toolcards.Proof"]}
SOCKETS = {"^ws/me/$": "/ws/me/", "^ws/runs/(?P<run>.+)/$": "/ws/runs/run-1/"}


def addresses(resolver: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in resolver.url_patterns:
        if hasattr(pattern, "url_patterns"):
            yield from addresses(pattern, prefix + str(pattern.pattern))
        else:
            yield prefix + str(pattern.pattern), pattern.callback


EVERY = dict(reversed(list(addresses(get_resolver()))))  # the first of two is the one that answers
OURS = {address for address in EVERY if not address.startswith("admin/")} - set(ROUTES)
DJANGOS = sorted(address for address in EVERY if address.startswith("admin/"))


def test_every_address_has_a_row_here() -> None:
    assert set(PAGES) == OURS
    assert set(MACHINES) == {*ROUTES, "api/v1/ingest"}
    assert {str(route.pattern) for route in websocket_urlpatterns} == set(SOCKETS)


OPEN_TO_ANYONE = {
    "login/", "login/link/<str:token>/", "logout/", "admin/login/", "admin/password_change/", "api/v1/openapi.json",
    "api/v1/policy/schema.json", "manifest.webmanifest", "service-worker.js", "offline/", "healthz", "readyz",
    "metrics",
}  # fmt: skip
ADMIN_CHECKS = set(DJANGOS) - OPEN_TO_ANYONE  # Django's own views, behind `AdminSite.has_permission`


@pytest.mark.django_db
def test_every_view_names_its_permission_and_few_are_open_to_anyone() -> None:
    permission_names = {address: access.find_permission(view) for address, view in EVERY.items()}
    assert {address for address, permission in permission_names.items() if permission is None} == ADMIN_CHECKS
    assert {
        address for address, permission in permission_names.items() if permission == access.ANYONE
    } == OPEN_TO_ANYONE
    permissions = {f"{row.content_type.app_label}.{row.codename}" for row in Permission.objects.all()}
    assert set(permission_names.values()) <= permissions | {None, access.ANYONE, "agent key"}


@pytest.mark.parametrize(
    ("view", "role", "status"),
    [
        (lambda request: HttpResponse("open"), None, 302), (lambda request: HttpResponse("open"), ADMIN, 403),
        (access.needs()(lambda request: HttpResponse("open")), VIEWER, 200),
        (access.allow_anyone(lambda request: HttpResponse("open")), None, 200),
    ],
)  # fmt: skip
@pytest.mark.django_db
def test_a_page_without_a_guard_is_closed(view: Any, role: str | None, status: int, settings: Any) -> None:
    with_new_page = ModuleType("with_new_page")
    with_new_page.urlpatterns = [django_path("new/", view), *urls.urlpatterns]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = with_new_page
    client = Client() if role is None else somebody(role)
    assert client.get("/new/").status_code == status


def state() -> dict[str, str]:
    """Return the contents of the tables, without last-seen times and heartbeats."""
    gate.drain()
    digests = {}
    with connection.cursor() as cursor:
        for model in apps.get_models():
            if model._meta.label in {"sessions.Session", "toolcards.AuditHead", "toolcards.Pulse"}:
                continue
            unseen = {"last_login", "used_at", "seen_at"}
            columns = ", ".join(f'"{field.column}"' for field in model._meta.local_fields if field.name not in unseen)
            cursor.execute(f"SELECT {columns} FROM {model._meta.db_table} ORDER BY 1")
            digests[model._meta.label] = hashlib.sha256(repr(cursor.fetchall()).encode()).hexdigest()
    return digests


def unlike(before: dict[str, str]) -> list[str]:
    return [name for name, digest in state().items() if before[name] != digest]


# ---------------------------------------------------------------- pages


@pytest.fixture
def furnished(a_call: Any, key: AgentKey, a_person: Any) -> dict[str, str]:
    """Create what the addresses name, so that only an access check can refuse it."""
    call: ToolCall = a_call("approval-requested")
    from toolcards.models import Delivery, Webhook

    webhook = Webhook.objects.create(name="w", url="https://example.com/")
    Delivery.objects.create(
        webhook=webhook, target=str(webhook.pk), event_id="e", event="x", payload="{}", next_at=0, created_at=0,
        state="failed",
    )  # fmt: skip
    return {
        "<path:name>": call.run.name, "<number:run>": str(call.run_id), "<number:ordinal>": "1",
        "<str:part>": "in", "<int:number>": "0", "<str:name>": "guard",
        "<str:public_id>": call.public_id, "<number:pk>": "1", "<number:number>": "1", "<slug:name>": "watch",
        "<slug:slug>": "curl", "<str:rule_id>": "r", "<str:action>": "off", "<str:token>": "x",
        "<str:pk>": Approval.objects.get().pk, "<path:object_id>": "1", "<path:content_type_id>": "1", "<id>": "1",
        "^(?P<app_label>toolcards|auth)/$": "toolcards/", "(?P<url>.*)$": "nowhere",
    }  # fmt: skip


def fill_address(address: str, substitutes: dict[str, str]) -> str:
    for mark, value in substitutes.items():
        address = address.replace(mark, value)
    assert "<" not in address, address
    return f"/{address}"


def somebody(role: str) -> Client:
    """Return a client that is signed in with the role; "" is a person without a role."""
    person = get_user_model().objects.filter(username=f"p-{role}").first()
    if person is None:
        person = roles.create_person(f"p-{role}", role=role) if role else get_user_model().objects.create(username="p-")
    client = Client()
    client.force_login(person)
    return client


def send_request(client: Client, method: str, address: str, substitutes: dict[str, str], **headers: str) -> Any:
    url, json_body = fill_address(address, substitutes), address.startswith("api/")
    if method == "GET":
        return client.get(url, headers=headers)
    kind = "application/json" if json_body else "application/x-www-form-urlencoded"
    return client.generic(method, url, "{}" if json_body else "", content_type=kind, headers=headers)


def turned_away(answer: Any) -> bool:
    to_sign_in = answer.status_code == 302 and answer["Location"].startswith(("/login/", "/admin/login/"))
    return to_sign_in or answer.status_code in (401, 403)


CASES = [
    (address, method, role)
    for address, (get, post) in PAGES.items()
    for method, role in (("GET", get), (OTHER_METHOD.get(address, "POST"), post))
]
ROLES = ("", VIEWER, APPROVER, ADMIN)


@pytest.mark.slow
@pytest.mark.django_db
def test_each_page_admits_exactly_the_roles_of_its_row(furnished: dict[str, str]) -> None:
    clients = {role: somebody(role) for role in ROLES}
    wrong = []
    for address, method, lowest in CASES:
        if lowest == ALL or (
            method != "GET" and lowest != NO and address == "settings/people/<number:pk>/<str:action>/"
        ):
            continue
        before = state()
        outcomes = {None: send_request(Client(), method, address, furnished)}
        barred = ROLES if lowest == NO else ROLES[: ROLES.index(lowest)]
        for role in barred:
            outcomes[role] = send_request(clients[role], method, address, furnished)
        for role, answer in outcomes.items():
            if not (answer.status_code == 405 if lowest == NO else turned_away(answer)):
                wrong.append((address, method, role, answer.status_code))
        if unlike(before):
            wrong.append((address, method, "changed", unlike(before)))
        if lowest != NO and method == "GET" and turned_away(send_request(clients[lowest], method, address, furnished)):
            wrong.append((address, method, lowest, "is kept out"))
    assert wrong == []


@pytest.mark.slow
@pytest.mark.django_db
def test_reading_a_page_changes_nothing(furnished: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for who may do everything, and not for whatever Django's admin adds."""
    root = get_user_model().objects.create_superuser("root", password="a password for tests")
    client = Client()
    client.force_login(root)
    wrong = []
    for address in [*(each for each, (get, _) in PAGES.items() if get != NO and get != ALL), *DJANGOS]:
        before = state()
        answer = send_request(client, "GET", address, furnished)
        if answer.streaming:
            b"".join(answer.streaming_content)
        if unlike(before) != ALLOWED_CHANGES.get(address, []) or answer.status_code >= 500:
            wrong.append((address, answer.status_code, unlike(before)))
    assert wrong == []


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("headers", [{}, {"origin": "https://evil.example"}, {"origin": "null"}], ids=str)
def test_nothing_is_posted_without_its_token_or_from_another_site(
    furnished: dict[str, str], headers: dict[str, str]
) -> None:
    """With an Origin of another site even the right token does not help."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_superuser("root", password="a password for tests"))
    client.get("/")
    token = client.cookies["toolcards_csrf"].value
    all_headers = headers | ({"x-csrftoken": token} if headers else {})
    before, wrong = state(), []
    for address, (_, post) in PAGES.items():
        if post != NO:
            answer = send_request(client, OTHER_METHOD.get(address, "POST"), address, furnished, **all_headers)
            if answer.status_code != 403:
                wrong.append((address, answer.status_code))
    for address in DJANGOS:
        answer = send_request(client, "POST", address, furnished, **all_headers)
        if answer.status_code not in (302, 403, 404, 405):
            wrong.append((address, answer.status_code))
    assert wrong == [] and unlike(before) == []


@pytest.mark.slow
@pytest.mark.django_db
def test_no_page_answers_to_another_host_or_to_an_agents_key(furnished: dict[str, str], secret: str) -> None:
    admin, wrong = somebody(ADMIN), []
    before = state()
    for address, (get, post) in PAGES.items():
        for method, lowest in (("GET", get), (OTHER_METHOD.get(address, "POST"), post)):
            if lowest == NO:
                continue
            answer = send_request(admin, method, address, furnished, host="evil.example")
            if answer.status_code != 400:
                wrong.append((address, method, "host", answer.status_code))
            answer = send_request(Client(), method, address, furnished, authorization=f"Bearer {secret}")
            if lowest != ALL and not turned_away(answer):
                wrong.append((address, method, "key", answer.status_code))
    assert wrong == [] and unlike(before) == []


@pytest.mark.slow
@pytest.mark.django_db
def test_the_django_admin_admits_only_admins(furnished: dict[str, str]) -> None:
    clients = {None: Client(), **{role: somebody(role) for role in ("", VIEWER, APPROVER)}}
    before, wrong = state(), []
    ours = {"admin/login/", "admin/logout/", "admin/password_change/"}  # they lead to pages of our own
    for address in set(DJANGOS) - ours:
        for role, client in clients.items():
            for method in ("GET", "POST"):
                answer = send_request(client, method, address, furnished)
                if not (turned_away(answer) or answer.status_code in (404, 405)):
                    wrong.append((address, role, method, answer.status_code))
    assert wrong == [] and unlike(before) == []


# ---------------------------------------------------------------- machines

SUBSTITUTES = {"<run>": "run-1", "<call_id>": "call-1", "<upstream>": "planner", "<permit>": "none"}
pages_are_async = pytest.mark.django_db(transaction=True)


@pytest.fixture
def wire(call: Any, a_call: Any, limits: Any) -> Callable[..., Any]:
    """Give `await wire(address, method=…, key=…)`: the status of one request of a machine."""
    limits(agui_upstreams=("planner=http://127.0.0.1:9/",))
    a_call("approval-requested")
    substitutes = SUBSTITUTES | {"<approval>": Approval.objects.get().pk}

    async def ask(address: str, method: str = "", key: str | None = None, query: str = "", **headers: str) -> int:
        url = (
            fill_address(address, substitutes)
            + ("?protocol=native&run=run-2" if address.endswith("ingest") else "")
            + query
        )
        kind = "application/x-ndjson" if address.endswith("ingest") else "application/json"
        method = method or MACHINES[address][0]
        body = None if method == "GET" else BODIES.get(address, {})
        status, _, _ = await call(method, url, body, key=key, content_type=kind, **headers)
        return int(status)

    return ask


@pytest.fixture
def call(secret: str) -> Any:
    """One request against the real application: status, JSON and headers."""
    from channels.testing import HttpCommunicator

    from dashboard.asgi import application

    async def request(
        method: str, path: str, body: Any = None, *, key: str | None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        by_name = {"host": "127.0.0.1"} | {name.replace("_", "-"): value for name, value in headers.items()}
        by_name |= {"authorization": f"Bearer {key}"} if key else {}
        raw = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        header_list = [(name.encode(), value.encode()) for name, value in by_name.items()]
        answer = await HttpCommunicator(application, method, path, raw, header_list).get_response(timeout=PATIENCE)
        return answer["status"], answer["body"], {}

    return request


async def with_scopes(*scopes: str) -> str:
    """The secret of a key of the same source that has only these."""
    _, rows = await in_thread(lambda: AgentKey.objects.issue("an agent", scopes))()
    return str(rows)


@pages_are_async
async def test_a_request_without_an_active_key_is_refused(wire: Any, secret: str) -> None:
    revoked, expired = await with_scopes(*SCOPES), await with_scopes(*SCOPES)
    rows = AgentKey.objects.filter(digest=gate_digest(revoked))
    await in_thread(lambda: rows.update(revoked_at="2026-01-01T00:00:00Z"))()
    expired_keys = AgentKey.objects.filter(digest=gate_digest(expired))
    await in_thread(lambda: expired_keys.update(expires_at="2020-01-01T00:00:00Z"))()
    before, wrong = await in_thread(state)(), []
    for address in MACHINES.keys() - OPEN:
        for key in (None, "", "tck_wrong", secret.upper(), secret[:-1], revoked, expired):
            auth.clear_cache()
            if (status := await wire(address, key=key)) != 401:
                wrong.append((address, key, status))
        for header in (f"Basic {secret}", secret, f"Token {secret}", "Bearer", f"Bearer {secret} more"):
            if (status := await wire(address, authorization=header)) != 401:
                wrong.append((address, header, status))
        if (status := await wire(address, query=f"{'&' if 'ingest' in address else '?'}key={secret}")) != 401:
            wrong.append((address, "in the URL", status))
    assert wrong == [] and await in_thread(unlike)(before) == []


def gate_digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@pages_are_async
async def test_a_key_opens_what_its_scopes_say_and_nothing_else(wire: Any) -> None:
    wrong = []
    for scope in SCOPES:
        key = await with_scopes(scope)
        for address in MACHINES.keys() - OPEN:
            method, opens = MACHINES[address]
            if scope in opens and address.endswith(("/events", "decide")) and method == "GET":
                continue
            before = await in_thread(state)()
            status = await wire(address, key=key)
            if (status != 403) != (scope in opens) or status >= 500 and "ag-ui" not in address:
                wrong.append((address, scope, status))
            if scope not in opens and (changed := await in_thread(unlike)(before)):
                wrong.append((address, scope, changed))
    assert wrong == []


@pages_are_async
async def test_only_the_method_of_its_row_is_answered(wire: Any, secret: str) -> None:
    before, wrong = await in_thread(state)(), []
    for address, (right, _) in MACHINES.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - {right}:
            if (status := await wire(address, method=method, key=secret)) != 405:
                wrong.append((address, method, status))
    assert wrong == [] and await in_thread(unlike)(before) == []


@pages_are_async
async def test_what_belongs_to_another_source_is_not_there(call: Any, a_call: Any, policy: Any, source: Source) -> None:
    asked_row = await in_thread(a_call)("approval-requested")
    approval = await Approval.objects.aget()
    allowed = await in_thread(policy)({"default": "allow"}) and await in_thread(gate.decide)(
        source, gate.DecisionRequest(run="run-1", call_id="call-2", tool="bash", args={})
    )
    _, other = await in_thread(lambda: AgentKey.objects.issue("another agent"))()
    before = await in_thread(state)()
    for method, path, body in (
        ("GET", "/api/v1/runs/run-1", None), ("GET", "/api/v1/runs/run-1/calls", None),
        ("GET", "/api/v1/runs/run-1/events", None), ("POST", "/api/v1/runs/run-1/beat", {}),
        ("POST", "/api/v1/runs/run-1/end", {}), ("GET", f"/api/v1/approvals/{approval.pk}", None),
        ("POST", f"/api/v1/approvals/{approval.pk}/withdraw", {}),
        ("POST", f"/api/v1/permits/{allowed['permit']['id']}/claim",
         {"call_id": "call-2", "args_sha256": allowed["args_sha256"]}),
        ("POST", "/api/v1/calls/call-2/result", {"run": "run-1", "outcome": "ok"}),
        ("GET", "/api/v1/ag-ui/planner/resume?run=run-1", None),
    ):  # fmt: skip
        status, _, _ = await call(method, path, body, key=other, content_type="application/json")
        assert status == 404, (method, path, status)
    for path in ("/api/v1/runs", "/api/v1/approvals"):
        _, answer, _ = await call("GET", path, key=other)
        assert b"run-1" not in answer and str(asked_row.pk) is not None
    assert await in_thread(unlike)(before) == []


@pages_are_async
async def test_a_persons_session_reads_and_does_nothing_of_an_agents(wire: Any) -> None:
    cookies = {role: (await in_thread(somebody)(role)).cookies["toolcards_session"].value for role in ROLES}
    before, wrong = await in_thread(state)(), []
    for address in MACHINES.keys() - OPEN:
        if address.endswith("/events"):
            continue
        for role, cookie in cookies.items():
            status = await wire(address, cookie=f"toolcards_session={cookie}")
            expected = (200 if role else 403) if address in READ_BY_PEOPLE else 401
            if status != expected:
                wrong.append((address, role, status))
    assert wrong == [] and await in_thread(unlike)(before) == []


# ---------------------------------------------------------------- sockets


async def closed_with(path: str, **headers: str) -> int | None:
    """The code that the socket is closed with at once; None where it stays open."""
    from dashboard.asgi import application

    fields = {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"} | headers
    header_list = [(name.encode(), value.encode()) for name, value in fields.items() if value]
    wire = WebsocketCommunicator(application, path, headers=header_list)
    connected, code = await wire.connect(timeout=PATIENCE)
    if not connected:
        return int(code or 0)
    try:
        message = await wire.receive_output(PATIENCE)
        while message["type"] == "websocket.send" and "error" in message.get("text", "")[:20]:
            message = await wire.receive_output(PATIENCE)
        return int(message["code"]) if message["type"] == "websocket.close" else None
    finally:
        await wire.disconnect(timeout=PATIENCE)


@pages_are_async
async def test_a_browsers_socket_is_for_our_own_pages_and_people_with_a_role(a_call: Any, secret: str) -> None:
    await in_thread(a_call)("approval-requested")
    cookies = {role: (await in_thread(somebody)(role)).cookies["toolcards_session"].value for role in ("", VIEWER)}
    for path in SOCKETS.values():
        assert await closed_with(path, cookie=f"toolcards_session={cookies[VIEWER]}") is None
        assert await closed_with(path) == 4401
        assert await closed_with(path, cookie=f"toolcards_session={cookies['']}") == 4403
        assert await closed_with(path, authorization=f"Bearer {secret}") == 4401
        for foreign in ({"origin": "https://evil.example"}, {"origin": ""}, {"host": "evil.example"}):
            code = await closed_with(path, cookie=f"toolcards_session={cookies[VIEWER]}", **foreign)
            assert code in (4403, 403), (path, foreign, code)


@pages_are_async
async def test_an_agents_socket_is_for_keys_that_may_ingest(a_person: Any, secret: str) -> None:
    path = "/ws/agent/?protocol=native&run=r"
    viewer = (await in_thread(somebody)(VIEWER)).cookies["toolcards_session"].value
    for headers in ({}, {"authorization": "Bearer tck_wrong"}, {"cookie": f"toolcards_session={viewer}"}):
        assert await closed_with(path, origin="", **headers) == 4401
    assert await closed_with(f"{path}&key={secret}", origin="") == 4401
    for scope in set(SCOPES) - {"ingest"}:
        assert await closed_with(path, origin="", authorization=f"Bearer {await with_scopes(scope)}") == 4403


QUERIES = ["version", "before", "around", "after", "call", "from", "limit", "cursor", "wait", "days", "page", "id"]


@pytest.mark.thorough
@pytest.mark.django_db
@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_no_page_breaks_on_an_odd_number(a_person: Any, client: Client, a_call: Any, text: str) -> None:
    client.force_login(a_person("admin", "ada"))
    call: ToolCall = a_call("approval-requested")
    for address in sorted(READ_BY_PEOPLE | {page for page, (reader_role, _) in PAGES.items() if reader_role != NO}):
        path = "/" + address.replace("<path:name>", call.run.name)
        path = re.sub("<[^>]+>", lambda _: quote(text), path)
        assert client.get(path, dict.fromkeys(QUERIES, text)).status_code < 500, path
