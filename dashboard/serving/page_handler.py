"""Django's handler for pages: runs the middleware and the view of a request in one hop to a thread.

Django's own handler hops to a thread and back for every middleware, and starts two threads per request.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from asgiref.sync import ThreadSensitiveContext
from django.core.handlers.asgi import ASGIHandler
from django.db import connections

from dashboard import threads

KEPT_THREADS = 32  # idle threads, with their connections to the database


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
        executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "page", threads.keep_connection)
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
