"""What machines are told when the answer is no: a status and `{"error": {"code", "message", "detail"?}}`."""

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
    """Raised anywhere in a transport, answered once at its edge. `close` is the code for sockets."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        close: int = 4400,
        headers: dict[str, str] | None = None,
        **told: Any,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.close = status, code, message, close
        self.headers = headers or {}
        self.told = told

    @property
    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.told:
            error["detail"] = self.told
        return {"error": error}


def convert_refusal(refused: RequestRefused) -> Problem:
    """Return the gate's no as a problem."""
    told = dict(refused.details)
    detail = told.pop("detail", None)
    return Problem(
        refused.status, refused.code, refused.message, **(detail if isinstance(detail, dict) else {}), **told
    )


def convert_bad_frame(bad: BadFrame) -> Problem:
    """Return a broken body as a problem: beyond a limit 413, else 400."""
    return Problem(413 if bad.code in LIMIT_CODES else 400, bad.code, bad.message)


def convert_outage(error: Exception) -> Problem | None:
    """Return the problem that the database is away, and note it; None for errors that say something else."""
    if not report_outage(error):
        return None
    unknown = isinstance(
        error, CommitUnknown
    )  # a request with ids of its own is applied once, however often it is sent
    message = MAYBE_WRITTEN if unknown else "The database is not available right now. Send the request again."
    return Problem(503, "unavailable", message, close=CLOSE_TRY_AGAIN, headers={"Retry-After": str(RETRY_AFTER)})


def build_not_found() -> Problem:
    """No such thing, or not yours."""
    return Problem(404, "not_found", "There is no such thing here, or it is not yours to see.")


def build_restarting() -> Problem:
    """Return the refusal of a request that the end of this process cuts off."""
    return Problem(503, "restarting", MESSAGE, headers={"Retry-After": "1"})
