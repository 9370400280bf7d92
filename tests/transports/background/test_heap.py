"""Memory that was freed returns to the system."""

from __future__ import annotations

import gc
import platform
from pathlib import Path

import pytest

from toolcards.transports.background import activity, heap


def read_memory() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to")
def test_free_memory_below_memory_in_use_returns_to_the_system() -> None:
    texts = [b"%d" % number * 10_000 for number in range(4_000)]  # below the size that glibc maps apart
    last = bytes(20_000)
    before = read_memory()
    texts.clear()
    heap.return_free_memory()
    assert before - read_memory() > 100 << 20 and len(last) == 20_000


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_find_trim", lambda: None)
    heap.return_free_memory()


@pytest.mark.django_db
def test_an_unused_process_collects_garbage_once_after_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "UNUSED_AFTER", -1.0)
    collections: list[str] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            collections.append(phase)

    def release_twice() -> None:
        collections.clear()
        heap.release_memory()
        heap.release_memory()

    gc.callbacks.append(count)
    try:
        for _ in range(2):
            with activity.use():
                pass
            release_twice()
            assert len(collections) == 1
        release_twice()
        assert not collections
    finally:
        gc.callbacks.remove(count)
