"""Questions about calls: opened with their terms, and reviewed before people answer them."""
