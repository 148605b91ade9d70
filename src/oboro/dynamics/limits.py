"""Numbers that floats can calculate with: neither they nor their squares run over."""

from __future__ import annotations

from fractions import Fraction

from oboro.errors import ParameterError
from oboro.exact import about


def usable(name: str, number: Fraction, digits: tuple[int, int] = (-100, 100)) -> float:
    """As a float; 0, or of a size between these powers of ten."""
    least, most = (Fraction(10) ** power for power in digits)
    if number == 0 or least <= abs(number) <= most:
        return float(number)
    raise ParameterError(
        f"{name} is beyond use",
        given=f"{name}={about(number)}",
        needed=f"from 1e{digits[0]} to 1e{digits[1]}",
        fix=f"{name}=1",
    )
