"""Small files that are replaced as a whole: what was there stays until what follows it is safe on the disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(target: Path, text: str) -> None:
    """Write the file, readable by its owner only; a failure leaves the old one, and no other."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())  # a power cut must not leave an empty file behind
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
