"""What a tool call is: the facts about it, the card that they add up to, and the table of its states."""
