"""The storage of static files: names with hashes, in the imports of the page scripts too."""

from __future__ import annotations

from django.contrib.staticfiles.storage import HashedFilesMixin
from servestatic.storage import CompressedManifestStaticFilesStorage


class HashedStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Hash the names of static files, and follow the imports of the page's own modules.

    Two addresses of one module would be two modules, each with a state of its own. The files under `clients/` are
    copied to agents as they are; their imports lead to places that exist only there.
    """

    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("toolcards/*.js", HashedFilesMixin._js_module_import_aggregation_patterns[1]),  # type: ignore[attr-defined]
    )
