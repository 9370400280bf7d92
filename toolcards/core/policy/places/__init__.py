"""Paths by their spelling, and the project of a run: what is inside, and what is protected there."""
