"""The conditions of a rule: matchers, their operands, and the values that they look at."""
