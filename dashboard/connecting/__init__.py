"""How far a source has come: the ways in, the steps of connecting, and what was proven."""
