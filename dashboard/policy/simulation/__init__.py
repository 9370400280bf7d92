"""Simulations: what a draft would have decided about past calls.

`past_calls` builds their requests again, and `simulation` compares what the two policies decide about them.
"""
