"""The inbox: waiting calls, votes, and the history of answers."""
