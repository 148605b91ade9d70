"""Random bits, exact samplers, certified rounding.

`DiscreteLaplace` and `DiscreteGaussian` are the noise of every integer mechanism. The continuous laws, rounded to a
public grid by `round_to_grid` and `sample_rounded`, load when they are asked for.

Its examples begin with:

>>> import oboro as ob
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oboro.noise.bits import Bits, system_bits
from oboro.noise.gaussian import DiscreteGaussian
from oboro.noise.laplace import DiscreteLaplace

if TYPE_CHECKING:
    from oboro.noise.draws import (
        bernoulli,
        bernoulli_exp,
        binomial,
        choose,
        exponential_mechanism,
        permutation,
        shuffle,
        uniform_integer,
        uniform_integers,
    )
    from oboro.noise.laws import Cauchy, Laplace, Normal, PositiveStable, StudentT
    from oboro.noise.rounding import round_to_grid, sample_rounded
    from oboro.noise.selection import permute_and_flip

_HOME = {
    **dict.fromkeys(("Cauchy", "Laplace", "Normal", "PositiveStable", "StudentT"), "laws"),
    **dict.fromkeys(("round_to_grid", "sample_rounded"), "rounding"),
    "binomial": "draws",
    "permute_and_flip": "selection",
    **dict.fromkeys(("bernoulli", "bernoulli_exp", "choose", "exponential_mechanism"), "draws"),
    **dict.fromkeys(("permutation", "shuffle", "uniform_integer", "uniform_integers"), "draws"),
}

__all__ = [
    "Bits",
    "Cauchy",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Laplace",
    "Normal",
    "PositiveStable",
    "StudentT",
    "bernoulli",
    "bernoulli_exp",
    "binomial",
    "choose",
    "exponential_mechanism",
    "permutation",
    "permute_and_flip",
    "round_to_grid",
    "sample_rounded",
    "shuffle",
    "system_bits",
    "uniform_integer",
    "uniform_integers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'oboro.noise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"oboro.noise.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
