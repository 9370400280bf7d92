"""Why the gate said no to a request; each with the status and code that go over the wire."""

from __future__ import annotations

from typing import Any


class RequestRefused(Exception):
    """The gate did not do it. `status` and `code` are docs/api.md's; `told` goes into the answer's `detail`."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, code: str = "", status: int = 0, **told: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.status = status or self.status
        self.told = told


class NotFound(RequestRefused):
    """No such thing, or not yours: the two are not told apart."""

    status, code = 404, "not_found"


class NotAllowed(RequestRefused):
    """This person, or this key, may not do that."""

    status, code = 403, "not_approver"


class AlreadyDecided(RequestRefused):
    """Somebody or something answered first; `told` says who."""

    status, code = 409, "already_decided"


class KeyReuse(RequestRefused):
    """The same name was used for something else before."""

    status, code = 409, "key_reuse"


class TooLate(RequestRefused):
    """Its time is over: expired, used, withdrawn, or its run has ended."""

    status, code = 410, "expired"


class CallChanged(RequestRefused):
    """It is no longer what was seen or allowed."""

    status, code = 412, "args_mismatch"


class InvalidRequest(RequestRefused):
    """It cannot be understood or is not offered here."""

    status, code = 422, "invalid_args"


class Undecryptable(RequestRefused):
    """It cannot be opened here: the key that sealed it is lost, or not among the older keys."""

    status, code = 503, "sealed"
