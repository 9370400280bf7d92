"""Simulations: what a draft would have decided about past calls."""
