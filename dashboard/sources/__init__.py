"""Sources: connected agent programs, their keys, and how to connect more."""
