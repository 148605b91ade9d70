"""A progress bar on anything over a second: on stderr, and only on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from oboro.cli.terminal import is_watched
from oboro.language import said

_PATIENCE = 1.0  # seconds


@contextmanager
def progress_bar() -> Iterator[None]:
    """Shows what `oboro.tables.progress` reports while this lasts."""
    if not is_watched():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from oboro.tables.progress import watched

    started = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    tasks: dict[str, TaskID] = {}

    def show(stage: str, share: float) -> None:
        if time.monotonic() - started < _PATIENCE:
            return
        if not tasks:
            bar.start()
        if stage not in tasks:
            tasks[stage] = bar.add_task(said(stage), total=1.0)
        bar.update(tasks[stage], completed=share)

    try:
        with watched(show):
            yield
    finally:
        bar.stop()
