"""How the client reaches the server: HTTP requests, the socket of a run with its outbox, and threads."""
