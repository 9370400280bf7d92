"""Measures Toolcards side by side with a bare ASGI application and a stock Channels consumer: `make bench`."""
