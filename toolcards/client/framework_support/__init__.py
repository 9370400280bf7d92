"""What the modules for agent frameworks share: calls by their ids, pauses, forms, runs that open themselves."""
