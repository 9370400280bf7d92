"""The storage of static files: hashed names, also in the imports of the page scripts."""

from __future__ import annotations

from django.contrib.staticfiles.storage import HashedFilesMixin
from servestatic.storage import CompressedManifestStaticFilesStorage


class HashedStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Hashes the names of static files, and updates the imports of page modules.

    One module at two addresses would be two modules with separate states. The files under `clients/` are copied to
    agents unchanged, because their imports lead to places that exist only there.
    """

    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("toolcards/*.js", HashedFilesMixin._js_module_import_aggregation_patterns[1]),  # type: ignore[attr-defined]
    )
