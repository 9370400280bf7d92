"""A child process behind a proxy: all its lines arrive, and the proxy ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from tests.support.server import PATIENCE
from toolcards.client.transport.child_process import end_soon, read_lines

LEAVES_A_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print(child.pid, flush=True)
"""
IGNORES_ALL = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(1000)
"""
FLOOD = """
import sys
line = '{"jsonrpc":"2.0","id":1,"id":1,"method":"session/request_permission","params":{}}\\n'
sys.stdout.write(line * 3000)
print('{"jsonrpc":"2.0","method":"end"}', flush=True)
"""


def start(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def end_child(pid: bytes) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)


@pytest.fixture(params=[["acp", "--gate", "--"], ["mcp", "--"]], ids=["acp", "mcp"])
def proxied(request: pytest.FixtureRequest) -> Iterator[Sequence[str]]:
    """A proxy in front of a Python program, which is still to be named."""
    yield [sys.executable, "-m", "toolcards.client_cli", *request.param, sys.executable, "-c"]


def test_lines_of_any_length_arrive_whole_and_so_does_the_rest() -> None:
    expression = '[b"x" * size for size in (0, 1, 65_535, 65_536, 65_537, 1_000_000)] + ["ä€😀".encode() * 30_000]'
    lines = eval(expression)
    program = f"import sys; sys.stdout.buffer.write(b'\\n'.join({expression}) + b'\\nend')"
    with start(program) as process:
        assert list(read_lines(process)) == [line + b"\n" for line in lines] + [b"end"]


def test_lines_end_with_their_process_although_its_child_holds_the_pipe() -> None:
    with start(LEAVES_A_CHILD) as process:
        lines: list[bytes] = []
        reader = threading.Thread(target=lambda: lines.extend(read_lines(process)), daemon=True)
        reader.start()
        reader.join(PATIENCE)
        assert not reader.is_alive() and len(lines) == 1
        end_child(lines[0])


def test_a_process_that_ignores_everything_is_killed() -> None:
    with start(IGNORES_ALL) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        end_soon(process, 0.1)
        assert process.wait(PATIENCE) == -signal.SIGKILL


def test_a_proxy_ends_with_a_program_that_leaves_a_child(proxied: Sequence[str]) -> None:
    environment = os.environ | {"TOOLCARDS_URL": "http://127.0.0.1:9", "TOOLCARDS_AGENT_KEY": "key"}
    with subprocess.Popen(
        [*proxied, LEAVES_A_CHILD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as proxy:
        assert proxy.stdout is not None
        child = proxy.stdout.readline()
        try:
            assert proxy.wait(PATIENCE) == 0
        finally:
            end_child(child)
            proxy.kill()


def test_an_agent_that_reads_no_answer_does_not_stop_its_relay() -> None:
    """What it writes is held back and answered; the answers fill the pipe to it."""
    command = [sys.executable, "-m", "toolcards.client_cli", "acp", "--gate", "--", sys.executable, "-c", FLOOD]
    environment = os.environ | {"TOOLCARDS_URL": "http://127.0.0.1:9", "TOOLCARDS_AGENT_KEY": "key"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as proxy:
        try:
            assert proxy.stdout is not None
            watchdog = threading.Timer(PATIENCE, proxy.kill)
            watchdog.start()
            assert b'"end"' in proxy.stdout.readline()
            assert proxy.wait(PATIENCE) == 0
            watchdog.cancel()
        finally:
            proxy.kill()


CLOSES_ITS_OUTPUT = """
import os, sys
os.close(1)
sys.stdin.read()
sys.exit(3)
"""


def test_a_proxy_ends_its_output_with_that_of_its_program(proxied: Sequence[str]) -> None:
    environment = os.environ | {"TOOLCARDS_URL": "http://127.0.0.1:9", "TOOLCARDS_AGENT_KEY": "key"}
    with subprocess.Popen(
        [*proxied, CLOSES_ITS_OUTPUT], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as proxy:
        watchdog = threading.Timer(PATIENCE, proxy.kill)
        watchdog.start()
        try:
            assert proxy.stdin is not None and proxy.stdout is not None
            assert proxy.stdout.read() == b"" and proxy.poll() is None
            proxy.stdin.close()
            assert proxy.wait(PATIENCE) == 3
        finally:
            watchdog.cancel()
            proxy.kill()


READS = "from toolcards.client.transport.child_process import read_descriptor as r; print([len(line) for line in r(0)])"


def test_a_line_of_many_chunks_is_read_in_linear_time() -> None:
    """It was joined again with each of its thousand chunks, which took minutes."""
    data = b"x" * (64 << 20) + b"\nend"
    completed = subprocess.run([sys.executable, "-c", READS], input=data, capture_output=True, timeout=PATIENCE)
    assert completed.stdout == b"[67108865, 3]\n", completed.stderr
