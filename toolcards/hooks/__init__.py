"""Plugins: code in this process that receives tool call events and can stop a call before it runs.

    from toolcards import hooks

    class Tickets:
        def before(self, call): ...      # may raise hooks.Veto("…"), or return {"input": …} in place of the input
        def after(self, call): ...       # after a success
        def error(self, call): ...       # after a failure, not after an interruption
        def settled(self, call): ...     # closes every before
        def corrected(self, call): ...   # the outcome differs from the settled one: call["outcome"]

    hooks.register(Tickets(), "tickets")      # or an entry point in the group `toolcards.hooks`

Every method is optional and gets its own copy. `before` runs ahead of the decision, has 2 seconds, and delays only its
own call. The others run afterwards, have 2 seconds too, and cannot change the call. A plugin with `before` is a guard:
if it is unavailable, gated calls are denied.
"""

from toolcards.hooks.registry import (
    LIMIT,
    Plugin,
    Status,
    Veto,
    clear,
    has_guards,
    list_plugins,
    list_statuses,
    list_troubles,
    register,
)
from toolcards.hooks.runner import Verdict, build_crash_verdict, build_timeout_verdict, consult, observe

__all__ = [
    "LIMIT",
    "Plugin",
    "Status",
    "Verdict",
    "Veto",
    "build_crash_verdict",
    "build_timeout_verdict",
    "clear",
    "consult",
    "has_guards",
    "list_plugins",
    "list_statuses",
    "list_troubles",
    "observe",
    "register",
]  # fmt: skip
