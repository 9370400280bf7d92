"""The ways in and out for machines: agent sockets, HTTP, server-sent events, JSON, and the keys that open them."""
