"""Live pages: a hub that renders each changed card once, and the browsers' sockets that it feeds.

`sockets` sends a whole board first, also after a lost connection; `boards` says what that is and what changes later.
"""
