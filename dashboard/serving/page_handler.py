"""Django's handler for pages: runs the middleware and the view of a request in one hop to a thread.

Django's own handler hops to a thread and back for every middleware, and starts two threads per request.

The threads of pages keep their database connection, since opening one takes longer than most of what a page reads.
Other threads close it when their request ends: CONN_MAX_AGE keeps connections of SQLite, and those of ended threads
would stay open until the garbage collector runs, three descriptors each. Connections to PostgreSQL go back to the
shared ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from asgiref.sync import ThreadSensitiveContext
from django.core.handlers.asgi import ASGIHandler
from django.core.signals import request_finished
from django.db import connection, connections
from django.dispatch import receiver

KEPT_THREADS = 32  # idle threads, with their connections to the database
_thread = threading.local()


class PageHandler(ASGIHandler):
    """Runs the view and its middleware, except for static files, in one thread."""

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []

    def load_middleware(self, is_async: bool = True) -> None:
        """See Django. Middleware runs in the thread if possible."""
        super().load_middleware(is_async=False)

    def adapt_method_mode(
        self,
        is_async: bool,
        method: Callable[..., Any],
        method_is_async: bool | None = None,
        debug: bool = False,
        name: str | None = None,
    ) -> Callable[..., Any]:
        """See Django. The outermost middleware already is asynchronous."""
        is_outermost = name is None and method_is_async is True
        return method if is_outermost else super().adapt_method_mode(is_async, method, method_is_async, debug, name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "page", keep_connection)
        try:
            async with ThreadSensitiveContext(executor=executor):
                await self.handle(scope, receive, send)
        except BaseException:
            _end_thread(executor)
            raise
        if len(self._idle) < KEPT_THREADS:
            self._idle.append(executor)
        else:
            _end_thread(executor)


def _end_thread(executor: ThreadPoolExecutor) -> None:
    """End the thread and its connection after what it still does."""
    executor.submit(connections.close_all)
    executor.shutdown(wait=False)


def get_page_handler() -> PageHandler:
    """Set Django up and return the handler of pages."""
    django.setup(set_prefix=False)
    return PageHandler()


def keep_connection() -> None:
    """Keep this thread's connection between requests.

    The code that ends the thread closes it there, by `connections.close_all`.
    """
    _thread.keeps_connection = True


@receiver(request_finished)
def close_connection(**kwargs: Any) -> None:
    """Close the connection if it is not kept.

    A transaction is open in some tests: it stays.
    """
    is_kept = connection.vendor == "sqlite" and getattr(_thread, "keeps_connection", False)
    if not (is_kept or connection.in_atomic_block):
        connection.close()
