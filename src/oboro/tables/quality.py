"""How far a published table is from the true one, by block size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oboro.arrays import Integers
from oboro.tables.cells import Cells
from oboro.tables.layout import Layout


@dataclass(frozen=True, slots=True)
class BlockError:
    """Error over all aligned blocks of 2^height cells, impossible blocks left out where they are known."""

    height: int
    blocks: int
    rmse: float
    mae: float


def heights(bits: int) -> list[int]:
    """Blocks of 1, 4, 16, ... cells, and all cells together."""
    return sorted({*range(0, bits + 1, 2), bits})


def block_errors(
    truth: Cells, published: Cells, layout: Layout, sizes: Sequence[int] | None = None
) -> list[BlockError]:
    """Works on non-empty cells alone: the domain may be of any size."""
    keys = np.concatenate([truth.keys, published.keys])
    off = np.concatenate([truth.counts, -published.counts])
    order = np.argsort(keys, kind="stable")
    keys, off = keys[order], off[order]
    errors = []
    for height in sorted(heights(layout.bits) if sizes is None else sizes):
        keys, off = _joined(keys, off, height)
        blocks = _blocks(layout, height)
        sizes_off = np.abs(off).astype(float)
        errors.append(
            BlockError(
                height, blocks, float(np.sqrt((sizes_off**2).sum() / blocks)), float(sizes_off.sum() / blocks)
            )
        )
        keys = keys << height
    return errors


def dense_block_errors(
    truth: Integers, published: Integers, sizes: Sequence[int] | None = None
) -> list[BlockError]:
    """The same for arrays of all 2^k cells in Morton order; `published` may be fractions or negative."""
    bits = truth.size.bit_length() - 1
    off = np.asarray(published, float) - truth
    errors = []
    for height in sorted(heights(bits) if sizes is None else sizes):
        blocks = off.reshape(-1, 1 << height).sum(axis=1)
        errors.append(
            BlockError(
                height, blocks.size, float(np.sqrt(np.mean(blocks**2))), float(np.mean(np.abs(blocks)))
            )
        )
    return errors


def _joined(keys: Integers, off: Integers, height: int) -> tuple[Integers, Integers]:
    """Sums over neighbours that share all but the last `height` bits. Keys are sorted."""
    heads = keys >> height
    starts = np.flatnonzero(np.diff(heads, prepend=-1))
    return heads[starts], np.add.reduceat(off, starts) if starts.size else off[:0]


def _blocks(layout: Layout, height: int) -> int:
    """How many blocks of this height are possible; those that a mask rules out still count where it is coarser."""
    count = 1
    for size, places in zip(layout.sizes, layout.pattern, strict=True):
        below = sum(place < height for place in places)
        count *= -(-size // (1 << below))
    return count
