"""The HTTP API: answers without Django's middleware, keys and origins, and reading as JSON or as an event stream."""
