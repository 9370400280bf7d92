"""A tool call: the facts about it, the card that they add up to, and its state table."""
