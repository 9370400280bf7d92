#!/usr/bin/env python3
"""Sets up the checkout, then runs, tests, measures or checks Toolcards.

Needs only Python: it creates `.venv`, installs the pinned and hashed packages of requirements/*.txt into it, and starts
the command there. A second run skips finished steps.
"""

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# Newest first; all of them are tested with the pinned wheels.
PYTHONS = ["python3.13", "python3.12", "python3.11"]
OLDEST = (3, 11)
APT_LINE = "sudo apt install python3 python3-venv"

# An older Python stops here. This file has only syntax of Python 3.6, so that such a Python gets here.
if sys.version_info < OLDEST:
    # Version managers put names on the path for Pythons that they then refuse to start.
    newer = [path for path in map(shutil.which, PYTHONS) if path and subprocess.call([path, "-c", ""], stderr=-3) == 0]
    if newer:
        os.execv(newer[0], [newer[0], *sys.argv])
    version = ".".join(map(str, sys.version_info[:2]))
    raise SystemExit("toolcards: Python 3.11 or newer is required, this is " + version + ". On Debian: " + APT_LINE)

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")

# A set contains the ones before it.
SETS = ["run", "test", "dev"]
# Processes share the tests, each with its own data; an idle process takes tests from the others. Tests wait for half of
# their time, so there are two processes for each core. `-n 0`: one alone.
WORKERS = str(min(2 * (os.cpu_count() or 1), 8))
SHARED = ["-n", WORKERS, "--dist", "worksteal"]
BY_FILE = ["-n", WORKERS, "--dist", "loadfile"]  # the tests of a file share their server and their agent
USUAL = "not clients and not sweep and not thorough"
FAST = f"{USUAL} and not browser and not redis and not postgres and not slow"
THOROUGH = "sweep or thorough or examples"


# ---------------------------------------------------------------- commands


def setup(args: list[str]) -> int:
    """Only create the virtual environment: `setup [run|test|dev]`."""
    ensure(args[0] if args else "run")
    say(f"Ready: {PYTHON.relative_to(ROOT)}")
    return 0


def run(args: list[str]) -> int:
    """Serve, with the demo unless DEMO=0."""
    ensure("run")
    # Without HOST and PORT, the settings TOOLCARDS_HOST and TOOLCARDS_PORT count.
    address: list[str] = []
    for name in ("HOST", "PORT"):
        if os.environ.get(name):
            address += [f"--{name.lower()}", os.environ[name]]
    demo = [] if os.environ.get("DEMO", "1") in ("", "0", "no", "false") else ["--demo"]
    return become(str(PYTHON), "manage.py", "serve", *address, *demo, *args)


def test(args: list[str]) -> int:
    """Run the tests that each change must pass.

    If `args` name files or folders, all of theirs, long ones too.
    """
    ensure("test")
    names_tests = any(not arg.startswith("-") and Path(arg.partition("::")[0]).exists() for arg in args if arg)
    return pytest("-m", "not clients" if names_tests else USUAL, *SHARED, *args, env=programs())


def test_thorough(args: list[str]) -> int:
    """Run what `test` leaves out, and property tests with all their examples."""
    ensure("test")
    return pytest("-m", THOROUGH, "--hypothesis-profile=thorough", *SHARED, *args, env=programs())


def test_fast(args: list[str]) -> int:
    """Run the tests that take moments and need no browser."""
    ensure("test")
    return pytest("-m", FAST, *SHARED, *args)


def test_clients(args: list[str]) -> int:
    """Run the tests with real agent libraries."""
    if not any((ROOT / "tests" / "clients").rglob("test_*.py")):
        say("There are no tests with real agent libraries yet: tests/clients is empty.")
        return 0
    ensure("test")
    return pytest("-m", "clients", *BY_FILE, "tests/clients", "tests/client", *args, env=programs())


def test_newest(args: list[str]) -> int:
    """Run the tests with the newest release of each agent library."""
    ensure("test")
    return become(str(PYTHON), "scripts/newest.py", *args, env=programs())


def bench(args: list[str]) -> int:
    """Run the benchmarks."""
    if not (ROOT / "bench" / "__main__.py").exists():
        say("There are no benchmarks yet: bench/ is empty.")
        return 0
    ensure("test")
    return become(str(PYTHON), "-m", "bench", *args, env=programs())


def chaos(args: list[str]) -> int:
    """Break real servers under load: nothing may be lost or doubled."""
    ensure("test")
    return become(str(PYTHON), "-m", "tests.chaos", *args, env=programs())


def lint(args: list[str]) -> int:
    """Run every check that needs no test, and name those that failed."""
    ensure("test")
    templates = [str(path) for path in sorted((ROOT / "templates").rglob("*.html"))]
    checks: dict[str, list[str | Path]] = {
        "ruff check": [PYTHON, "-m", "ruff", "check", "."],
        "ruff format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "mypy": [PYTHON, "-m", "mypy"],
        "imports": [BIN / "lint-imports", "--no-cache"],
        "language": [PYTHON, "scripts/lint_language.py"],
        "templates": [BIN / "djade", "--check", "--target-version", "5.2", *templates] if templates else [],
        "page scripts": [PYTHON, "scripts/lint_page_scripts.py"],
        "system check": [PYTHON, "manage.py", "check"],
        "migrations": [PYTHON, "manage.py", "makemigrations", "--check", "--dry-run"],
        "vendored files": [PYTHON, "scripts/vendor.py", "--check"],
    }
    with tempfile.TemporaryDirectory() as scratch:
        env = {"TOOLCARDS_DATA_DIR": scratch}
        failed_checks = [name for name, command in checks.items() if command and call(*command, env=env)]
    say(f"Failed: {', '.join(failed_checks)}" if failed_checks else "All checks passed.")
    return 1 if failed_checks else 0


def lint_mutations(args: list[str]) -> int:
    """Break each rule in a copy of the tree.

    Its check must fail.
    """
    ensure("test")
    return become(str(PYTHON), "tests/mutations.py", *args)


def tidy(args: list[str]) -> int:
    """Format the code and fix what ruff can fix."""
    ensure("test")
    templates = [str(path) for path in sorted((ROOT / "templates").rglob("*.html"))]
    call(PYTHON, "-m", "ruff", "check", "--fix", ".")
    call(PYTHON, "-m", "ruff", "format", ".")
    if templates:
        call(BIN / "djade", "--target-version", "5.2", *templates)
    return 0


def shell(args: list[str]) -> int:
    """Open a Django shell."""
    ensure("run")
    return become(str(PYTHON), "manage.py", "shell", *args)


def manage(args: list[str]) -> int:
    """Run any management command."""
    ensure("run")
    return become(str(PYTHON), "manage.py", *args)


def lock(args: list[str]) -> int:
    """Pin the dependencies again; extra arguments go to uv (for example --upgrade)."""
    with tempfile.TemporaryDirectory() as scratch:
        # only maintainers need uv, so it is installed in a temporary environment
        side = Path(scratch) / ("Scripts" if os.name == "nt" else "bin")
        call(sys.executable, "-m", "venv", scratch, must=True)
        call(side / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv", must=True)
        for name in SETS:
            options = ["--universal", "--generate-hashes", "--no-emit-index-url", "--python-version", "3.11"]
            options += ["--custom-compile-command", "make lock", "--quiet", *args]
            files = ["-o", f"requirements/{name}.txt", f"requirements/{name}.in"]
            call(side / "uv", "pip", "compile", *options, *files, must=True)
        options += ["--no-deps", "-o", "requirements/programs.txt"]
        call(side / "uv", "pip", "compile", *options, "requirements/programs.in", must=True)
    return 0


COMMANDS = {
    "setup": setup,
    "run": run,
    "test": test,
    "test-fast": test_fast,
    "test-thorough": test_thorough,
    "test-clients": test_clients,
    "test-newest": test_newest,
    "bench": bench,
    "chaos": chaos,
    "lint": lint,
    "lint-mutations": lint_mutations,
    "format": tidy,
    "shell": shell,
    "manage": manage,
    "lock": lock,
}


def main() -> int:
    """Run the command named on the command line; `setup` without one."""
    command_list = "\n".join(f"  {name:13} {command.__doc__}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=command_list, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", default="setup", choices=COMMANDS, metavar="command")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    os.chdir(ROOT)
    return COMMANDS[options.command](options.args)


# ---------------------------------------------------------------- the virtual environment


def ensure(package_set: str) -> None:
    """Install the requested set of packages into `.venv`."""
    if package_set not in SETS:
        raise SystemExit(f"Unknown set {package_set!r}. The sets are {', '.join(SETS)}.")
    with alone():
        if not works(PYTHON):
            make_venv()
        if not installed(package_set):
            install(package_set)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait for another setup in this checkout, such as a second `make`."""
    try:
        import fcntl
    except ImportError:  # no such thing on Windows
        yield
        return
    with (ROOT / ".venv.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def works(python: Path | str) -> bool:
    """Return whether this Python runs and is new enough."""
    return ask(python, f"import sys; sys.exit(sys.version_info < {OLDEST})")


def make_venv() -> None:
    """Create `.venv` with the best available Python.

    It gets a pip of its own only if no other pip can install into it, because that takes seconds.
    """
    candidates = [python for python in choices() if works(python)]
    if not candidates:
        raise SystemExit(f"Toolcards needs Python {OLDEST[0]}.{OLDEST[1]} or newer. On Debian: {APT_LINE}")
    with_pip = [python for python in candidates if ask(python, "import venv, ensurepip")]
    python = (with_pip or candidates)[0]
    say(f"Creating .venv with {python}")
    options = ["--without-pip"] if find_shared_pip() or not with_pip else []
    # The next run would take an incomplete environment for a complete one, so it is removed.
    shutil.rmtree(VENV, ignore_errors=True)
    if call(python, "-m", "venv", *options, VENV):
        shutil.rmtree(VENV, ignore_errors=True)
        raise SystemExit(f"{python} cannot create a virtual environment. On Debian: {APT_LINE}")


def choices() -> list[str]:
    """Return the Pythons to try, best first."""
    configured_paths = [os.environ["TOOLCARDS_PYTHON"]] if os.environ.get("TOOLCARDS_PYTHON") else []
    candidates = [path for path in map(shutil.which, [*PYTHONS, "python3"]) if path]
    return [*configured_paths, *candidates, sys.executable]


def install(package_set: str) -> None:
    """Install the pinned packages by hash, without running their builds."""
    for name in SETS:
        stamp(name).unlink(missing_ok=True)
    count = sum("==" in line for line in (ROOT / "requirements" / f"{package_set}.txt").read_text().splitlines())
    say(f"Installing {count} pinned packages, once")
    start = time.monotonic()
    with progress(count):
        has_failed = all(call(*command) for command in installers(package_set))
    if has_failed:
        raise SystemExit("The packages could not be installed. The lines above show the reason.")
    compile_packages(wait=package_set != "run")
    stamp(package_set).write_text(fingerprint(package_set))
    say(f"Installed in {time.monotonic() - start:.0f} s")


def installers(package_set: str) -> Iterator[list[str]]:
    """Yield the commands that install a set, with uv first if available."""
    options = ["--require-hashes", "--only-binary", ":all:", "--quiet", "-r", f"requirements/{package_set}.txt"]
    uv = shutil.which("uv")
    if uv:
        yield [uv, "pip", "install", "--no-progress", "--python", str(PYTHON), *options]
        say("uv could not install the packages (it does not read pip's configuration); trying pip")
    # A registry may fail once; a second try costs little, since what it sent is cached.
    yield from [[*pip(), "install", "--no-input", "--no-compile", "--disable-pip-version-check", *options]] * 2


def compile_packages(*, wait: bool) -> None:
    """Compile the installed packages and our own, on all cores.

    The installers would do it on one core. Without `wait`, it continues in the background while the server starts.
    """
    nice = [path for path in [shutil.which("nice")] if path]
    folders = [str(VENV), "toolcards", "dashboard", "tests"]
    command = [*nice, str(PYTHON), "-m", "compileall", "-q", "-j", "0" if wait else "1", *folders]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=not wait
    )
    if wait:
        process.wait()


@contextlib.contextmanager
def progress(count: int) -> Iterator[None]:
    """Print how many packages are installed, whenever the number changes."""
    end_event = threading.Event()
    before = number_of_packages()

    def watch() -> None:
        printed_count = 0
        while not end_event.wait(1):
            installed_count = min(count, number_of_packages() - before)
            if installed_count != printed_count:
                say(f"{installed_count} of {count} packages are installed")
            printed_count = installed_count

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        end_event.set()
        watcher.join()


def number_of_packages() -> int:
    """Return how many packages `.venv` has."""
    return len(list(VENV.glob("[Ll]ib*/**/*.dist-info")))


def pip() -> list[str]:
    """Return the command that installs into `.venv`."""
    if ask(PYTHON, "import pip"):
        return [str(PYTHON), "-m", "pip"]
    python = find_shared_pip()
    if python:
        return [python, "-m", "pip", "--python", str(PYTHON)]
    raise SystemExit(f"pip was not found. On Debian: {APT_LINE}")


def find_shared_pip() -> str:
    """Return a Python whose pip can install into `.venv`, or ""."""
    code = "import sys, pip; sys.exit(tuple(map(int, pip.__version__.split('.')[:2])) < (22, 3))"
    return next((python for python in choices() if ask(python, code)), "")


def installed(package_set: str) -> bool:
    """Return whether this set, or a larger one, is installed."""
    larger = SETS[SETS.index(package_set) :]
    return any(stamp(name).exists() and stamp(name).read_text() == fingerprint(name) for name in larger)


def stamp(name: str) -> Path:
    """Return the file that records that a set is installed."""
    return VENV / f"toolcards-{name}.stamp"


def fingerprint(name: str) -> str:
    """Return the SHA-256 of the files that define a set."""
    files = [ROOT / "requirements" / f"{each}.txt" for each in SETS[: SETS.index(name) + 1]]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


# ---------------------------------------------------------------- running things


def programs() -> dict[str, str]:
    """Return the environment of the tests, with a browser, servers and Node.js."""
    with alone():
        process = subprocess.run([PYTHON, "scripts/programs.py"], stdout=subprocess.PIPE, text=True)
    if process.returncode:
        raise SystemExit(process.returncode)
    return dict(line.split("=", 1) for line in process.stdout.splitlines())


def pytest(*args: str, env: dict[str, str] | None = None) -> int:
    """Run pytest in `.venv`."""
    return become(str(PYTHON), "-m", "pytest", *args, env=env)


def become(*command: str, env: dict[str, str] | None = None) -> int:
    """Replace this process by the command."""
    surroundings = {**os.environ, **(env or {})}
    if os.name == "nt":
        return subprocess.run(command, env=surroundings).returncode
    sys.stdout.flush()
    return os.execve(command[0], command, surroundings)  # does not come back


def call(*command: str | Path, env: dict[str, str] | None = None, must: bool = False) -> int:
    """Run the command and return its exit code.

    With `must`, stop at a failure.
    """
    code = subprocess.run([str(part) for part in command], env={**os.environ, **(env or {})}).returncode
    if code and must:
        raise SystemExit(code)
    return code


def ask(python: Path | str, code: str) -> bool:
    """Return whether this Python runs the code without an error."""
    try:
        return not subprocess.run([python, "-c", code], capture_output=True).returncode
    except OSError:
        return False


def say(text: str) -> None:
    """Print a message for people."""
    print(f"toolcards: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
