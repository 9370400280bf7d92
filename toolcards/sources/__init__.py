"""The state of sources, and what they have proven that they can do."""
