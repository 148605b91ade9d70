"""How far a long computation has come, for whoever wants to show it.

Nothing is shown unless someone watches. What is reported is computed from what will be published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Watcher = Callable[[str, float], None]  # the stage, and the share of it that is done

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """While this lasts, progress is told to `watcher`."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def progress(stage: str, share: float) -> None:
    watcher = _watcher.get()
    if watcher is not None:
        watcher(stage, share)
