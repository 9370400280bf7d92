"""A tool call: the facts about it, the card that they add up to, and its states.

`card` has the states and the card, `transitions` the table of what each fact does in each state, `reducer/` the
handlers.
"""
