"""What policy says about a call: the decision, and the rules that lead to it."""
