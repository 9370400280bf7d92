"""A person who answers approvals by form, like a browser without scripts."""

from __future__ import annotations

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.server import PATIENCE, Server, until


class Voter:
    """A person signed in as admin."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._jar = http.cookiejar.CookieJar()
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))
        status, page = self.post("/login/", username="admin", password=server.password, page="/login/")
        assert status == 200 and "csrfmiddlewaretoken" in page, page[:500]

    def get(self, path: str) -> str:
        with self._browser.open(self.server.base + path, timeout=2 * PATIENCE) as answer:
            return str(answer.read().decode())

    @property
    def cookies(self) -> str:
        """The header of this browser's cookies."""
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._jar)

    def watch(self, path: str) -> ClientConnection:
        """Open a page's socket, as the page does."""
        url = self.server.base.replace("http", "ws", 1) + path
        headers = {"Cookie": self.cookies, "Origin": self.server.base}
        return connect(url, additional_headers=headers, max_size=None, compression=None, open_timeout=PATIENCE)

    def read_refusal(self, path: str) -> tuple[int, str]:
        """Return the status and the page of a refused address."""
        try:
            return 200, self.get(path)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, path: str, *, page: str, **fields: str) -> tuple[int, str]:
        """Send a form with the CSRF token of that page; follows redirects as a browser does."""
        match = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.get(page))
        assert match, f"no form on {page}"
        body = urllib.parse.urlencode(fields | {"csrfmiddlewaretoken": match[1]}).encode()
        request = urllib.request.Request(self.server.base + path, body, {"Referer": self.server.base + page})
        try:
            with self._browser.open(request, timeout=2 * PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def prepare_vote(self, path: str, fields: dict[str, str]) -> Callable[[], None]:
        """Read the token of the inbox; return what sends the vote as the page's script does."""
        match = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.get("/approvals/"))
        assert match
        body = urllib.parse.urlencode(fields | {"csrfmiddlewaretoken": match[1]}).encode()
        headers = {"Referer": f"{self.server.base}/approvals/", "HX-Request": "true"}
        request = urllib.request.Request(self.server.base + path, body, headers)

        def send() -> None:
            with self._browser.open(request, timeout=2 * PATIENCE) as answer:
                assert answer.status == 200

        return send

    def waiting(self, run: str) -> dict[str, Any]:
        """Return the run's waiting call, as soon as there is one."""

        def look() -> Any:
            status, listing, _ = self.server.request("GET", f"/api/v1/runs/{run}/calls")
            result = listing.get("calls", []) if status == 200 else []
            return next((call for call in result if call["state"] == "approval-requested"), None)

        call: dict[str, Any] = until(look)
        return call

    def vote(self, run: str, decision: str, reason: str = "") -> None:
        """Answer the run's waiting call."""
        call = self.waiting(run)
        fields = {"rev": str(call["rev"]), "args_sha256": call["approval"]["args_sha256"], "reason": reason}
        path = f"/approvals/{call['approval']['id']}/vote"
        status, page = self.post(path, page="/approvals/", decision=decision, **fields)
        assert status == 200, page[:1000]
