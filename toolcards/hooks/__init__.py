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
nothing.
"""

from toolcards.hooks.registry import LIMIT, Plugin, Veto, clear, plugins, register
from toolcards.hooks.running import Verdict, consult, crashed, no_time, observe

__all__ = [
    "LIMIT", "Plugin", "Verdict", "Veto", "clear", "consult", "crashed", "no_time", "observe", "plugins", "register",
]  # fmt: skip
