"""How sources are doing, and what they have proved that they can do."""
