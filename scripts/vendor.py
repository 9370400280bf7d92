#!/usr/bin/env python3
"""Fetches the browser libraries named in static/vendor/vendor.json, and verifies that they are unchanged.

    python3 scripts/vendor.py            fetch with `npm pack`, write the files and their checksums
    python3 scripts/vendor.py --check    compare files and checksums; needs no network

To take a newer version: change `version`, remove `integrity`, run it, read the diff, run the browser tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).resolve().parent.parent / "static" / "vendor"
MANIFEST = VENDOR / "vendor.json"

# A symbol has the presentation attributes of its icon, so that <use> needs only a class.
SYMBOL = (
    '<symbol id="i-{name}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2"'
    ' stroke-linecap="round" stroke-linejoin="round">{shapes}</symbol>'
)


def main() -> int:
    """Fetch or check the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, without network")
    manifest = json.loads(MANIFEST.read_text())
    return check(manifest) if parser.parse_args().check else fetch(manifest)


def check(manifest: dict[str, Any]) -> int:
    """Return 0 if exactly the listed files are there, byte for byte."""
    checksums = {file["to"]: file["sha256"] for package in manifest["packages"] for file in package["files"]}
    present = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file() and path != MANIFEST}
    faults = [f"not listed: {name}" for name in sorted(present - checksums.keys())]
    for name, checksum in checksums.items():
        if name not in present:
            faults.append(f"missing: {name}")
        elif digest((VENDOR / name).read_bytes()) != checksum:
            faults.append(f"changed: {name}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{len(checksums)} vendored files are as they came.")
    return 1 if faults else 0


def fetch(manifest: dict[str, Any]) -> int:
    """Write every listed file and its checksum."""
    if not shutil.which("npm"):
        print("`make vendor` needs npm. Nothing else does: the files are already here.", file=sys.stderr)
        return 1
    for package in manifest["packages"]:
        with tempfile.TemporaryDirectory() as scratch:
            package_folder = unpack(package, Path(scratch))
            for file in package["files"]:
                content = (
                    sprite(package_folder, package) if "icons" in file else (package_folder / file["from"]).read_bytes()
                )
                target = VENDOR / file["to"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                file["sha256"] = digest(content)
        print(f"{package['name']} {package['version']}: {len(package['files'])} files")
    MANIFEST.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return 0


def unpack(package: dict[str, Any], scratch: Path) -> Path:
    """Return the folder of a downloaded package; refuse a wrong checksum."""
    spec = f"{package['name']}@{package['version']}"
    run = ["npm", "pack", "--json", "--pack-destination", str(scratch), spec]
    [npm_package] = json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if package.setdefault("integrity", npm_package["integrity"]) != npm_package["integrity"]:
        raise SystemExit(f"{spec} is not what it was: {npm_package['integrity']}. Remove `integrity` to accept it.")
    with tarfile.open(scratch / npm_package["filename"]) as archive:
        archive.extractall(scratch, filter="data")
    return scratch / "package"


def sprite(package_folder: Path, package: dict[str, Any]) -> bytes:
    """Return one SVG with a symbol for every listed icon."""
    names = next(file["icons"] for file in package["files"] if "icons" in file)
    symbols = [symbol(name, (package_folder / "icons" / f"{name}.svg").read_text()) for name in sorted(names)]
    licence = f"<!-- {package['name']} {package['version']}, {package['licence']}; see LICENSE next to this file -->"
    return "\n".join([licence, '<svg xmlns="http://www.w3.org/2000/svg">', *symbols, "</svg>", ""]).encode()


def symbol(name: str, svg: str) -> str:
    """Return an icon as a symbol, without its <svg> element."""
    shapes = re.search(r"<svg[^>]*>(.*)</svg>", svg, re.DOTALL)
    if shapes is None:
        raise SystemExit(f"{name}.svg is no icon that we can read.")
    return SYMBOL.format(name=name, shapes=re.sub(r"\s*\n\s*", "", shapes[1]))


def digest(content: bytes) -> str:
    """Return the SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
