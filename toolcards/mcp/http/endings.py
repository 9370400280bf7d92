"""The end of the response to a call: what is reported, and what the client gets, if it has no result."""

from __future__ import annotations

from toolcards.mcp.http.upstream import Response
from toolcards.mcp.messages import Message, make_error
from toolcards.mcp.session import HeldCall, Session

NO_RESULT = "The MCP server ended its response without a result for this call. It may have run."
CONNECTION_LOSS = "The connection was lost before the result arrived. The call may have run."


def conclude(session: Session, call: HeldCall | None, response: Response, text: str = NO_RESULT) -> Message | None:
    """Report a call without a result at the end of its response.

    Return the error for the client; None if there was a result, or may be one: the client can resume the stream, or the
    response was too long to read.
    """
    if call is None or not session.is_open(call):
        return None
    if response.may_resume or response.is_long:
        session.lose(call, for_good=not response.may_resume)
        return None
    reason = f"The MCP server answered {response.status}." if response.status >= 400 else text
    session.abandon(call, reason)
    return make_error(call.request_id, -32603, reason)
