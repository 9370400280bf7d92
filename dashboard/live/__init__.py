"""Live pages: a hub that renders each changed card once, and the browsers' sockets that it feeds."""
