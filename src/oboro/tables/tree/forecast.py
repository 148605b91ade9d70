"""What a steward shows the boss before spending: errors by area and by category, and what they mean for cells.

The errors are exact, for numbers before they are kept at 0 or more. Which cells can be trusted, and how many will
show people though nobody is there, depends on how people live. With `expected_total` the method is tried out on the
generated city (city.py), thinned or filled to that many people: made-up data, and made-up noise from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from oboro.exact import about
from oboro.privacy import Unit
from oboro.release import Forecast
from oboro.tables.layout import Layout
from oboro.tables.tree.design import Design, Noise, precision
from oboro.tables.tree.lattice import Floats, Integers, Lattice, Level, Tree, lattice_of
from oboro.tables.tree.project import project, spine_of
from oboro.tables.tree.solve import least_squares, moments
from oboro.tables.tree.workload import block

_WITHIN = math.log(20) / math.sqrt(2)  # the 95% point of Laplace noise in standard errors; sums have less
_TRUSTED = 0.2
_TRIED = 2**18  # leaves of the made-up table
_MOST_ROWS = 48
_NAMED = 8  # levels that are named, those with the largest shares


def tree_forecast(
    layout: Layout,
    design: Design,
    eps: Fraction,
    unit: Unit,
    expected_total: int | None,
    notes: Sequence[str],
) -> Forecast:
    """Errors of the nodes of levels: areas by all of the other columns together, and by each of them."""
    lattice = lattice_of(layout.domain)
    noises = design.noises(eps, unit)
    mu = moments(lattice, design.levels, [precision(noise) for noise in noises])
    rows = []
    for level in areas(lattice):
        profile = np.ones(())
        for tree, at in zip(lattice.trees, level, strict=True):
            profile = np.multiply.outer(profile, block(tree, at))
        error = math.sqrt(float((profile / mu).sum()))
        size = lattice.under(level)
        rows.append((lattice.name(level), size, error, _WITHIN * error, _WITHIN * error / _TRUSTED))
    measured = sorted(zip(design.shares, design.levels, strict=True), reverse=True)
    named = [f"{lattice.name(level)} ({float(share):.1%})" for share, level in measured[:_NAMED]]
    more = [f"{len(measured) - _NAMED} more"] if len(measured) > _NAMED else []
    lines = [
        "before counts are kept at 0 or more, which mostly makes errors smaller (single sizes have reached 1.2 times the figure)",
        *notes,
        "measured: " + "; ".join([*named, *more]),
    ]
    if expected_total is not None:
        lines += tried_out(lattice, layout.cells, design, tuple(noises), expected_total)
    columns = ("area", "cells", "standard error", "95% within ±", "trusted at ±20% from")
    return Forecast("expected error of a table by tree, by area", columns, tuple(rows), tuple(lines))


def areas(lattice: Lattice) -> list[Level]:
    """Levels that people ask about: each of the places, times all or each of every other column."""
    spine = spine_of(lattice)
    tree = lattice.trees[spine]
    named = [level for level, _ in tree.labels]
    every = [0, *(named or range(1, tree.depth + 1))]
    others = [
        [at] if i == spine else ([0, t.depth] if t.depth else [0])
        for i, t in enumerate(lattice.trees)
        for at in [0]
    ]
    if len(every) * math.prod(len(o) for i, o in enumerate(others) if i != spine) > _MOST_ROWS:
        others = [[0, t.depth] if t.depth else [0] for t in lattice.trees]
        every = [0, tree.depth]
    others[spine] = every
    found = list(product(*others))
    return sorted(found, key=lambda level: (lattice.under(level), level), reverse=False)[:_MOST_ROWS]


@lru_cache(maxsize=16)
def tried_out(
    lattice: Lattice, cells: int, design: Design, noises: tuple[Noise, ...], total: int
) -> tuple[str, ...]:
    """How many cells can be trusted, and how many show people where nobody is, on made-up data."""
    small, levels, kept = _smaller(lattice, design, noises)
    rng = np.random.default_rng(4)
    truth = _people(small, total / cells * small.leaves, rng)
    noisy = [
        np.asarray(small.sums(truth, level), np.int64)
        + np.rint(rng.laplace(0, noise.sd / math.sqrt(2), small.nodes(level))).astype(np.int64)
        for level, noise in zip(levels, kept, strict=True)
    ]
    found = least_squares(small, levels, [precision(noise) for noise in kept], noisy)
    published = project(small, found, None)
    shown, lived = published > 0, truth > 0
    empty = int((shown & ~lived).sum()) / max(int(shown.sum()), 1)
    near = np.abs(published - truth) <= _TRUSTED * truth
    trusted = int((near & lived).sum()) / max(int(lived.sum()), 1)
    people = int(truth[near & lived].sum()) / max(int(truth.sum()), 1)
    return (
        f"if {total:,} people lived as in the generated city, {about(100 * trusted, 2)}% of the inhabited cells, with "
        f"{about(100 * people, 2)}% of the people, would be within 20% of the truth",
        f"and {about(100 * float(shown.mean()), 2)}% of all cells would be published, "
        f"{about(100 * empty, 2)}% of which hold nobody in truth",
    )


def _smaller(
    lattice: Lattice, design: Design, noises: Sequence[Noise]
) -> tuple[Lattice, list[Level], list[Noise]]:
    """The same lattice without the first divisions of its places: a piece of the table, of a size that is quick."""
    spine = spine_of(lattice)
    tree, cut = lattice.trees[spine], 0
    others = lattice.leaves // tree.leaves
    while cut < tree.depth and others * tree.under(cut) > _TRIED:
        cut += 1
    piece = replace(tree, steps=tree.steps[cut:], labels=())
    small = Lattice((*lattice.trees[:spine], piece, *lattice.trees[spine + 1 :]))
    levels, kept = [], []
    for level, noise in zip(design.levels, noises, strict=True):
        if level[spine] >= cut:
            levels.append((*level[:spine], level[spine] - cut, *level[spine + 1 :]))
            kept.append(noise)
    return small, levels, kept


def _people(lattice: Lattice, total: float, rng: np.random.Generator) -> Integers:
    """So many people, living as in the generated city, by chance in one of the values of the other columns."""
    from oboro.tables.city import city

    spine = spine_of(lattice)
    density = _city_in(lattice.trees[spine], city().astype(float))
    shape = [1] * len(lattice.trees)
    shape[spine] = -1
    everywhere = np.broadcast_to(density.reshape(shape), tuple(tree.leaves for tree in lattice.trees))
    return np.asarray(rng.poisson(everywhere * (total / everywhere.sum())), np.int64)


def _city_in(tree: Tree, city: Floats) -> Floats:
    """The city's density at the places of a column: its middle, along the first two directions."""
    lengths = [max(math.prod(tree.side(axis, 0) for axis in axes), 1) for axes in tree.directions] or [1]
    row, col = (
        np.linspace(0.5 - min(n / 1024, 0.5), 0.5 + min(n / 1024, 0.5), n, endpoint=False)
        for n in (*lengths, 1)[:2]
    )
    middle = city[(row * 512).astype(int)][:, (col * 512).astype(int)].reshape(-1) + 1e-3
    return np.resize(middle, tree.leaves)
