"""Simulations: what a draft would have decided about the calls of the past."""
