"""`toolcards-client`: the client as a distribution of its own, alone and next to the server."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.installer import find_pip
from tests.support.server import KEY, PATIENCE, ROOT, Server
from toolcards import __version__

PROJECT = ROOT / "packaging" / "client"
REPORT_ORIGIN = "import toolcards.client as client; print(client.__file__)"


def run(*command: str | Path, cwd: Path) -> str:
    process = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=3 * PATIENCE
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the pinned hatchling, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=PROJECT)
    (path,) = folder.glob("*.whl")
    return path


class Environment:
    """An empty virtual environment; packages are installed and removed by a pip outside of it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.folder, self.python = folder, folder / "bin" / "python"

    def run_pip(self, *words: str | Path) -> None:
        run(*find_pip(), "--python", self.python, "-q", *words, cwd=self.folder)

    def install(self, wheel: Path) -> None:
        self.run_pip("install", "--no-index", "--no-deps", wheel)

    def run_python(self, code: str, *options: str, cwd: Path | None = None) -> str:
        return run(self.python, *options, "-c", code, cwd=cwd or self.folder).strip()

    @property
    def site_packages(self) -> Path:
        return Path(self.run_python("import sysconfig; print(sysconfig.get_path('purelib'))"))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the client, for tests that only run it: pip takes most of a second."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "environment")
    environment.install(wheel)
    return environment


def add_server(environment: Environment) -> Path:
    """Add the packages of the server's wheel that the client also contains."""
    package = environment.site_packages / "toolcards"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "server"\n')
    (package / "client").symlink_to(ROOT / "toolcards" / "client")
    return package


@pytest.mark.slow
def test_the_client_is_imported_from_its_own_distribution_and_needs_nothing_else(installed: Environment) -> None:
    code = (
        "import sys, importlib.metadata as metadata, importlib.resources as resources\n"
        "from toolcards.client import Toolcards, gated, hooks, plain\n"
        "outside = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names\n"
        "outside -= {'toolcards', '__main__', 'sitecustomize', 'usercustomize', 'distutils-precedence'}\n"
        "print(metadata.version('toolcards-client'), metadata.requires('toolcards-client'), sorted(outside))\n"
        "assert (resources.files('toolcards.client') / 'py.typed').is_file()\n"
        "assert (resources.files('toolcards.client.common') / 'tools.toml').is_file()\n"
    )
    assert installed.run_python(code) == f"{__version__} None []"


def test_the_command_prints_the_version_of_its_distribution(installed: Environment, tmp_path: Path) -> None:
    result = run_client(installed, tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"toolcards-client {__version__}\n")


@pytest.mark.slow
def test_next_to_the_server_the_servers_client_is_imported(wheel: Path, environment: Environment) -> None:
    environment.install(wheel)
    package = add_server(environment)
    assert environment.run_python(REPORT_ORIGIN) == str(package / "client" / "__init__.py")
    environment.run_pip("uninstall", "-y", "toolcards-client")
    assert environment.run_python(REPORT_ORIGIN) == str(package / "client" / "__init__.py")


def test_a_copy_next_to_the_agents_code_comes_first(installed: Environment, tmp_path: Path) -> None:
    copy = tmp_path / "agent" / "toolcards" / "client"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    assert installed.run_python(REPORT_ORIGIN, cwd=tmp_path / "agent") == str(copy / "__init__.py")


def test_the_wheel_owns_no_file_of_the_server(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"_toolcards_client", "toolcards-client.pth", f"toolcards_client-{__version__}.dist-info"}


def test_the_licence_is_the_servers() -> None:
    assert (PROJECT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


# ---------------------------------------------------------------- `toolcards-client` on another computer


def run_client(environment: Environment, home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command with a home and a PATH of its own, so that no `toolcards` of this computer is found."""
    command = [str(environment.folder / "bin" / "toolcards-client"), *(str(word) for word in words)]
    env = {"HOME": str(home), "PATH": f"{environment.folder / 'bin'}:/usr/bin:/bin"}
    return subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=3 * PATIENCE)


@pytest.mark.slow
def test_connect_writes_settings_whose_hook_works_without_the_server_package(
    installed: Environment, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "server").mkdir()
    with Server(tmp_path / "server") as server:
        connected = run_client(
            installed, home, "connect", "claude-code", "--url", server.base, "--key", KEY, "--yes", "--no-probe"
        )
        assert connected.returncode == 0, connected.stderr
        hooks = json.loads((home / ".claude" / "settings.json").read_text())["hooks"]
        command = hooks["PreToolUse"][0]["hooks"][0]["command"]
        assert command.startswith(str(installed.folder / "bin" / "toolcards-client"))
        payload = {"session_id": "elsewhere", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_use_id": "1"}
        hook = subprocess.run(
            ["sh", "-c", command], input=json.dumps(payload | {"tool_input": {"file_path": "/etc/hostname"}}),
            cwd=home, env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
            timeout=3 * PATIENCE,
        )  # fmt: skip
        assert hook.returncode == 0 and "gave no valid answer" not in hook.stdout, hook.stdout + hook.stderr
    removed = run_client(installed, home, "connect", "claude-code", "--undo", "--yes")
    assert "still valid on the server" in removed.stdout and not (home / ".claude" / "settings.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["opencode", "codex", "ai-sdk", "tanstack-ai", "python", "acp"])
def test_each_recipe_has_its_files(installed: Environment, tmp_path: Path, framework: str) -> None:
    output = run_client(installed, tmp_path, "connect", framework, "--dry-run")
    assert output.returncode == 0 and "+++" in output.stdout, output.stderr


def test_without_a_key_it_says_where_to_make_one(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with Server(tmp_path / "server") as server:
        failed = run_client(installed, tmp_path, "connect", "claude-code", "--url", server.base, "--yes")
    assert failed.returncode == 1 and "Create a key on the server" in failed.stderr
