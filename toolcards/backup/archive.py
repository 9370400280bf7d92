"""The backup file: a tar archive whose first member is the manifest of the others."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import secrets
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from toolcards.encryption import derive_key

FORMAT = 1
MANIFEST, DATABASE, ANCHOR, KEY = "manifest.json", "database", "audit-anchor.json", "secret_key"
_PIECE = 1 << 20


class BackupError(Exception):
    """A backup cannot be made, read or restored; the message gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a backup."""

    version: str  # of Toolcards
    made_at: float  # epoch seconds
    store: str  # sqlite or postgresql
    migrations: list[str]  # the newest one of each app
    key: str  # the name of the key that signs the audit trail; not the key
    parts: dict[str, str]  # name and SHA-256
    format: int = FORMAT
    seal: str = ""  # a keyed hash of the other fields

    def compute_seal(self, secret: str) -> str:
        """Return the seal by a secret key of a server."""
        fields = {name: value for name, value in asdict(self).items() if name != "seal"}
        text = json.dumps(fields, sort_keys=True).encode()
        return hmac.new(derive_key(secret, "backup"), text, hashlib.sha256).hexdigest()


def write(path: Path, manifest: Manifest, parts: dict[str, Path]) -> Path:
    """Write a backup; once complete, it replaces the path."""
    with replace_when_complete(path) as draft:
        with draft.open("wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            _add_part(archive, MANIFEST, json.dumps(asdict(manifest), indent=1).encode())
            for name, part in parts.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.mtime = part.stat().st_size, 0o600, int(manifest.made_at)
                with part.open("rb") as source:
                    archive.addfile(entry, source)
        check(draft)
    return path


def check(path: Path) -> Manifest:
    """Read the backup and compare its checksums; raises BackupError."""
    with _open_archive(path) as archive:
        manifest = _read_manifest(archive, path)
        for name, digest in manifest.parts.items():
            with _open_part(archive, name, path) as source:
                if _hash_stream(source) != digest:
                    raise BackupError(f"{path} is damaged: {name} does not match its checksum.")
    return manifest


def unpack(path: Path, name: str, target: Path) -> None:
    """Write a part of the backup to a new private file."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file, _open_archive(path) as archive, _open_part(archive, name, path) as source:
        shutil.copyfileobj(source, file, _PIECE)
        file.flush()
        os.fsync(file.fileno())


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as source:
        return _hash_stream(source)


@contextmanager
def replace_when_complete(path: Path) -> Iterator[Path]:
    """Yield an empty file that replaces the path if the block succeeds.

    It is next to the path, and only its owner can read it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())  # a power cut must not leave an empty file in its place
        draft.replace(path)
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        draft.unlink(missing_ok=True)


def _add_part(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o600
    archive.addfile(entry, io.BytesIO(content))


@contextmanager
def _open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:") as archive:
            yield archive
    except FileNotFoundError as error:
        raise BackupError(f"File not found: {path}.") from error
    except (tarfile.TarError, EOFError) as error:
        raise BackupError(f"{path} is not a backup, or is damaged: {error}.") from error
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror or error}.") from error


def _read_manifest(archive: tarfile.TarFile, path: Path) -> Manifest:
    try:
        with _open_part(archive, MANIFEST, path) as source:
            content: dict[str, Any] = json.loads(source.read(_PIECE))
        if content["format"] > FORMAT:
            raise BackupError(f"{path} was made by Toolcards {content['version']}. Install that version to restore it.")
        return _check_types(Manifest(**content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BackupError(f"{path} is not a backup of Toolcards: its manifest cannot be read.") from error


def _check_types(manifest: Manifest) -> Manifest:
    """Return the manifest; raises TypeError."""
    names = [
        manifest.version,
        manifest.store,
        manifest.key,
        manifest.seal,
        *manifest.migrations,
        *manifest.parts.values(),
    ]
    has_time = isinstance(manifest.made_at, (int, float)) and 0 <= manifest.made_at < 1e11
    if not has_time or not isinstance(manifest.migrations, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("a field has another type")
    return manifest


@contextmanager
def _open_part(archive: tarfile.TarFile, name: str, path: Path) -> Iterator[IO[bytes]]:
    try:
        member = archive.getmember(name)
        is_plain = member.isreg() and not member.issparse() and member.size <= path.stat().st_size
        source = archive.extractfile(member) if is_plain else None
    except KeyError:
        source = None
    if source is None:
        raise BackupError(f"{path} is not a backup of Toolcards, or is damaged: it has no {name}.")
    with source:
        yield source


def _hash_stream(source: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := source.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
