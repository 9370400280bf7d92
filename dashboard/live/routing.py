"""The routes of the browsers' sockets. Run names may contain any character, also `/`."""

from __future__ import annotations

from django.urls import re_path

from dashboard.live.sockets import MeSocket, RunSocket

websocket_urlpatterns = [
    re_path(r"^ws/me/$", MeSocket.as_asgi()),
    re_path(r"^ws/runs/(?P<run>.+)/$", RunSocket.as_asgi()),
]
