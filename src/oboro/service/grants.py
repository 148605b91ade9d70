"""What is granted: an amount in the currency of a dataset's budget."""

from __future__ import annotations

from oboro.errors import ParameterError, setting
from oboro.exact import Number
from oboro.privacy import ZCDP, Approx, Guarantee, Pure


def amount_of(budget: Guarantee, eps: Number | None, delta: Number | None, rho: Number | None) -> Guarantee:
    """eps and delta, or rho, as the budget counts them."""
    if (eps is None) == (rho is None):
        raise ParameterError(
            "say eps, or rho",
            given="neither" if eps is None else "both",
            needed="the currency of the budget",
            fix=setting(eps="0.5"),
        )
    if rho is not None:
        return ZCDP(rho)
    assert eps is not None
    return (
        Approx(eps, 0 if delta is None else delta) if isinstance(budget.unconditional, Approx) else Pure(eps)
    )
