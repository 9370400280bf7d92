"""Programs that run other programs: what to look behind, and which flags turn a harmless program into a shell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


SHELLS = _set("sh bash dash zsh ksh mksh ash fish csh tcsh rbash powershell pwsh")
# how many plain words stand between the wrapper and the program it runs
WRAPPERS: dict[str, int] = {
    name: count
    for count, names in {
        0: "sudo doas env nice nohup time command builtin xargs busybox toybox exec eval watch setsid stdbuf ionice "
        "parallel strace ltrace unshare nsenter systemd-run caffeinate unbuffer entr then else do ! npx bunx uvx pipx "
        "script su runuser pkexec fakeroot proot firejail gdb rlwrap dbus-run-session xvfb-run trap",
        1: "timeout chroot flock ssh taskset chrt prlimit setpriv sshpass torsocks arch",
    }.items()
    for name in names.split()
}
JOINS = _set("eval watch ssh su runuser script parallel env trap xargs")  # hand words to a shell
CONTAINERS = _set("docker podman nerdctl kubectl oc lxc")  # `docker exec`, `kubectl run`: something further on runs
_FIND_RUNS = _set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
MAX_VIEWS = 64
MAX_DEPTH = 6

# per program: flags after which it runs code, loads code, or writes a file it is told to
RUNS_CODE: dict[str, str] = {
    "git": "-c -C -O --config-env --exec-path --exec --output --output-directory --upload-pack --receive-pack "
    "--ext-diff --textconv --open-files-in-pager --git-dir --work-tree --namespace --run --template --extcmd",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "rg": "--pre --pre-glob --hostname-bin --search-zip -z",
    "ag": "--pager",
    "ack": "--pager --ackrc",
    "tar": "-I -F --checkpoint-action --to-command --use-compress-program --rsh-command --rmt-command --info-script "
    "--new-volume-script",
    "go": "-exec -toolexec -vettool -overlay -modfile -ldflags -gcflags -C",
    "cargo": "--config -Z",
    "ssh": "-o -F -J -L -R -D -E -S",
    "scp": "-o -F -S -J",
    "sftp": "-o -F -S -b",
    "rsync": "-e --rsh --rsync-path --log-file",
    "sed": "-i --in-place -f --file",
    "sort": "-o --output --compress-program -T --temporary-directory -S --files0-from",
    "man": "-P --pager -H --html -X",
    "less": "-k -K -o -O --lesskey-file --log-file",
    "vim": "-c -S -u -s --cmd",
    "pytest": "-p -c -o --override-ini --rootdir --confcutdir --pdbcls --config-file --pdb --trace",
    "npm": "--script-shell --prefix --node-options --globalconfig --userconfig --git",
    "node": "-e -p -r --eval --print --require --import --loader --experimental-loader",
    "python": "-c -m",
    "python3": "-c -m",
    "perl": "-e -E -M -i -d",
    "ruby": "-e -r",
    "php": "-r -d",
    "curl": "-o -O -K -T -J --output --output-dir --remote-name --config --upload-file --libcurl --dump-header -D -c",
    "wget": "-O -e -i --execute --use-askpass --output-document --directory-prefix --post-file --config",
    "make": "-f -C --eval --file --makefile --directory",
    "zip": "-T -TT --unzip-command",
    "tree": "-o",
    "date": "-s --set -f --file",
    "file": "-C -m -f --compile --magic-file --files-from",
    "env": "-S --split-string",
    "diff": "--to-file --from-file",
    "docker": "-v --volume --mount --privileged --entrypoint",
    "journalctl": "--vacuum-size --vacuum-time --vacuum-files --rotate --flush",
    "xxd": "-r",
    "yarn": "--cwd --use-yarnrc",
    "pip": "-e --editable --target --config-settings --python",
}
_WHOLE_WORDS = frozenset({"find", "go"})  # long options with one dash: no bundles of letters
_START_ONLY = frozenset({"git"})  # a short flag and its value in one word; bundles would catch too much
# awk and sed have a language with a way out; only scripts that are surely harmless count as such
_AWK = re.compile(r"(?!.*(system|getline|close|[|>@]))[^\n]*")
_SED = re.compile(r"[0-9,$ ]*[pdq=]?(;[0-9,$ ]*[pdq=]?)*|s/[^/\\]*/[^/\\]*/[gip0-9]*")
_SCRIPTED = {"awk": _AWK, "gawk": _AWK, "mawk": _AWK, "nawk": _AWK, "sed": _SED}
_COMMAND_FLAG = re.compile(r"-[A-Za-z]*c[A-Za-z]*|--command|/c")
_FLAGS = {program: frozenset(flags.split()) for program, flags in RUNS_CODE.items()}
_RUN_OTHERS = SHELLS | JOINS | CONTAINERS | WRAPPERS.keys() | {"find", "fd", "fdfind", "source", "."}


@dataclass(frozen=True, slots=True)
class Peeled:
    """What a segment runs: its words and those behind every wrapper."""

    views: tuple[tuple[str, ...], ...]
    hidden: bool  # something runs that we do not see
    inline: bool  # a flag or script makes it run something: look at the raw text too


def name_of(word: str) -> str:
    """Return the program's bare name."""
    return word.rsplit("/", 1)[-1].lower().removesuffix(".exe")


def runs_code(words: tuple[str, ...]) -> bool:
    """Return whether a flag of this program runs other programs, loads code or writes files."""
    if not words:
        return False
    program = name_of(words[0])
    if program in _SCRIPTED:
        scripts = [word for word in words[1:] if not word.startswith("-")]
        if scripts and not _SCRIPTED[program].fullmatch(scripts[0]):
            return True
    flags = _FLAGS.get(program)
    return flags is not None and any(_risky(word, program, flags) for word in words[1:] if word.startswith("-"))


def says_what_runs(words: tuple[str, ...], count: int) -> bool:
    """Return whether the first `count` words of a wrapper or shell already name the program that it runs."""
    name = name_of(words[0])
    if count >= len(words):
        return name not in SHELLS or len(words) > 1
    if name in SHELLS:
        return count > 1 and not words[count - 1].startswith("-") and not any(map(_COMMAND_FLAG.fullmatch, words))
    if name in CONTAINERS:
        return not {"exec", "run", "debug"} & set(words) or count > 2
    if name in WRAPPERS:
        return all(len(words) - len(inner) < count for inner in _behind(name, words))
    return True


def _risky(word: str, program: str, flags: frozenset[str]) -> bool:
    name = word.partition("=")[0]
    if name.startswith("--"):  # programs accept shortened long options
        bare = name[1:] if program == "go" else name
        return len(name) > 2 and any(flag.startswith(bare) for flag in flags if flag[1] == "-" or program == "go")
    if program in _WHOLE_WORDS:
        return name in flags
    short = [flag[1] for flag in flags if len(flag) == 2]
    if program in _START_ONLY:
        return name[1:2] in short
    return any(letter in name[1:] for letter in short)


def peel(words: tuple[str, ...], parse: Callable[[str], Any]) -> Peeled:
    """Return every view of the words; `parse` reads a command line into segments."""
    if words and name_of(words[0]) not in _RUN_OTHERS:  # most programs run nothing but themselves
        return Peeled((words,), False, runs_code(words))
    views: list[tuple[str, ...]] = []
    flags = {"hidden": False, "inline": False}
    rest = [(words, 0)]
    seen = set()
    while rest:
        view, depth = rest.pop()
        if not view or view in seen:
            continue
        seen.add(view)
        if len(views) >= MAX_VIEWS or depth > MAX_DEPTH:
            flags["hidden"] = True
            break
        views.append(view)
        name = name_of(view[0])
        flags["inline"] = flags["inline"] or runs_code(view)
        rest += [(inner, depth + 1) for inner in _behind(name, view)]
        for line in _scripts(name, view, flags):
            for segment in parse(line):
                if segment.opaque:
                    flags["hidden"] = True
                else:
                    rest.append((segment.words, depth + 1))
    return Peeled(tuple(views), flags["hidden"], flags["inline"])


def _behind(name: str, view: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return what the wrapper may run; an option may or may not take the word after it, so both are looked at."""
    if name in {"find", "fd", "fdfind"}:
        return [view[at + 1 :] for at, word in enumerate(view) if word in _FIND_RUNS]
    if name in CONTAINERS and {"exec", "run", "debug"} & set(view):
        return [view[at:] for at in range(2, len(view)) if not view[at].startswith("-")]
    if name not in WRAPPERS:
        return []
    starts, rest, seen = [], [(1, WRAPPERS[name])], set()
    while rest:
        at, skip = rest.pop()
        if at >= len(view) or (at, skip) in seen:
            continue
        seen.add((at, skip))
        if view[at].startswith("-"):
            rest += [(at + 1, skip), (at + 2, skip)]
        elif _ASSIGNMENT.match(view[at]):
            rest.append((at + 1, skip))
        elif skip:
            rest.append((at + 1, skip - 1))
        else:
            starts.append(at)
    return [view[at:] for at in starts]


def _scripts(name: str, view: tuple[str, ...], flags: dict[str, bool]) -> list[str]:
    """Return the texts that a shell will read; note a shell that reads what we do not see."""
    if name in SHELLS:
        scripts = [word for word in view[1:] if not word.startswith("-")]
        with_c = any(map(_COMMAND_FLAG.fullmatch, view[1:]))
        flags["hidden"] = flags["hidden"] or not with_c
        return scripts[:1] if with_c and len(scripts) == 1 else scripts if with_c else []
    if name in {"source", "."}:
        flags["hidden"] = True
    if name in JOINS:
        behind = (inner for inner in _behind(name, view) if any(" " in word or ";" in word for word in inner))
        options = (word.partition("=")[2] or word for word in view[1:] if word.startswith("-") and " " in word)
        texts = (word for word in view[1:] if " " in word and not word.startswith("-"))
        return [*(" ".join(inner) for inner in behind), *options, *texts]
    return []
