"""Run command lines in a real bash and record which stub programs ran, with which words, and what was written.

The lines run in a throwaway folder. Their PATH holds stub programs that only note how they were called, and a few real
programs that run others (env, xargs, find …), which then find stubs again. The stub of cat passes its input on.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

BASH = shutil.which("bash")
STUBS = ["rm", "cp", "ls", "cat", "grep", "git", "curl", "mytool", "python3.11", "make", "sort", "wc", "sudo", "pwned"]
WRAPPERS = ["env", "timeout", "nice", "nohup", "stdbuf", "setsid", "xargs", "find", "sh", "bash"]
PATIENCE = 20
_STUB = """#!{shell}
printf '%s\\0' "${{0##*/}}" "$@" "$(printf '\\1')" >> {log}
case ${{0##*/}}$# in cat0) exec {cat};; esac
"""


@dataclass(frozen=True)
class Trace:
    """What a line did: the words of every stub that ran, and the files that are new or changed."""

    ran: tuple[tuple[str, ...], ...]
    wrote: frozenset[str]


def run_all(workshops: Sequence[Workshop], lines: Sequence[str]) -> list[tuple[str, Trace]]:
    """Run the lines, spread over the workshops, and return each with what it did."""
    shares = [lines[number :: len(workshops)] for number in range(len(workshops))]
    with ThreadPoolExecutor(len(workshops)) as pool:
        result = pool.map(
            lambda pair: [(line, pair[0].run(line)) for line in pair[1]], zip(workshops, shares, strict=True)
        )
        return [pair for share in result for pair in share]


class Workshop:
    """A folder with stubs in which lines run one after the other."""

    def __init__(
        self, folder: Path, *, real: list[str] = WRAPPERS, stubs: list[str] = STUBS, template: Path | None = None
    ) -> None:
        self.bin, self.home, self.log, self._template = folder / "bin", folder / "home", folder / "log", template
        self.bin.mkdir(parents=True)
        self._env = {"PATH": str(self.bin), "HOME": str(self.home), "LC_ALL": "C", "FUNCNEST": "3"}
        self._reset()
        self._before = self._files()  # and after every line, which leaves nothing or is followed by a reset
        shell = shutil.which("dash") or shutil.which("sh")
        for name in stubs:
            (self.bin / name).write_text(_STUB.format(shell=shell, log=self.log, cat=shutil.which("cat")))
            (self.bin / name).chmod(0o755)
        for name in real:
            place = sys.executable if name == "python3" else shutil.which(name)
            if place is not None and not (self.bin / name).exists():
                (self.bin / name).symlink_to(Path(place).resolve())

    def _reset(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        if self._template is not None:
            shutil.copytree(self._template, self.home, symlinks=True)
        (self.home / "d").mkdir(parents=True, exist_ok=True)
        for name in ("f", "a.txt", "d/g"):
            (self.home / name).write_text("one\ntwo\n")

    def _files(self) -> dict[str, bytes]:
        """Return each file with its bytes, and each folder; without named pipes, which cannot be read."""
        files: dict[str, bytes] = {}
        folders = [str(self.home)]
        for folder in folders:
            for entry in os.scandir(folder):
                name = entry.path[len(folders[0]) + 1 :]
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    files[name] = b""
                elif entry.is_file():
                    files[name] = Path(entry.path).read_bytes()
                elif not Path(entry.path).is_fifo():
                    files[name] = b""
        return files

    def run(self, line: str, **env: str) -> Trace:
        """Run the line and return what it did; everything is as before afterwards."""
        self.log.write_bytes(b"")
        before = self._before
        self._run(line, env)
        after = self._files()
        wrote = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        if wrote:
            self._reset()
        calls = [call for call in self.log.read_bytes().split(b"\0\1\0") if call]
        return Trace(tuple(tuple(os.fsdecode(word) for word in call.split(b"\0")) for call in calls), frozenset(wrote))

    def _run(self, line: str, env: dict[str, str]) -> None:
        """Run the line until its last descendant has ended: until nothing holds the pipe that all of them inherit."""
        assert BASH is not None
        read_end, write_end = os.pipe()
        process = subprocess.Popen(
            [BASH, "-c", line],
            cwd=self.home,
            env=self._env | env,
            pass_fds=(write_end,),
            start_new_session=True,
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
        )
        os.close(write_end)
        if not select.select([read_end], [], [], PATIENCE)[0]:
            os.killpg(process.pid, signal.SIGKILL)
        os.close(read_end)
        process.wait()
