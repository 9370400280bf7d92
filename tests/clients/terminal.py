"""A program in a pseudo-terminal: what is on its screen, and keys for it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path

ROWS, COLUMNS = 40, 120
_ESCAPES = re.compile(r"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()=>][0-9A-B]?")


class Terminal:
    """A running program. `screen`: all text that it wrote, including text that it drew again."""

    def __init__(self, command: list[str], *, cwd: Path, env: dict[str, str]) -> None:
        self._master, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env | {"TERM": "xterm-256color"}, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._output = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 1 << 16)
            except OSError:
                return
            if not piece:
                return
            self._output += piece

    @property
    def screen(self) -> str:
        """Everything written so far, without the terminal's own language; one space for what moves the cursor."""
        return re.sub(r"\s+", " ", _ESCAPES.sub(" ", self._output.decode("utf-8", "replace")))

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def close(self) -> None:
        """End it, if it has not ended by itself."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)
