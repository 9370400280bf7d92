"""A call as one sentence: `summary` writes it; commands, SQL statements and tools have tables of phrases."""
