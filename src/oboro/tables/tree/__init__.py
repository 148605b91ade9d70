"""Counts at a few levels of a product lattice, planned for what readers ask."""

from oboro.tables.tree.workload import (
    Workload,
    areas,
    blocks,
    cells,
    marginals,
    never_worse,
    rectangles,
    squares,
)

__all__ = ["Workload", "areas", "blocks", "cells", "marginals", "never_worse", "rectangles", "squares"]
