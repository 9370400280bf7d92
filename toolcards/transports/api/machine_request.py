"""The request of a machine, with the attributes of Django's that views of the API read, each parsed on first use."""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import QueryDict, parse_cookie

from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.origins import is_allowed_host

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
        """The parameters of the query."""
        query = self.scope.get("query_string", b"")
        return QueryDict(query, mutable=False) if query else _NO_QUERY

    @cached_property
    def COOKIES(self) -> dict[str, str]:
        """The cookies."""
        return parse_cookie(self.headers.get("cookie"))

    @property
    def META(self) -> dict[str, Any]:
        """The address of the peer."""
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
