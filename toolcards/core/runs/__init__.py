"""A run: its cards, the routing of facts to cards, and what the run's end does to them."""
