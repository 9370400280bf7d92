"""A child process behind a proxy: its lines, also when it leaves children with its output, and its end."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator

__all__ = ["end_soon", "read_lines"]

SILENCE = 0.5  # seconds without output after which a process that has exited has no more of it
LONGEST_REMAINDER = 5.0  # seconds of output after its exit


def read_lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield the lines that the process writes.

    They end soon after its exit: a program that it started may keep the pipe open for ever.
    """
    assert process.stdout is not None
    source, parts, exited_at = process.stdout.fileno(), list[bytes](), 0.0
    while True:
        if process.poll() is not None:  # in front of `select`: what it wrote before is found there
            exited_at = exited_at or time.monotonic()
        is_readable = bool(select.select([source], [], [], SILENCE)[0])
        if exited_at and (not is_readable or time.monotonic() - exited_at > LONGEST_REMAINDER):
            break
        if not is_readable:
            continue
        if not (chunk := os.read(source, 1 << 16)):
            break
        *lines, remainder = chunk.split(b"\n")
        for line in lines:
            yield b"".join([*parts, line, b"\n"])
            parts = []
        parts += [remainder] if remainder else []
    if parts:
        yield b"".join(parts)


def end_soon(process: subprocess.Popen[bytes], patience: float) -> None:
    """Terminate the process unless it exits within `patience` seconds, then kill it."""

    def end() -> None:
        for stop in (process.terminate, process.kill):
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                stop()

    threading.Thread(target=end, daemon=True).start()
