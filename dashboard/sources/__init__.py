"""Sources: who is connected, by which keys, and how to connect more."""
