"""Making a plan: what a user says, checked, with everything that follows from it filled in."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from oboro.dynamics.calibration import MARGIN, check_alpha
from oboro.dynamics.operators import PARTS, Operator, check_horizon, check_protect
from oboro.dynamics.plan import METHODS, SignalPlan, check_facts, check_place_of_sigma
from oboro.dynamics.sigma import check_condition, distance_in, read_sigma
from oboro.dynamics.sizing import default_step, needed_scale, rounded_root, sensitivity
from oboro.dynamics.system import Matrix, System, system_from
from oboro.errors import ParameterError, setting, told
from oboro.exact import Number, positive, rational
from oboro.kinds import list_of, names_of, takes
from oboro.ledger import Ledger
from oboro.privacy import Approx, Pure, Unit
from oboro.release import Release, run


@takes(unit=Unit)
def plan(
    system: Any,
    *,
    unit: Unit,
    horizon: int,
    eps: Number,
    delta: Number | None = None,
    alpha: Number = "1.5",
    where: str | None = None,
    noise: str | None = None,
    method: str | None = None,
    sigma: Any = None,
    protect: Sequence[str] = PARTS,
    x0: Sequence[Number] | None = None,
    step: Number | None = None,
    limit: Number | None = None,
    columns: Sequence[str] | str | None = None,
) -> SignalPlan:
    """A plan for the output of `system` over times 0 to `horizon`: the paper's Problem 1, solved.

    `unit` is `Unit.signal(distance, norm)`. Without `delta` the promise is pure, which needs noise="shared",
    alpha below 2 and few numbers. `alpha` is the tail index: 2 is Gaussian, smaller hides larger outliers
    under more noise. where="input" (the default) is the least noise that the paper's condition (10) allows.
    noise="independent" hides an outlier at one time; "shared" is the paper's, one A for the whole record;
    "discrete" is discrete Gaussian given A. `sigma` is the paper's Theorem 1 as it stands: noise SG(alpha,
    sigma) on the output, shared, refused if condition (10) does not hold (see `design`). `x0` here is a public
    start, for protect=("u",). `step` is the grid of the noisy numbers, `limit` what they are clamped to,
    `columns` the names of the inputs in a table.
    """
    promise: Approx | Pure = (
        Pure(positive("eps", eps))
        if delta is None
        else Approx(positive("eps", eps), positive("delta", delta))
    )
    where = where if where is not None else ("input" if sigma is None else "output")
    noise = noise if noise is not None else ("independent" if sigma is None else "shared")
    if method is None and isinstance(noise, str) and noise in METHODS:
        method = METHODS[noise][0] if delta is not None else "pure"
    check_alpha(alpha)
    tail = rational("alpha", alpha)
    if tail == 2 and noise == "independent":
        method = "mixture"  # Gaussian numbers are independent already: the exact Gaussian delta holds, no majorant is needed
    if horizon is None:
        raise ParameterError(
            "a plan needs a last time",
            given=told(horizon="None"),
            needed="a whole number",
            fix=setting(horizon=200),
        )
    model, last, parts = system_from(system), check_horizon(horizon), check_protect(protect)
    check_facts(model, last, unit, promise, tail, where, noise, str(method), parts)
    shape: Matrix = ()
    if sigma is not None:
        check_place_of_sigma(where, noise)
        shape = read_sigma(sigma, Operator(model, last, parts).shape[0])
    grid, scale = _sized(model, last, unit, promise, tail, where, noise, str(method), parts, shape, step)
    return SignalPlan(
        system=model,
        horizon=last,
        unit=unit,
        guarantee=promise,
        alpha=tail,
        where=where,
        noise=noise,
        method=str(method),
        scale=scale,
        step=grid,
        limit=grid * 2**50 if limit is None else positive("limit", limit),
        protect=parts,
        start=() if x0 is None else tuple(rational("x0", x) for x in _listed(x0)),
        columns=_columns(columns, model),
        sigma=shape,
    )


def _sized(
    system: System,
    horizon: int,
    unit: Unit,
    promise: Approx | Pure,
    alpha: Fraction,
    where: str,
    noise: str,
    method: str,
    parts: tuple[str, ...],
    sigma: Matrix,
    step: Number | None,
) -> tuple[Fraction, Fraction]:
    """The grid and the scale: the least that the calibration allows, with its margin."""
    operator = Operator(system, horizon, parts)
    dims = operator.shape[1 if where == "input" else 0]
    if sigma:
        reach = distance_in(system, horizon, unit, parts, sigma)
        check_condition(needed_scale(reach, promise, alpha, method, dims, MARGIN / 2))
        narrowest = min(rounded_root(sigma[i][i]) for i in range(dims))
        return default_step(narrowest) if step is None else positive("step", step), Fraction(1)
    if step is None:
        plain = sensitivity(system, horizon, unit, where, parts, "", Fraction(1))
        grid = default_step(plain / (isqrt(operator.coordinates) + 1 if noise == "discrete" else 1))
    else:
        grid = positive("step", step)
    reach = sensitivity(system, horizon, unit, where, parts, noise, grid)
    return grid, needed_scale(reach, promise, alpha, method, dims)


@takes(plan=SignalPlan, ledger=Ledger)
def release(u: Any, plan: SignalPlan, *, ledger: Ledger, x0: Any = None, name: str | None = None) -> Release:
    """Runs `plan` on an input signal and a private start, and pays for it from `ledger`."""
    if x0 is not None and "x0" not in plan.protect:
        raise ParameterError(
            "x0 is not protected by this plan",
            given="x0 with the data",
            needed="a public start in the plan",
            fix=told(x0="x0"),
        )
    return run(plan, {"u": u, "x0": x0}, ledger, name)


def _listed(x0: Any) -> list[Any]:
    return list_of("x0", x0.tolist() if hasattr(x0, "tolist") else x0)


def _columns(columns: Any, system: System) -> tuple[str, ...]:
    if columns is None:
        return ("u",) if system.inputs == 1 else tuple(f"u{i + 1}" for i in range(system.inputs))
    return (columns,) if isinstance(columns, str) else tuple(names_of("columns", columns))
