"""A child process behind a proxy: its lines, also when it leaves children with its output, and its end."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["close_soon", "end_soon", "read_descriptor", "read_lines"]

SILENCE = 0.5  # seconds without output after which a process that has exited has no more of it
LONGEST_REMAINDER = 5.0  # seconds of output after its exit
_CHUNK = 1 << 16  # bytes


class _Lines:
    """Splits chunks into lines. A line of many chunks is joined once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete, with their ends."""
        *lines, remainder = chunk.split(b"\n")
        for line in lines:
            parts, self._parts = self._parts, []
            yield b"".join([*parts, line, b"\n"])
        self._parts += [remainder] if remainder else []

    def end(self) -> Iterator[bytes]:
        """Yield the last line if it has no end."""
        if self._parts:
            yield b"".join(self._parts)


def read_descriptor(source: int) -> Iterator[bytes]:
    """Yield the lines of a file descriptor.

    A thread that is blocked in a file object could not be left at exit.
    """
    lines = _Lines()
    while chunk := os.read(source, _CHUNK):
        yield from lines.feed(chunk)
    yield from lines.end()


def read_lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield the lines that the process writes.

    They end soon after its exit: a program that it started may keep the pipe open for ever.
    """
    assert process.stdout is not None
    source, lines, exited_at = process.stdout.fileno(), _Lines(), 0.0
    while True:
        if process.poll() is not None:  # in front of `select`: what it wrote before is found there
            exited_at = exited_at or time.monotonic()
        is_readable = bool(select.select([source], [], [], SILENCE)[0])
        if exited_at and (not is_readable or time.monotonic() - exited_at > LONGEST_REMAINDER):
            break
        if not is_readable:
            continue
        if not (chunk := os.read(source, _CHUNK)):
            break
        yield from lines.feed(chunk)
    yield from lines.end()


def close_soon(output: BinaryIO, lock: threading.Lock) -> None:
    """Close the output, unless a thread that holds its lock is blocked.

    Its reader learns that nothing follows, although the process behind the proxy still runs. What is written later is
    dropped: closing `sys.stdout` itself would leave its descriptor open.
    """
    if lock.acquire(timeout=SILENCE):
        with contextlib.suppress(OSError, ValueError):
            output.flush()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, output.fileno())
            os.close(nowhere)
        lock.release()


def end_soon(process: subprocess.Popen[bytes], patience: float) -> None:
    """Terminate the process unless it exits within `patience` seconds, then kill it."""

    def end() -> None:
        for stop in (process.terminate, process.kill):
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                stop()

    threading.Thread(target=end, daemon=True).start()
