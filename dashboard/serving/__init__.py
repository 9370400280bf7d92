"""Runs the ASGI application on uvicorn or Daphne, and limits the resources of unknown peers.

Doors: `run_uvicorn`, `run_daphne`, `open_socket`, and the type `Ready`. Before a key or session is checked, only heads
of requests are read, for a short time, and on a limited number of connections per address.
"""

from dashboard.serving.processes.uvicorn_server import Ready
from dashboard.serving.runner import open_socket, run_daphne, run_uvicorn

__all__ = ["Ready", "open_socket", "run_daphne", "run_uvicorn"]
