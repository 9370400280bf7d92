"""The command line of the proxy: mistakes end with one line, and the agent starts as it was named."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.tables import loop_over
from toolcards.acp.command import main


@loop_over(("argv", "words"), [
    ((), "name the agent's command after --"), (("--",), "name the agent's command"),
    (("--gate",), "name the agent's command"),
    (("--gate", "--mirror", "--", "ls"), "not allowed with argument"),
    (("--key", "tck_x", "--", "no-such-program-here"), "program not found"),
    (("--url", "no address", "--key", "tck_x", "--", "ls"), "address"), (("--nonsense", "--", "ls"), "unrecognized"),
])  # fmt: skip
def test_a_mistake_ends_with_one_line(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], words: str) -> None:
    with pytest.raises(SystemExit) as raised:
        main([*argv])
    assert raised.value.code == 2 and words in capsys.readouterr().err.strip().splitlines()[-1]


AGENT = """
import json, os, sys
print(json.dumps([sys.argv[1:], "TOOLCARDS_AGENT_KEY" in os.environ, "PATH" in os.environ]))
sys.exit(7)
"""


@pytest.mark.parametrize("options", [("--",), ("--mirror", "--agent", "mine", "--"), ("--gate",)])
def test_the_agent_gets_its_own_arguments_and_not_the_key(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCARDS_AGENT_KEY", "tck_secret")
    monkeypatch.setenv("TOOLCARDS_URL", "http://127.0.0.1:9")
    argv = [*options, sys.executable, "-c", AGENT, "--flag", "--", "--gate"]
    with (tmp_path / "out").open("w+") as out, Path("/dev/null").open() as nothing, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(sys, "stdin", nothing)  # pytest's own have no descriptors
        monkeypatch.setattr(sys, "stdout", out)
        assert pool.submit(main, argv).result() == 7  # in a thread: signals stay the tests' own
    assert json.loads((tmp_path / "out").read_text()) == [["--flag", "--", "--gate"], False, True]
