"""Pure logic of calls, runs, policy and redaction: no Django, clock or database."""
