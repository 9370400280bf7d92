"""Approvals: votes, permits, expiry, and delivery of the answer to the agent.

`votes` counts them, and `edits` checks an edited input; `permits` builds the answer with the arguments that may run.
"""
