"""Records from a law of bins: first the bins, then a block of codes within each, then a code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oboro.arrays import Floats, Integers
from oboro.errors import ParameterError, told
from oboro.synth.binning import Binned
from oboro.synth.conditions import Segments, Wanted, restricted
from oboro.synth.inference import Law
from oboro.synth.junction import spread_evenly, with_evidence


class Sampler(Protocol):
    """Draws records as codes, one array for each column."""

    def draw(self, n: int, wanted: Mapping[int, Wanted], rng: np.random.Generator) -> list[Integers]: ...


@dataclass(frozen=True, slots=True)
class TreeSampler:
    """A junction tree over bins."""

    law: Law
    bins: tuple[Binned, ...]

    def draw(self, n: int, wanted: Mapping[int, Wanted], rng: np.random.Generator) -> list[Integers]:
        segments = [restricted(column.shape, wanted.get(i)) for i, column in enumerate(self.bins)]
        evidence = {i: self._kept(i, segments[i]) for i in wanted}
        potentials = with_evidence(self.law.junction, self.law.potentials, evidence)
        laws = self.law.junction.marginals(potentials)
        for i, weight in evidence.items():  # what is excluded has no share at all, not even a tiny one
            laws = [
                _cleared(law, clique, i, weight)
                for law, clique in zip(laws, self.law.junction.cliques, strict=True)
            ]
        drawn = self.law.junction.draw(laws, n, rng)
        return [codes_within(column, segments[i], drawn[i], rng) for i, column in enumerate(self.bins)]

    def _kept(self, i: int, segments: Segments) -> Floats:
        """Which share of each bin is wanted; a bin that is believed empty counts by how many of its codes are."""
        column = self.bins[i]
        bins = column.bin[segments.block]
        mass, whole = np.bincount(bins, segments.mass, minlength=column.size), column.mass
        codes = np.bincount(bins, segments.stop - segments.start, minlength=column.size)
        every = np.bincount(column.bin, column.shape.stop - column.shape.start, minlength=column.size)
        kept = np.where(whole > 0, mass / np.maximum(whole, 1e-12), codes / every)
        if not kept.any():  # nothing is believed to be there: then all of what is wanted is alike
            kept = codes / every
        if not kept.any():
            raise ParameterError(
                "the model gives these values no chance",
                given=told(where="..."),
                needed="values that can occur",
            )
        return kept


def codes_within(column: Binned, segments: Segments, bins: Integers, rng: np.random.Generator) -> Integers:
    """A code for each record, given its bin."""
    owner = column.bin[segments.block]
    order = np.argsort(owner, kind="stable")
    values = segments.start < column.shape.values  # an empty bin is drawn from evenly, but never gives a null
    mass = (segments.mass + 1e-9 * values * (segments.stop - segments.start))[order]
    first = np.searchsorted(owner[order], np.arange(column.size))
    place = np.empty(bins.size, np.int64)
    for b in range(column.size):
        inside = np.flatnonzero(bins == b)
        if inside.size:
            last = first[b + 1] if b + 1 < column.size else owner.size
            law = mass[first[b] : last][None, :]
            place[inside] = first[b] + spread_evenly(law, np.zeros(inside.size, np.int64), rng)
    chosen = order[place]
    width = segments.stop[chosen] - segments.start[chosen]
    return np.asarray(
        segments.start[chosen] + np.minimum((rng.random(bins.size) * width).astype(np.int64), width - 1)
    )


def _cleared(law: Floats, clique: Sequence[int], column: int, weight: Floats) -> Floats:
    if column not in clique:
        return law
    keep = (weight > 0).reshape([-1 if axis == column else 1 for axis in clique])
    cleared = np.where(keep, law, 0.0)
    return cleared / max(float(cleared.sum()), 1e-300)
