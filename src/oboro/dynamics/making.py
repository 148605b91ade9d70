"""Making a plan: what a user says, checked, with everything that follows from it filled in."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from oboro.dynamics.calibration import MARGIN, check_alpha
from oboro.dynamics.operators import PARTS, Operator, check_horizon, check_protect
from oboro.dynamics.sigma import check_condition, distance_in, read_sigma
from oboro.dynamics.signal_plan import SignalPlan
from oboro.dynamics.sizing import chosen_scale, default_step, needed_scale, rounded_root, sensitivity
from oboro.dynamics.system import Matrix, System, system_from
from oboro.errors import DomainError, GuaranteeError, ParameterError, UnitError
from oboro.exact import Number, positive, rational, show, usable
from oboro.kinds import takes, unknown
from oboro.ledger import Ledger
from oboro.privacy import Approx, Guarantee, Pure, Unit
from oboro.release import Release, run

WHERE = ("input", "output")
METHODS = {  # what each kind of noise may be calibrated by, the default first
    "independent": ("independent",),
    "shared": ("mixture", "theorem1", "exact", "pure"),
    "discrete": ("discrete",),
}


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
    promise: Guarantee = (
        Pure(positive("eps", eps))
        if delta is None
        else Approx(positive("eps", eps), positive("delta", delta))
    )
    where = where if where is not None else ("input" if sigma is None else "output")
    noise = noise if noise is not None else ("independent" if sigma is None else "shared")
    if method is None and isinstance(noise, str) and noise in METHODS:
        method = METHODS[noise][0] if delta is not None else "pure"
    return make_plan(
        system=system_from(system),
        horizon=horizon,
        unit=unit,
        guarantee=promise,
        alpha=alpha,
        where=where,
        noise=noise,
        method=str(method),
        scale=None,
        step=step,
        limit=limit,
        protect=protect,
        x0=x0,
        columns=columns,
        sigma=sigma,
    )


def make_plan(
    *,
    system: System,
    horizon: Any,
    unit: Unit,
    guarantee: Guarantee,
    alpha: Any,
    where: str,
    noise: str,
    method: str,
    scale: Any,
    step: Any,
    limit: Any,
    protect: Any,
    x0: Any,
    columns: Any,
    sigma: Any = None,
) -> SignalPlan:
    """Refuses what public facts rule out. A scale that is given must be at least what the calibration asks for."""
    check_alpha(alpha)
    parts = check_protect(protect)
    if horizon is None:
        raise ParameterError(
            "a plan needs a last time", given="horizon=None", needed="a whole number", fix="horizon=200"
        )
    last = check_horizon(horizon)
    if unit.kind != "signal":
        raise UnitError(
            "a system's input is a signal",
            given=str(unit),
            needed="Unit.signal",
            fix="unit=ob.Unit.signal(distance=1)",
        )
    tail = rational("alpha", alpha)
    if tail == 2 and noise == "independent":
        method = "mixture"  # Gaussian numbers are independent already: the exact Gaussian delta holds, no majorant is needed
    _check_words(where, noise, method, guarantee, tail)
    count = Operator(system, last, parts).coordinates
    if count == 0:
        raise DomainError(
            "nothing is protected", given="protect=('x0',) and a system without states", fix='protect=("u",)'
        )
    dims = Operator(system, last, parts).shape[1 if where == "input" else 0]
    assert isinstance(guarantee, Approx | Pure)
    shape: Matrix = ()
    if sigma is not None:
        _check_place_of_sigma(where, noise)
        shape = read_sigma(sigma, dims)
        reach = distance_in(system, last, unit, parts, shape)
        check_condition(needed_scale(reach, guarantee, tail, method, dims, MARGIN / 2))
        size, widths = Fraction(1), [rounded_root(shape[i][i]) for i in range(dims)]
        grid = default_step(min(widths)) if step is None else positive("step", step)
    else:
        plain = sensitivity(system, last, unit, where, parts, "", Fraction(1))
        if step is None:
            grid = default_step(plain / (isqrt(count) + 1 if noise == "discrete" else 1))
        else:
            grid = positive("step", step)
        reach = sensitivity(system, last, unit, where, parts, noise, grid)
        size = chosen_scale(scale, reach, guarantee, tail, method, dims)
        widths = [size]
    usable("step", grid)
    if limit is not None:
        usable("limit", positive("limit", limit))
    if max(widths) / grid > 2**45:
        raise ParameterError(
            "the grid is too fine for the noise", given=f"step={show(grid)}, scale={show(max(widths))}", needed="a scale of at most 2^45 steps",
            fix=f'step="{show(default_step(max(widths)))}"',
        )  # fmt: skip
    return SignalPlan(
        system=system,
        horizon=last,
        unit=unit,
        guarantee=guarantee,
        alpha=tail,
        where=where,
        noise=noise,
        method=method,
        scale=size,
        step=grid,
        limit=grid * 2**50 if limit is None else positive("limit", limit),
        protect=parts,
        start=_start(x0, system, parts),
        columns=_columns(columns, system),
        sigma=shape,
    )


@takes(plan=SignalPlan, ledger=Ledger)
def release(u: Any, plan: SignalPlan, *, ledger: Ledger, x0: Any = None, name: str | None = None) -> Release:
    """Runs `plan` on an input signal and a private start, and pays for it from `ledger`."""
    if x0 is not None and "x0" not in plan.protect:
        raise ParameterError(
            "x0 is not protected by this plan",
            given="x0 with the data",
            needed="a public start in the plan",
            fix="plan(..., x0=x0)",
        )
    return run(plan, {"u": u, "x0": x0}, ledger, name)


def _check_place_of_sigma(where: str, noise: str) -> None:
    if (where, noise) != ("output", "shared"):
        raise ParameterError(
            "sigma is the shape of shared noise on the output",
            given=f"where={where!r}, noise={noise!r}",
            needed='where="output", noise="shared"',
            fix="plan(..., sigma=sigma), without where and noise",
        )


def _check_words(where: str, noise: str, method: str, guarantee: Guarantee, alpha: Fraction) -> None:
    if not isinstance(where, str) or where not in WHERE:
        raise unknown("where", where, ["input", "output"])
    if not isinstance(noise, str) or noise not in METHODS:
        raise unknown("noise", noise, METHODS)
    if noise == "discrete" and where == "output":
        raise ParameterError(
            "discrete noise is for the input",
            given='where="output"',
            needed='where="input"',
            fix='noise="shared"',
        )
    allowed = METHODS[noise] if alpha < 2 or noise != "independent" else ("mixture",)
    if method not in allowed:
        raise ParameterError(
            f"noise {noise!r} cannot be calibrated by {method!r}",
            given=f"method={method!r}" + (", delta=None" if method == "pure" else ""),
            needed=" or ".join(allowed),
            fix='noise="shared"' if method in METHODS["shared"] else f'method="{allowed[0]}"',
        )
    if isinstance(guarantee, Pure) != (method == "pure") or not isinstance(guarantee, Pure | Approx):
        raise GuaranteeError(
            "the guarantee does not fit the method", given=f"{guarantee}, method={method!r}", needed="delta, or method='pure'",
            fix='delta="1e-5"',
        )  # fmt: skip


def _start(x0: Any, system: System, parts: tuple[str, ...]) -> tuple[Fraction, ...]:
    if x0 is None:
        return ()
    given = tuple(rational("x0", x) for x in (x0.tolist() if hasattr(x0, "tolist") else x0))
    if "x0" in parts:
        raise ParameterError(
            "a protected start is not part of the plan", given="x0 with protect='x0'", needed="x0 with the data",
            fix="release(u, plan, x0=x0, ledger=ledger)",
        )  # fmt: skip
    if len(given) != system.states:
        raise DomainError(
            "x0 does not fit the system",
            given=f"{len(given)} numbers",
            needed=str(system.states),
            fix="x0=None",
        )
    return given


def _columns(columns: Any, system: System) -> tuple[str, ...]:
    if columns is None:
        return ("u",) if system.inputs == 1 else tuple(f"u{i + 1}" for i in range(system.inputs))
    names = (columns,) if isinstance(columns, str) else tuple(str(name) for name in columns)
    if len(names) != system.inputs:
        raise DomainError(
            "columns do not fit the system",
            given=", ".join(names),
            needed=f"{system.inputs}, one for each input",
            fix='columns="u"',
        )
    return names
