"""How risky a waiting call is: a level for sorting, and the hints that raise it, found in commands and values."""
