"""The storage of static files: hashed names, also in the imports of the page scripts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
from django.conf import settings
from django.contrib.staticfiles.storage import HashedFilesMixin
from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from servestatic.compress import Compressor
from servestatic.storage import CompressedManifestStaticFilesStorage

_COMMENT = re.compile(r"^ *(?:/\*\*.*?\*/|//.*?$)\n?", re.MULTILINE | re.DOTALL)  # whole lines only


class HashedStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Hashes the names of static files, and updates the imports of page modules.

    One module at two addresses would be two modules with separate states. The files under `clients/` are copied to
    agents unchanged, because their imports lead to places that exist only there.
    """

    max_post_process_passes = 12  # each pass settles at least one level of the imports of page scripts
    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("toolcards/*.js", HashedFilesMixin._js_module_import_aggregation_patterns[1]),  # type: ignore[attr-defined]
    )

    def post_process(
        self, paths: dict[str, tuple[Storage, str]], dry_run: bool = False, **options: Any
    ) -> Iterator[tuple[str, str, bool]]:
        """Write the hashed files.

        Page scripts are written without their comments, which are a third of them.
        """
        scripts = {name for name in paths if name.startswith("toolcards/") and name.endswith(".js")}
        sources = {
            name: (_Uncommented(storage) if name in scripts else storage, path)
            for name, (storage, path) in paths.items()
        }
        yield from super().post_process(sources, dry_run, **options)

    def create_compressor(self, **kwargs: Any) -> Compressor:
        """Return what compresses the files, also those of the Django admin."""
        return _SelectiveCompressor(**kwargs)


class _QuickCompressor(Compressor):
    """Compresses an eighth less in a fiftieth of the time."""

    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        """Return the compressed data."""
        compressed_data: bytes = brotli.compress(data, quality=6)
        return compressed_data


class _SelectiveCompressor(Compressor):
    """Compresses our own files as well as possible, and those of the Django admin quickly.

    These are most of the files, and few people open them. The first start waits for all of them.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._quick_compressor = _QuickCompressor(**kwargs)

    def compress(self, path: str | os.PathLike[str]) -> list[str]:
        """Write the compressed variants of the file; return their paths."""
        is_of_admin = Path(path).is_relative_to(Path(settings.STATIC_ROOT) / "admin")
        compressed_paths: list[str] = self._quick_compressor.compress(path) if is_of_admin else super().compress(path)
        return compressed_paths


class _Uncommented:
    """Opens the scripts of another storage without their comments."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def open(self, path: str) -> File[bytes]:
        """Return the script without the lines that are comments."""
        with self._storage.open(path) as script:
            return ContentFile(remove_comments(script.read().decode()).encode(), path)


def remove_comments(script: str) -> str:
    """Return the script without the lines that are comments."""
    return _COMMENT.sub("", script)
