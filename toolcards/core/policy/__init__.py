"""Policy: the decision on a call, and the rules that lead to it."""
