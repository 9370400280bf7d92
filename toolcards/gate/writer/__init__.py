"""The group commit: the only code that writes runs, events, calls and approvals."""
