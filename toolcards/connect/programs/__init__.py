"""One module per agent program or library: what it can do, and a `RECIPE` that says what connecting it writes."""
