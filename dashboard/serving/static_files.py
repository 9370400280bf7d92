"""The storage of static files: hashed names, also in the imports of the page scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.contrib.staticfiles.storage import HashedFilesMixin
from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from servestatic.storage import CompressedManifestStaticFilesStorage

_COMMENT = re.compile(r"^ *(?:/\*\*.*?\*/|//.*?$)\n?", re.MULTILINE | re.DOTALL)  # whole lines only


class HashedStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Hashes the names of static files, and updates the imports of page modules.

    One module at two addresses would be two modules with separate states. The files under `clients/` are copied to
    agents unchanged, because their imports lead to places that exist only there.
    """

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
