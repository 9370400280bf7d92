"""The errors with which the gate refuses a request, each with its HTTP status and error code (docs/api.md)."""

from __future__ import annotations

from typing import Any


class RequestRefused(Exception):
    """Base class of all refusals. `details` become the `detail` of the error answer."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, code: str = "", status: int = 0, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.status = status or self.status
        self.details = details


class NotFound(RequestRefused):
    """It does not exist or belongs to another source; the answer does not reveal which."""

    status, code = 404, "not_found"


class NotAllowed(RequestRefused):
    """The person or the key does not have permission."""

    status, code = 403, "not_approver"


class AlreadyDecided(RequestRefused):
    """The approval was decided before; `details` name the decider."""

    status, code = 409, "already_decided"


class KeyReuse(RequestRefused):
    """A call id or idempotency key was used for another request."""

    status, code = 409, "key_reuse"


class TooLate(RequestRefused):
    """It expired, was used or withdrawn, or its run has ended."""

    status, code = 410, "expired"


class CallChanged(RequestRefused):
    """The call is not the one that was shown or allowed."""

    status, code = 412, "args_mismatch"


class InvalidRequest(RequestRefused):
    """The request is malformed or asks for what is not offered."""

    status, code = 422, "invalid_args"


class TooManyWaiting(RequestRefused):
    """Too many calls of the agent wait for people; it may ask again later."""

    status, code = 429, "slow_down"


class Undecryptable(RequestRefused):
    """The data cannot be decrypted: its key is neither the current key nor among the older keys."""

    status, code = 503, "sealed"
