"""`toolcards`: the wheel holds one package, and its command finds the site inside it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.installer import find_pip
from tests.support.server import PATIENCE, ROOT
from toolcards import __version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the pinned hatchling, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment of its own, which sees the dependencies of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = [*find_pip(), "--python", str(python), "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, cwd=folder)
    (site_packages,) = (folder / "lib").glob("python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run_installed(environment: Path, *words: str) -> str:
    """Run a program of the environment, away from the checkout and without the settings of the tests."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("TOOLCARDS", "DJANGO", "PYTHON"))}
    process = subprocess.run(
        [str(environment / "bin" / words[0]), *words[1:]], cwd=environment, capture_output=True, text=True,
        env=keep | {"TOOLCARDS_DATA_DIR": str(environment / "data")}, timeout=3 * PATIENCE,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.slow
def test_the_wheel_adds_one_package_to_an_environment(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"toolcards", f"toolcards-{__version__}.dist-info"}
    for name in ("settings.py", "_templates/base.html", "_static/clients/gate-client.mjs", "_docs/api.md"):
        assert f"toolcards/_site/dashboard/{name}" in names


@pytest.mark.slow
def test_the_installed_command_finds_its_site(environment: Path) -> None:
    site = environment.resolve() / "lib"
    code = (
        "import dashboard; from django.conf import settings; print(dashboard.__file__, settings.TEMPLATES[0]['DIRS'])"
    )
    printed = run_installed(environment, "toolcards", "shell", "--no-imports", "-c", code)
    assert str(site) in printed and "toolcards/_site/dashboard/__init__.py" in printed
    assert "toolcards/_site/dashboard/_templates" in printed
    assert "no issues" in run_installed(environment, "toolcards", "check")


def test_other_programs_of_the_environment_see_no_dashboard(environment: Path) -> None:
    code = "import importlib.util, toolcards.client; print(importlib.util.find_spec('dashboard'))"
    assert run_installed(environment, "python", "-c", code).strip() == "None"


@pytest.mark.slow
def test_another_package_named_dashboard_does_not_get_in_the_way(environment: Path) -> None:
    (site_packages,) = (environment / "lib").glob("python*/site-packages")
    other = site_packages / "dashboard"
    other.mkdir()
    (other / "__init__.py").write_text("raise ImportError('somebody else')\n")
    assert "no issues" in run_installed(environment, "toolcards", "check")
