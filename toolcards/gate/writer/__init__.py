"""The single writer: group commits that write runs, events, calls and approvals."""
