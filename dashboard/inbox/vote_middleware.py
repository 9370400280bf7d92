"""Votes of pages, answered on the event loop; whatever is not a plain vote that counts is passed on to the pages.

A page request runs Django's middleware and a view in a thread, which costs five times what the vote itself does. What
these check is checked here as well: the host, the CSRF token and origin by Django's own code, the session, the person
and the permission by the gate, in the transaction of the vote. If anything fails, the vote has changed nothing, and the
pages get the same request, to refuse it in their words.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.cache import patch_vary_headers
from django.utils.module_loading import import_string

from dashboard.accounts.access import find_csrf_fault
from dashboard.accounts.sessions import SessionStore, find_person
from dashboard.accounts.sign_in_log import find_sign_in_time
from dashboard.inbox import views
from dashboard.middleware import unavailable
from dashboard.serving.bodies import SMALL
from toolcards import gate
from toolcards.core.calls.card_codec import measure_card
from toolcards.database import report_outage
from toolcards.gate import Ballot
from toolcards.models import ToolCall
from toolcards.transports.api.admission import admit
from toolcards.transports.api.asgi_messages import get_announced_length, respond

log = logging.getLogger(__name__)
_PATH = re.compile(r"/approvals/([^/\0]+)/vote")
LARGE_CARD = 20_000  # characters of a card's JSON; larger cards are not drawn on the event loop
# Those that add something to the answer of a vote. A test compares it with the answer of the pages.
_MIDDLEWARE = (
    "dashboard.middleware.SecurityHeaders",
    "django.middleware.security.SecurityMiddleware",
    "dashboard.middleware.WholeResponseCompression",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
)
# What a plain vote may have: values by pattern, and texts with their longest length.
_TEXTS = {"reason": 2_000, "note": 2_000, "client_decision_id": 100}
_PATTERNS = {
    "decision": re.compile(r"approve|deny"),
    "rev": re.compile(r"[0-9]{1,9}"),
    "args_sha256": re.compile(r"[0-9a-f]{0,64}"),
    "view_sha256": re.compile(r"[0-9a-f]{0,64}"),
    "always": re.compile(""),
    "always_deny": re.compile(""),
    "grant": re.compile(""),
    "grant_minutes": re.compile(""),
}
_REQUIRED = ("decision", "rev")


class VoteMiddleware:
    """ASGI middleware in front of the pages."""

    def __init__(self, pages: Any) -> None:
        self.pages = pages
        self._finish = _build_middleware()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a plain vote that counts; pass everything else on."""
        match = _PATH.fullmatch(scope["path"]) if _is_plain(scope) else None
        if match is None:
            await self.pages(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            return
        response = await self._answer(ASGIRequest(scope, BytesIO(body)), match[1], body)
        if response is None:
            await self.pages(scope, _Replay(body, receive), send)
        else:
            await respond(send, response)

    async def _answer(self, request: ASGIRequest, approval: str, body: bytes) -> HttpResponse | None:
        """Return the answer to a vote that counts; None for what the pages must answer."""
        try:
            session, ballot = _read_request(request, approval, body)
            if ballot is None:
                return None
            voted_call = await gate.avote(session, lambda: _find_voter(session), ballot)
            admit(request.scope)
            html = await _render_card(request, voted_call)
        except gate.RequestRefused:
            return None
        except Exception as error:
            if report_outage(error):
                return self._finish(request, unavailable(request))
            log.debug("a vote is handed over to the pages", exc_info=error)
            return None
        response = HttpResponse(html)
        patch_vary_headers(response, ("Cookie",))  # as for any page that reads the session
        return self._finish(request, response)


def _is_plain(scope: Any) -> bool:
    """Return whether it is a POST to a bare address, whose head limits the body to what needs no session."""
    if scope["method"] != "POST" or scope.get("root_path") or scope["query_string"]:
        return False
    return b"transfer-encoding" not in dict(scope["headers"]) and 0 < get_announced_length(scope) <= SMALL


def _read_request(request: ASGIRequest, approval: str, body: bytes) -> tuple[str, gate.Ballot | None]:
    """Return the key of the session, and the ballot if the request is a plain vote of a page."""
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    is_form = request.content_type == "application/x-www-form-urlencoded"
    is_utf8 = (request.content_params or {}).get("charset", "utf-8").lower() == "utf-8"
    has_nul = b"\0" in body or b"%00" in body
    if not session or not is_form or not is_utf8 or has_nul or not views.is_htmx_request(request):
        return "", None
    request.get_host()  # raises DisallowedHost
    return session, None if find_csrf_fault(request) else read_plain_ballot(approval, request.POST)


def read_plain_ballot(approval: str, fields: QueryDict) -> Ballot | None:
    """Return the ballot of a form that approves or denies, without more.

    None for all others, which BallotForm reads. A ballot equals the one that BallotForm would return.
    """
    if "\0" in "".join(map(str, fields.values())):
        return None
    values = {}
    for name, pattern in _PATTERNS.items():
        value = fields.get(name, "" if name not in _REQUIRED else "-")
        if pattern.fullmatch(value) is None:
            return None
        values[name] = value
    for name, longest in _TEXTS.items():
        values[name] = fields.get(name, "").strip()
        if len(values[name]) > longest:
            return None
    return Ballot(
        approval, values["decision"], int(values["rev"]), values["args_sha256"], values["view_sha256"],
        values["reason"], values["note"], values["client_decision_id"],
    )  # fmt: skip


def _find_voter(key: str) -> gate.Voter | None:
    """Return whose session it is; runs in the transaction of the vote."""
    session = SessionStore(key)
    person = find_person(session)
    return None if person is None else gate.Voter(person, find_sign_in_time(session, person))


async def _render_card(request: HttpRequest, voted_call: gate.VotedCall) -> str:
    """Return the fresh card; a large one is drawn in a thread."""
    call = ToolCall.from_card(voted_call.run, voted_call.pk, voted_call.card)
    if measure_card(voted_call.card) > LARGE_CARD:
        return await sync_to_async(views.render_fresh_html, thread_sensitive=False)(request, call)
    return views.render_fresh_html(request, call)


def _build_middleware() -> Callable[[HttpRequest, HttpResponse], HttpResponse]:
    """Return a function that passes a response through the middleware which adds to it."""
    get_response: Callable[[Any], Any] = lambda request: request.vote_response  # noqa: E731
    for path in reversed([path for path in settings.MIDDLEWARE if path in _MIDDLEWARE]):
        get_response = import_string(path)(get_response)

    def finish(request: Any, response: HttpResponse) -> HttpResponse:
        request.vote_response = response
        finished_response: HttpResponse = get_response(request)
        return finished_response

    return finish


async def _read_body(receive: Any) -> bytes | None:
    """Return the body, whose length is limited by its head; None if the client disconnects."""
    pieces: list[bytes] = []
    while (message := await receive())["type"] == "http.request":
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)
    return None


class _Replay:
    """Receives the body that was read, then what follows."""

    def __init__(self, body: bytes, receive: Any) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Any:
        """Return the next message."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
