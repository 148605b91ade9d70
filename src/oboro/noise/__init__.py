"""Random bits, exact samplers, certified rounding."""

from oboro.noise.bits import Bits, system_bits
from oboro.noise.gaussian import DiscreteGaussian
from oboro.noise.laplace import DiscreteLaplace

__all__ = ["Bits", "DiscreteGaussian", "DiscreteLaplace", "system_bits"]
