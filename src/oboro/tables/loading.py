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

_TURN = 2e-6  # seconds; with the usual 5 ms the reader would wait for its turn most of the time


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

    with _no_search_for_blas():
        add_up(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)


@contextmanager
def _no_search_for_blas() -> Iterator[None]:
    """Numba imports SciPy's linear algebra only to see whether it is there. It is: oboro needs SciPy itself.

    About a sixth of the loading time. Whoever multiplies matrices in compiled code still has it loaded then.
    """
    from numba.np import linalg

    search = getattr(linalg, "ensure_blas", None)
    if search is None or "numba.np.arraymath" in sys.modules:
        yield
        return
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath

        numba.np.arraymath.ensure_blas = search
        yield
    finally:
        linalg.ensure_blas = search
