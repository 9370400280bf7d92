"""Views for machines without Django's middleware: waiting requests hold no thread, and paths are matched undecoded.

Views are async Django views made by `endpoint`; `urls` mounts the same ones for Django's own handler. Here they get a
`MachineRequest`, which parses only what a view reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost, SynchronousOnlyOperation, TooManyFieldsSent
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, QueryDict, StreamingHttpResponse, parse_cookie
from django.views.decorators.csrf import csrf_exempt

from toolcards.adapters import BadFrame
from toolcards.gate import RequestRefused
from toolcards.transports.api import auth
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import (
    Problem,
    build_not_found,
    convert_bad_frame,
    convert_outage,
    convert_refusal,
)
from toolcards.transports.api.asgi_messages import (
    BodyTooLarge,
    build_error_response,
    build_response,
    decode_path_part,
    parse_parameters,
    read_body,
    respond,
    respond_early,
    send_json,
)
from toolcards.transports.api.origins import is_allowed_host

log = logging.getLogger(__name__)
View = Callable[..., Awaitable[Any]]
WATCH_DELAY = 0.03  # seconds that a view runs before a disconnect of its client cancels it


def endpoint(method: str, *scopes: str, people: bool = False, anybody: bool = False) -> Callable[[View], View]:
    """Make a view of a function that takes `(request, caller, **path_parts)`.

    The function returns JSON or a response; errors are answered as JSON. `view.check_head` checks the method and key
    from the head of the request; a view calls it itself if that was not done. `view.reads`: whether it takes a body.
    `view.answer` returns the JSON without a response around it.
    """

    def decorate(function: View) -> View:
        @csrf_exempt
        @functools.wraps(function)
        async def view(request: Any, **path_parts: str) -> HttpResponse | StreamingHttpResponse:
            content = await answer(request, **path_parts)
            return content if isinstance(content, (HttpResponse, StreamingHttpResponse)) else build_response(content)

        async def answer(request: Any, **path_parts: str) -> Any:
            try:
                if not hasattr(request, "caller"):
                    await check_head(request)
                caller = request.caller
                if "\0" in "".join(path_parts.values()):
                    raise build_not_found()
                if request.GET and any("\0" in text for values in request.GET.lists() for text in values[1]):
                    raise Problem(400, "bad_query", "Query values must not contain NUL.")
                auth.charge_request(caller, request)
                return await function(request, caller, **path_parts)
            except Problem as problem:
                return _build_refusal(view, request, problem, denies=isinstance(problem, auth.QuotaExceeded))
            except RequestRefused as refused:
                return build_error_response(convert_refusal(refused))
            except BadFrame as bad:
                return build_error_response(convert_bad_frame(bad))
            except Exception as error:
                if (outage := convert_outage(error)) is None:
                    raise
                return _build_refusal(view, request, outage, denies=True)

        async def check_head(request: Any) -> None:
            if request.method != method and (request.method, method) != ("HEAD", "GET"):
                raise Problem(405, "method_not_allowed", f"Use {method}.", headers={"Allow": method})
            request.caller = None
            if anybody:
                return
            if people:
                request.caller = await auth.authenticate_reader(request, *scopes)
            else:
                request.caller = await auth.authenticate_agent(request.headers.get("Authorization", ""), *scopes)
            admit(request.scope if hasattr(request, "scope") else None)

        view.method, view.scopes, view.people = method, scopes, people  # type: ignore[attr-defined]  # for docs
        view.permission = "anyone" if anybody else "agent key"  # type: ignore[attr-defined]
        view.answer = answer  # type: ignore[attr-defined]
        view.check_head, view.reads = check_head, method != "GET"  # type: ignore[attr-defined]
        return view

    return decorate


def _build_refusal(view: Any, request: Any, problem: Problem, *, denies: bool) -> HttpResponse:
    """Return the error; `denies`: as a denial of the call if the view has one, because after an error it would run."""
    unavailable = getattr(view, "unavailable", None) if denies else None
    response: HttpResponse = unavailable(request, problem) if unavailable else build_error_response(problem)
    return response


class DirectView:
    """An ASGI application around one view. A disconnect cancels a view that waits."""

    def __init__(self, view: View) -> None:
        self.view: Any = view
        self._keeps_beginning = hasattr(view, "too_large")

    async def __call__(self, scope: Any, receive: Any, send: Any, path_parts: dict[str, str]) -> None:
        """Answer one request; `path_parts` are percent-encoded."""
        request = MachineRequest(scope)
        try:
            await self._check(request)
            arguments = {name: decode_path_part(part) for name, part in path_parts.items()}
            if self.view.reads:
                request.body = await read_body(scope, receive, begin=self._keeps_beginning)
        except Problem as problem:
            response = await self._build_too_large_response(scope, problem) or build_error_response(problem)
            await respond_early(scope, receive, send, response)
            return
        watch = _DisconnectWatch(receive)
        try:
            await self._run_view(request, send, arguments)
        except asyncio.CancelledError:
            if not watch.has_canceled_view():
                raise
        finally:
            watch.stop()

    async def _check(self, request: MachineRequest) -> None:
        """Check host, query, method and key from the head of the request; raises Problem."""
        try:
            request.check_host()
            if request.scope.get("query_string"):
                request.check_query()
            await self.view.check_head(request)
        except Problem:
            raise
        except Exception as error:
            problem = _build_internal_problem(request, error)
            if problem.status == 503 and hasattr(self.view, "unavailable"):
                return  # its answer depends on the body; the view checks the head again
            raise problem from None

    async def _build_too_large_response(self, scope: Any, problem: Problem) -> HttpResponse | None:
        """Return what the view itself answers to a body that is too large, knowing the beginning of it."""
        if not self._keeps_beginning or not isinstance(problem, BodyTooLarge):
            return None
        response: HttpResponse | None = await self.view.too_large(MachineRequest(scope, problem.beginning), problem)
        return response

    async def _run_view(self, request: MachineRequest, send: Any, arguments: dict[str, str]) -> None:
        try:
            content = await self.view.answer(request, **arguments)
        except Exception as error:
            content = build_error_response(_build_internal_problem(request, error))
        try:
            if isinstance(content, (HttpResponse, StreamingHttpResponse)):
                await respond(send, content)
            else:
                await send_json(request.scope, send, content)
        except Exception as error:  # the client is gone
            log.debug("not sent: %s", error)
        finally:
            if isinstance(content, StreamingHttpResponse):  # its pieces may never have been asked for
                with contextlib.suppress(SynchronousOnlyOperation):  # from Django's handlers of `request_finished`
                    content.close()


class _DisconnectWatch:
    """Cancels the current task when the client disconnects. Short requests end before the watch begins."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._view = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._is_canceled = False
        self._timer = asyncio.get_running_loop().call_later(WATCH_DELAY, self._start)

    def _start(self) -> None:
        self._watching = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        assert self._view is not None
        self._is_canceled = True
        self._view.cancel()

    def has_canceled_view(self) -> bool:
        """Return whether only the disconnect canceled the view."""
        assert self._view is not None
        return self._is_canceled and self._view.uncancel() == 0

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()


def _build_internal_problem(request: Any, error: Exception) -> Problem:
    if (outage := convert_outage(error)) is not None:
        return outage
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return Problem(500, "internal", "Internal error. See the server's log.")


# ---------------------------------------------------------------- the request

_NO_QUERY = QueryDict("", mutable=False)
_LOCAL_HOSTS = (".localhost", "127.0.0.1", "[::1]")  # allowed by Django in debug mode


class MachineHeaders:
    """The headers of a request, by name in any case. A repeated header is joined by commas, as in Django."""

    def __init__(self, scope: Any) -> None:
        self._values: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in self._values:
                value = self._values[name] + (b"; " if name == b"cookie" else b",") + value
            self._values[name] = value

    def get(self, name: str, default: str = "") -> str:
        """Return the value of a header."""
        value = self._values.get(name.lower().encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def items(self) -> list[tuple[str, str]]:
        """Return all names, in lower case, with their values."""
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._values.items()]


class MachineRequest:
    """One HTTP request. `caller` is set once its key is checked, `body` once it is read."""

    caller: Any
    session: Any

    def __init__(self, scope: Any, body: bytes = b"") -> None:
        self.scope, self.body = scope, body
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = MachineHeaders(scope)

    @cached_property
    def GET(self) -> QueryDict:
        """Return the query string, parsed."""
        query = self.scope.get("query_string", b"")
        return QueryDict(query, mutable=False) if query else _NO_QUERY

    @cached_property
    def COOKIES(self) -> dict[str, str]:
        """Return the values of the header `Cookie` by name."""
        return parse_cookie(self.headers.get("cookie"))

    @property
    def META(self) -> dict[str, Any]:
        """Return the peer's address and port under their WSGI names."""
        address, port = self.scope.get("client") or ("", None)
        return {"REMOTE_ADDR": address, "REMOTE_PORT": port}

    def check_host(self) -> None:
        """Raise Problem 400 unless the request names a host of this server."""
        host = self.headers.get("host")
        if not is_allowed_host(host, tuple(settings.ALLOWED_HOSTS) or (_LOCAL_HOSTS if settings.DEBUG else ())):
            try:
                ASGIRequest(self.scope, BytesIO()).get_host()  # also knows requests without a host
            except DisallowedHost:
                raise Problem(400, "bad_host", "This host name is not served here.") from None

    def check_query(self) -> None:
        """Raise Problem 400 for a query that cannot be read."""
        parse_parameters(self.scope.get("query_string", b""))
        try:
            self.GET  # noqa: B018 - parsed here, kept for the view
        except TooManyFieldsSent:
            raise Problem(400, "bad_query", "The query has too many parameters.") from None
