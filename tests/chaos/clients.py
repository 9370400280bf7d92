"""Clients of one server that speak HTTP: an agent with its key, and a person with a session."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support.server import KEY, Server

CONNECTION_ERRORS = (OSError, http.client.HTTPException)
"""No answer came: the connection broke, or could not be opened."""


class Http:
    """One connection that is kept and opened again, used by one thread."""

    def __init__(self, server: Server, timeout: float = 75.0) -> None:
        self.server, self.timeout = server, timeout
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request once; returns status and JSON (or text); raises one of LOST."""
        all_headers = self._headers() | {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, dict):
            body = json.dumps(body)
            all_headers.setdefault("Content-Type", "application/json")
        if self._connection is None:
            self._connection = http.client.HTTPConnection(urlsplit(self.server.base).netloc, timeout=self.timeout)
        try:
            self._connection.request(method, path, body, all_headers, encode_chunked=hasattr(body, "__next__"))
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except CONNECTION_ERRORS:
            self.close()
            raise
        self._note(answer)
        return answer.status, json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {KEY}"}

    def _note(self, answer: http.client.HTTPResponse) -> None:
        """Keep what an answer's headers say; an agent keeps nothing."""


class Person(Http):
    """An admin who is signed in, and reads the API and votes by form."""

    def __init__(self, server: Server, timeout: float = 20.0) -> None:
        super().__init__(server, timeout)
        self._cookies: dict[str, str] = {}
        self._token = ""

    @property
    def signed_in(self) -> bool:
        """Whether there is a session to vote with."""
        return bool(self._token)

    def sign_in(self) -> None:
        """Sign in by the form."""
        token = self._token_of("/login/")
        status, _ = self._post("/login/", token, username="admin", password=self.server.password)
        if status not in (302, 303):
            raise http.client.HTTPException(f"signing in is answered {status}")
        self._token = self._token_of("/approvals/")

    def waiting(self) -> list[dict[str, Any]]:
        """Return the approvals that wait; raises one of LOST where they cannot be read."""
        status, result = self.send("GET", "/api/v1/approvals?state=waiting&limit=50")
        if status != 200:
            raise http.client.HTTPException(f"approvals are answered {status}")
        return list(result["approvals"])

    def vote(self, approval: dict[str, Any], answer: str) -> int:
        """Answer the approval; returns the status."""
        fields = {"decision": answer, "rev": str(approval["call"]["rev"]), "args_sha256": approval["args_sha256"]}
        return self._post(f"/approvals/{approval['id']}/vote", self._token, reason="a reason", **fields)[0]

    def _post(self, path: str, token: str, **fields: str) -> tuple[int, Any]:
        form = {"Content_Type": "application/x-www-form-urlencoded", "HX_Request": "true"}
        body = urlencode(fields | {"csrfmiddlewaretoken": token})
        return self.send("POST", path, body, Referer=self.server.base + path, **form)

    def _token_of(self, page: str) -> str:
        status, text = self.send("GET", page)
        match = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', str(text))
        if status != 200 or not match:
            raise http.client.HTTPException(f"{page} is answered {status}")
        return match[1]

    def _headers(self) -> dict[str, str]:
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}

    def _note(self, answer: http.client.HTTPResponse) -> None:
        for line in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            self._cookies[name] = value
