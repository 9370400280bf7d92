"""Plug-ins: programs in this process that hear of tool calls, and may stop one before it runs.

    from toolcards import hooks

    class Tickets:
        def before(self, call): ...      # may raise hooks.Veto("…"), or return {"input": …} in place of the input
        def after(self, call): ...       # after a success
        def error(self, call): ...       # after a failure; never for a mere interruption
        def settled(self, call): ...     # closes every before
        def corrected(self, call): ...   # it came out otherwise than it was settled: call["outcome"]

    hooks.register(Tickets(), "tickets")      # or an entry point in the group `toolcards.hooks`

Every method is optional and gets a copy of its own. `before` is asked ahead of the decision and has 2 seconds, and
while it thinks only its own call waits; the others run afterwards, have 2 seconds too, and whatever they do changes
nothing. A plug-in with `before` is a guard: where it cannot be asked, gated calls are denied.
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
from toolcards.hooks.running import Verdict, build_crash_verdict, build_timeout_verdict, consult, observe

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
