"""The server as a person's terminal sees it: the calls that wait, and answers to them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from toolcards.client.transport.http_client import HttpClient, Unreachable
from toolcards.terminal.waiting_calls import WaitingCall

__all__ = ["ApprovalsClient", "RequestFailed"]

SECONDS = 15.0  # that a request may take
PAGE = 200


class RequestFailed(Exception):
    """The server refused a request, or cannot be reached; the message is for the person."""


class ApprovalsClient:
    """One server, reached with one person's token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._http = HttpClient(self.url, {"Authorization": f"Bearer {token}"}, keep_alive=True)

    def list_waiting(self) -> list[WaitingCall]:
        """Return the calls that wait for a person, oldest first."""
        answer = self._request("GET", f"/api/v1/approvals?state=waiting&limit={PAGE}")
        return [WaitingCall.parse(entry) for entry in answer["approvals"]]

    def vote(self, question: WaitingCall, decision: str, **fields: Any) -> dict[str, Any]:
        """Answer the question as it was shown; return the approval."""
        body = {"decision": decision, **question.ballot, **fields}
        return self._request("POST", f"/api/v1/approvals/{quote(question.id, safe='')}/vote", body)

    def undo(self, approval: str) -> dict[str, Any]:
        """Revoke an approval that the agent has not received."""
        return self._request("POST", f"/api/v1/approvals/{quote(approval, safe='')}/undo", {})

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            return self._http.request(method, path, data, SECONDS)
        except Unreachable as error:
            raise RequestFailed(str(error) if error.status else f"{self.url} cannot be reached: {error}") from error
