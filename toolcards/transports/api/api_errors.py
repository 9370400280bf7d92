"""Errors of the API: a status and `{"error": {"code", "message", "detail"?}}`."""

from __future__ import annotations

from typing import Any

from toolcards.adapters import BadFrame
from toolcards.database import RETRY_AFTER, report_outage
from toolcards.gate import CommitUnknown, RequestRefused
from toolcards.transports.shutdown import MESSAGE

CLOSE_TRY_AGAIN = 1013  # the close code "try again later"
MAYBE_WRITTEN = "The connection to the database was lost during the write. Send the same request again."
LIMIT_CODES = frozenset({"too_large", "too_deep"})


class Problem(Exception):
    """An error answer, raised anywhere in a transport and sent at its edge. `close` is the WebSocket close code."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        close: int = 4400,
        headers: dict[str, str] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.close = status, code, message, close
        self.headers = headers or {}
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["detail"] = self.details
        return {"error": error}


def convert_refusal(refusal: RequestRefused) -> Problem:
    """Return the gate's refusal as a problem."""
    details = dict(refusal.details)
    detail = details.pop("detail", None)
    details |= detail if isinstance(detail, dict) else {}
    headers = {"Retry-After": str(RETRY_AFTER)} if refusal.status == 429 else {}
    return Problem(refusal.status, refusal.code, refusal.message, headers=headers, **details)


def convert_bad_frame(error: BadFrame) -> Problem:
    """Convert a bad frame to a problem.

    413 above a limit, 500 after a fault of ours, else 400.
    """
    status = 500 if error.code == "internal" else 413 if error.code in LIMIT_CODES else 400
    return Problem(status, error.code, error.message)


def convert_outage(error: Exception) -> Problem | None:
    """Return a 503 for an unavailable database; None for other errors.

    The outage is recorded.
    """
    if not report_outage(error):
        return None
    unknown = isinstance(error, CommitUnknown)  # a request with its own ids is applied once, even if it is sent again
    message = MAYBE_WRITTEN if unknown else "The database is not available right now. Send the request again."
    return Problem(503, "unavailable", message, close=CLOSE_TRY_AGAIN, headers={"Retry-After": str(RETRY_AFTER)})


def build_not_found() -> Problem:
    """Return the 404 for missing things and for those of other sources."""
    return Problem(404, "not_found", "Not found, or you do not have access.")


def build_restarting() -> Problem:
    """Return the 503 for a request that the shutdown interrupts."""
    return Problem(503, "restarting", MESSAGE, headers={"Retry-After": "1"})
