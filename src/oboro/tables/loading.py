"""Loads the compiled loops while a large file is read.

Loading takes half a second, and most of the reading is done outside Python, by DuckDB and NumPy. So the two go
side by side. No noise is drawn here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import numpy as np

_TURN = 1e-4  # seconds; with the usual 5 ms the reader would wait for its turn most of the time


@contextmanager
def loops_loading(*, large: bool) -> Iterator[None]:
    """Runs the body with the loops being loaded beside it, if what it reads is large and they are not yet there."""
    if not large or "oboro.tables._compiled" in sys.modules:
        yield
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    loader = Thread(target=_load)
    loader.start()
    try:
        yield
    finally:
        loader.join()
        sys.setswitchinterval(usual)


def _load() -> None:
    from oboro.tables._compiled import add_up

    add_up(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
