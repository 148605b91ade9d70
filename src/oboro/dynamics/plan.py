"""The output of a linear system, with stable noise on its input or on its output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np

from oboro.arrays import Floats, Integers, Table
from oboro.dynamics.calibration import MARGIN, check_alpha
from oboro.dynamics.laws import EllipticalNoise, StableNoise, Truth, Values
from oboro.dynamics.sigma import (
    check_condition,
    check_sigma,
    default_step,
    distance_in,
    kept_delta,
    needed_scale,
    read_sigma,
    rounded_root,
    sensitivity,
)
from oboro.dynamics.signal import (
    Record,
    error_scales,
    error_sizes,
    forecast_of,
    interval_columns,
    read_record,
)
from oboro.dynamics.system import (
    IDENTITY,
    PARTS,
    Matrix,
    Operator,
    System,
    check_horizon,
    check_protect,
    protects_nothing_known,
    respond,
    system_from,
)
from oboro.engine import Source
from oboro.errors import DomainError, GuaranteeError, ParameterError, UnitError, setting, told
from oboro.exact import Number, positive, rational, show, usable
from oboro.kinds import list_of, names_of, takes, text_of, unknown
from oboro.ledger import Ledger
from oboro.noise import Bits
from oboro.privacy import Approx, Guarantee, Pure, Unit
from oboro.release import Forecast, Pair, Part, Plan, Release, register, run

WHERE = ("input", "output")
METHODS = {  # what each kind of noise may be calibrated by, the default first
    "independent": ("independent",),
    "shared": ("mixture", "theorem1", "exact", "pure"),
    "discrete": ("discrete",),
}
_MOST_STEPS = 2**45  # of a scale


@register
@dataclass(frozen=True, kw_only=True)
class SignalPlan(Plan):
    """The output of `system` over times 0 to `horizon`, for a private input, a private start, or both.

    Privacy
        Neighbours are records (x0, u) within `unit.distance` in the unit's p-norm, hence within
        c = distance * N^max(0, 1/2 - 1/p) in the Euclidean norm, N protected numbers [Hölder].
        where="input": every protected number gets noise, and what is published is a function of the noisy
        numbers, so the system does not matter: the sensitivity is c. where="output": the outputs get noise,
        and the outputs of neighbours are within c ||M||, or for p < 2 distance times the norm of M from p
        to 2, which is its longest column for p = 1: certified upper bounds (gains.py).
        With z = sensitivity / scale the promise is delta(z), by a proof for each noise: "independent" (own
        noise for every number), the Gaussian delta at kappa z (score.py); "shared" (one A for the record), Theorem 1 [Ito, Kawano,
        Kashima], the mixture, the exact delta or the pure eps; "discrete", zCDP given A [Canonne, Kamath,
        Steinke 2020]. The proofs stand in calibration.py, score.py and radial.py.
        With `sigma` the outputs get sqrt(A) L G, L L' = sigma: given A, Gaussian noise of covariance A sigma.
        Multiplied by L^-1, which is known to all and can be undone, it is the noise above of scale 1, and the
        outputs of neighbours are within c ||L^-1 M|| of one another. That is the sensitivity, an upper bound
        proved in ball arithmetic (sigma.py). Sensitivity <= z is the paper's condition (10).
        The noisy reals are rounded to a public grid by certified rounding (laws.py):
        post-processing.
        "discrete" puts the values on the grid first, which adds step * sqrt(N) to c.
        `protect` names what is private; x0 that is not is public, and part of the plan. Every run draws its
        own A.

    >>> plan.where, plan.noise, plan.dims
    ('input', 'independent', 5)
    >>> plan.band(0.95).shape
    (4, 1)
    """

    system: System
    horizon: int
    unit: Unit
    guarantee: Approx | Pure
    alpha: Fraction
    where: str
    noise: str
    method: str
    scale: Fraction
    step: Fraction
    limit: Fraction
    protect: tuple[str, ...] = PARTS
    start: tuple[Fraction, ...] = ()
    columns: tuple[str, ...] = ("u",)
    sigma: Matrix = ()
    kind = "dynamics.signal"
    interval_in_files = True
    leaves_out = (
        "covers the noise; not rounding to the grid, nor samples that were missing or beyond the limit"
    )

    def check(self) -> None:
        check_facts(
            self.system,
            self.horizon,
            self.unit,
            self.guarantee,
            self.alpha,
            self.where,
            self.noise,
            self.method,
            self.protect,
        )
        usable("scale", positive("scale", self.scale), (-300, 300))
        for name in ("step", "limit"):
            usable(name, positive(name, getattr(self, name)))
        if self.sigma:
            check_place_of_sigma(self.where, self.noise)
            check_sigma(self.sigma, self.dims)
            if self.scale != 1:
                raise ParameterError(
                    "sigma says how large the noise is",
                    given=told(scale=show(self.scale)),
                    needed=setting(scale=1) + " beside sigma",
                    fix=setting(scale=1),
                )
        widest = max(self.widths)
        if widest / self.step > _MOST_STEPS:
            raise ParameterError(
                "the grid is too fine for the noise", given=told(step=show(self.step), scale=show(widest)), needed="a scale of at most 2^45 steps",
                fix=setting(step=show(default_step(widest))),
            )  # fmt: skip
        self._check_start()
        if len(self.columns) != self.system.inputs or not all(text_of("columns", c) for c in self.columns):
            raise DomainError(
                "columns do not fit the system",
                given=", ".join(self.columns),
                needed=f"{self.system.inputs}, one for each input",
                fix=setting(columns=_as_many(self.system.inputs)),
            )

    def _check_start(self) -> None:
        if self.start and "x0" in self.protect:
            raise ParameterError(
                "a protected start is not part of the plan", given="x0 with " + told(protect="'x0'"), needed="x0 with the data",
                fix=setting(x0=None),
            )  # fmt: skip
        if self.start and len(self.start) != self.system.states:
            raise DomainError(
                "x0 does not fit the system",
                given=f"{len(self.start)} numbers",
                needed=str(self.system.states),
                fix=setting(x0=None),
            )
        for x in self.start:
            usable("x0", x)

    @cached_property
    def sensitivity(self) -> Fraction:
        """How far apart neighbours are where the noise is added, in the norm of the noise: an upper bound."""
        if self.sigma:
            return distance_in(self.system, self.horizon, self.unit, self.protect, self.sigma)
        return sensitivity(
            self.system, self.horizon, self.unit, self.where, self.protect, self.noise, self.step
        )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """One noise on all numbers; what it keeps at eps is delta(z), z = sensitivity / scale."""
        noise, eps = self.mechanism, self.guarantee.eps
        lost = kept_delta(self.sensitivity, noise.scale, eps, self.alpha, self.method, self.dims)
        if lost >= 1:
            raise GuaranteeError(
                "the noise of the plan does not keep its promise",
                given=f"{self.guarantee}, " + told(scale=show(noise.scale)),
                needed="a larger scale",
                fix="a plan as its function makes it",
            )
        what = "every output" if self.where == "output" else " and ".join(self.protect)
        return (Part(noise, what, self.sensitivity, Approx(eps, lost)),)

    @property
    def slowness(self) -> int:
        return 20 if self.noise == "discrete" else 1

    @property
    def dims(self) -> int:
        """How many numbers get noise."""
        return Operator(self.system, self.horizon, self.protect).shape[1 if self.where == "input" else 0]

    @property
    def widths(self) -> tuple[Fraction, ...]:
        """The scale of the noise, or with sigma about that of each output."""
        return tuple(rounded_root(self.sigma[i][i]) for i in range(len(self.sigma))) or (self.scale,)

    @cached_property
    def mechanism(self) -> StableNoise | EllipticalNoise:
        if self.sigma:
            return EllipticalNoise(self.alpha, self.sigma, self.step)
        return StableNoise(self.alpha, self.scale, self.step, self.noise != "independent")

    @cached_property
    def error_scales(self) -> Floats:
        """The scale of the stable error of each output at each time."""
        return error_scales(self)

    @property
    def public_start(self) -> Floats:
        """x0 where it is not protected."""
        return np.array([float(x) for x in self.start]) if self.start else np.zeros(self.system.states)

    def forecast(self, expected_sd: Number | None = None) -> Forecast:
        """Errors over time. With `expected_sd`, how far the output is thought to vary, also what single samples and means are good for.

        >>> print(plan.forecast(expected_sd="0.5").notes[-1])
        means of 2 samples in a row: 95% within ±10.68
        """
        return forecast_of(self, None if expected_sd is None else positive("expected_sd", expected_sd))

    def band(self, level: float = 0.95) -> Floats:
        """How far off each output at each time is with probability `level`: shape (horizon + 1, outputs)."""
        return error_sizes(self, level)

    def could_promise(self, guarantee: Guarantee) -> bool:
        """Without a delta there is shared noise alone, by another method."""
        return isinstance(guarantee, Approx) and super().could_promise(guarantee)

    def look(self, source: Source) -> None:
        source.need(*self.columns)

    def prepare(self, data: object) -> Record:
        return read_record(
            data,
            states=self.system.states,
            inputs=self.system.inputs,
            most=self.horizon + 1,
            columns=self.columns,
            limit=float(self.limit),
        )

    def measure(self, prepared: Record, bits: Bits, trials: int | None = None) -> Integers:
        """Noisy grid indices: of x0 and u, as far as they are protected, or of the outputs."""
        count = 1 if trials is None else trials
        if self.where == "output":
            record = self._public_parts(prepared)
            noisy = self.mechanism.add(Truth(self.system, record.x0, record.u).values(), bits, count)
        else:
            mechanism = self.mechanism
            assert isinstance(mechanism, StableNoise)  # sigma is for the output
            parts = {"x0": prepared.x0, "u": prepared.u.ravel()}
            values = np.concatenate([parts[name] for name in self.protect])
            if self.noise == "discrete":
                from oboro.dynamics.laws import add_discrete

                noisy = add_discrete(mechanism, values, bits, count)
            else:
                noisy = mechanism.add(Values.of(values), bits, count)
        return noisy[0] if trials is None else noisy

    def outputs(self, measured: Integers) -> Floats:
        """The noisy outputs, shape (samples, outputs): the response to the noisy numbers, or these themselves."""
        values = measured.astype(np.float64) * float(self.step)
        if self.where == "output":
            return values.reshape(-1, self.system.outputs)
        states = self.system.states if "x0" in self.protect else 0
        noisy = Record(values[:states], values[states:].reshape(-1, self.system.inputs))
        if "u" not in self.protect:
            noisy = Record(values, np.zeros((self.horizon + 1, self.system.inputs)))
        with np.errstate(over="ignore", invalid="ignore"):
            return respond(self.system, noisy.x0 if states else self.public_start, noisy.u)

    @property
    def published_rows(self) -> int:
        return (self.horizon + 1) * self.system.outputs

    def publish(self, measured: Integers) -> Table:
        return table_of(self.outputs(measured))

    def intervals(self, table: Table, level: float) -> tuple[Floats, Floats]:
        """For each output the range that holds the true one with this probability."""
        return interval_columns(self, table, level)

    def describe(self) -> dict[str, object]:
        states = "1 state" if self.system.states == 1 else f"{self.system.states} states"
        what = f"output of a system of {states} over times 0 to {self.horizon}"
        if self.system == system_from(IDENTITY, self.system.inputs):
            what = f"signal itself over times 0 to {self.horizon}"
        law = self.mechanism.to_dict()
        if self.noise == "discrete":
            law["law"] = "discrete Gaussian, one A for the record"
        return {
            "released": f"{what}, noise on the {self.where}",
            "noise": {**law, "sensitivity": show(self.sensitivity), "calibration": self.method},
        }

    def random_pair(self, random: np.random.Generator) -> Pair:
        from oboro.dynamics.signal import random_pair

        return random_pair(self, random)

    def neighbours(self) -> Iterator[Pair]:
        """The largest change in one number; spread over many; and, for output noise, where the gain is attained."""
        from oboro.dynamics.signal import worst_pairs

        yield from worst_pairs(self)

    def _public_parts(self, record: Record) -> Record:
        """What is not protected is public, and the same for everybody."""
        return Record(
            record.x0 if "x0" in self.protect else self.public_start,
            record.u if "u" in self.protect else np.zeros((self.horizon + 1, self.system.inputs)),
        )


def check_facts(
    system: System,
    horizon: int,
    unit: Unit,
    guarantee: Guarantee,
    alpha: Fraction,
    where: str,
    noise: str,
    method: str,
    protect: tuple[str, ...],
) -> None:
    """Refuses what a plan cannot be sized for, whatever its scale and its grid."""
    check_alpha(alpha)
    if check_protect(protect) != protect:
        raise protects_nothing_known(protect)
    check_horizon(horizon)
    if unit.kind != "signal":
        raise UnitError(
            "a system's input is a signal",
            given=str(unit),
            needed="a unit of signals",
            fix=setting(unit=Unit.signal(1)),
        )
    usable("distance", unit.distance or Fraction(0), (-250, 250))
    check_words(where, noise, method, guarantee, alpha)
    if Operator(system, horizon, protect).coordinates == 0:
        raise DomainError(
            "nothing is protected",
            given=told(protect="('x0',)") + " and a system without states",
            fix=setting(protect=("u",)),
        )


def check_words(where: str, noise: str, method: str, guarantee: Guarantee, alpha: Fraction) -> None:
    if not isinstance(where, str) or where not in WHERE:
        raise unknown("where", where, ["input", "output"])
    if not isinstance(noise, str) or noise not in METHODS:
        raise unknown("noise", noise, METHODS)
    if noise == "discrete" and where == "output":
        raise ParameterError(
            "discrete noise is for the input",
            given=told(where='"output"'),
            needed=setting(where="input"),
            fix=setting(noise="shared"),
        )
    allowed = METHODS[noise] if alpha < 2 or noise != "independent" else ("mixture",)
    if method not in allowed:
        raise ParameterError(
            f"noise {noise!r} cannot be calibrated by {method!r}",
            given=told(method=repr(method)) + (", no delta" if method == "pure" else ""),
            needed=" or ".join(allowed),
            fix=setting(noise="shared") if method in METHODS["shared"] else setting(method=allowed[0]),
        )
    if isinstance(guarantee, Pure) != (method == "pure") or not isinstance(guarantee, Pure | Approx):
        raise GuaranteeError(
            "the guarantee does not fit the method", given=f"{guarantee}, " + told(method=repr(method)), needed="delta, or " + setting(method="pure"),
            fix=setting(delta="1e-5") if isinstance(guarantee, Pure) else setting(delta=None),
        )  # fmt: skip


def check_place_of_sigma(where: str, noise: str) -> None:
    if (where, noise) != ("output", "shared"):
        raise ParameterError(
            "sigma is the shape of shared noise on the output",
            given=told(where=repr(where), noise=repr(noise)),
            needed=setting(where="output", noise="shared"),
            fix=told(sigma="sigma") + ", without where and noise",
        )


def table_of(y: Floats) -> Table:
    """Outputs over time as the table that goes out: t and y, with the number of the output if there are several."""
    import pyarrow as pa

    times, channels = y.shape
    if channels == 1:
        return pa.table({"t": np.arange(times), "y": y[:, 0]})
    t, output = np.repeat(np.arange(times), channels), np.tile(np.arange(1, channels + 1), times)
    return pa.table({"t": t, "output": output, "y": y.ravel()})


# Making a plan: what a user says, checked, with everything that follows from it filled in.


@takes(unit=Unit)
def plan(
    system: object,
    *,
    unit: Unit,
    horizon: int,
    eps: Number,
    delta: Number | None = None,
    alpha: Number = "1.5",
    where: str | None = None,
    noise: str | None = None,
    method: str | None = None,
    sigma: object = None,
    protect: Sequence[str] = PARTS,
    x0: Sequence[Number] | None = None,
    step: Number | None = None,
    limit: Number | None = None,
    columns: Sequence[str] | str | None = None,
) -> SignalPlan:
    """A plan for the output of `system` over times 0 to `horizon`: the paper's Problem 1, solved.

    system="identity" publishes the signal itself. `unit` is `Unit.signal(distance, norm)`. Without `delta` the promise is pure, which needs noise="shared",
    alpha below 2 and few numbers. `alpha` is the tail index: 2 is Gaussian, smaller hides larger outliers
    under more noise. where="input" (the default) is the least noise that the paper's condition (10) allows.
    noise="independent" hides an outlier at one time; "shared" is the paper's, one A for the whole record;
    "discrete" is discrete Gaussian given A. `sigma` is the paper's Theorem 1 as it stands: noise SG(alpha,
    sigma) on the output, shared, refused if condition (10) does not hold (see `design`). `x0` here is a public
    start, for protect=("u",). `step` is the grid of the noisy numbers, `limit` what they are clamped to,
    `columns` the names of the inputs in a table.

    >>> plan = ob.dynamics.plan(feeder, unit=unit, horizon=335, eps=1, delta="1e-3", alpha="1.5")
    >>> print(plan.forecast())
    expected error of the output over time
      time  median |error|  95% within ±
      0              1.797         8.311
      1              1.657         7.663
      2              1.532         7.088
      5              1.238         5.726
      10            0.9388         4.342
      20            0.7122         3.294
      50            0.6481         2.997
      100           0.6475         2.995
      200           0.6475         2.995
      335           0.6475         2.995
      note: noise of scale 1.85449 on 337 numbers, calibrated by 'independent'
      note: heavy tails: there is no variance; now and then an error is much larger
      note: with expected_sd, how far the output varies, it says what single samples will be good for
    """
    promise: Approx | Pure = (
        Pure(positive("eps", eps))
        if delta is None
        else Approx(positive("eps", eps), positive("delta", delta))
    )
    where = where if where is not None else ("input" if sigma is None else "output")
    noise = noise if noise is not None else ("independent" if sigma is None else "shared")
    if method is None and delta is None and noise == "independent":
        raise GuaranteeError(
            "independent noise needs a delta",
            given="no delta",
            needed="a delta; or shared noise, for few numbers",
            fix=setting(delta="1e-5"),
        )
    if method is None and isinstance(noise, str) and noise in METHODS:
        method = METHODS[noise][0] if delta is not None else "pure"
    check_alpha(alpha)
    tail = rational("alpha", alpha)
    if tail == 2 and noise == "independent":
        method = "mixture"  # Gaussian numbers are independent already: the exact Gaussian delta holds
    if horizon is None:
        raise ParameterError(
            "a plan needs a last time",
            given=told(horizon="None"),
            needed="a whole number",
            fix=setting(horizon=200),
        )
    width = len(names_of("columns", columns)) if columns is not None and not isinstance(columns, str) else 1
    model, last, parts = system_from(system, max(width, 1)), check_horizon(horizon), check_protect(protect)
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
def release(
    u: object, plan: SignalPlan, *, ledger: Ledger, x0: object = None, name: str | None = None
) -> Release:
    """Runs `plan` on an input signal and a private start, and pays for it from `ledger`.

    >>> release = ob.dynamics.release([1, 0, 2, 0], plan, x0=[0.5], ledger=ledger)
    >>> release.to_arrow().column_names, release.to_arrow().num_rows, ledger.remaining
    (['t', 'y'], 4, Approx(0, 0))
    """
    check_private_start(plan, x0)
    return run(plan, {"u": u, "x0": x0}, ledger, name)


def check_private_start(plan: SignalPlan, x0: object) -> None:
    """Refuses a start with the data where the plan has a public one."""
    if x0 is not None and "x0" not in plan.protect:
        raise ParameterError(
            "x0 is not protected by this plan",
            given="x0 with the data",
            needed="a public start in the plan",
            fix=setting(x0=None),
        )


def _as_many(inputs: int) -> str | list[str]:
    """As many names as there are inputs."""
    return "u" if inputs == 1 else [f"u{i}" for i in range(1, inputs + 1)]


def _listed(x0: object) -> list[object]:
    return list_of("x0", x0.tolist() if hasattr(x0, "tolist") else x0)


def _columns(columns: Sequence[str] | str | None, system: System) -> tuple[str, ...]:
    if columns is None:
        return ("u",) if system.inputs == 1 else tuple(f"u{i + 1}" for i in range(system.inputs))
    return (columns,) if isinstance(columns, str) else tuple(names_of("columns", columns))
