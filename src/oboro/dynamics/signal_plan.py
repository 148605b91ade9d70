"""The output of a linear system, with stable noise on its input or on its output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from oboro.dynamics.bands import error_sizes, forecast_of, interval_columns
from oboro.dynamics.elliptical import EllipticalNoise
from oboro.dynamics.noising import StableNoise, Values
from oboro.dynamics.operators import PARTS, Operator, respond
from oboro.dynamics.sigma import distance_in
from oboro.dynamics.signal import Record, read_record
from oboro.dynamics.sizing import sensitivity
from oboro.dynamics.system import Matrix, System, system_from
from oboro.dynamics.truth import Truth
from oboro.exact import show
from oboro.noise import Bits
from oboro.privacy import Approx, Pure, Unit, guarantee_from, unit_from
from oboro.release import Forecast, Pair, register

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class SignalPlan:
    """The output of `system` over times 0 to `horizon`, for a private input, a private start, or both.

    Privacy
        Neighbours are records (x0, u) within `unit.distance` in the unit's p-norm, hence within
        c = distance * N^max(0, 1/2 - 1/p) in the Euclidean norm, N protected numbers [Hölder].
        where="input": every protected number gets noise, and what is published is a function of the noisy
        numbers, so the system does not matter: the sensitivity is c. where="output": the outputs get noise,
        and the outputs of neighbours are within c ||M||, a certified upper bound (gains.py).
        With z = sensitivity / scale the promise is delta(z), by a proof for each noise: "independent" (own
        noise for every number), the convex majorant; "shared" (one A for the record), Theorem 1 [Ito, Kawano,
        Kashima], the mixture, the exact delta or the pure eps; "discrete", zCDP given A [Canonne, Kamath,
        Steinke 2020]. The proofs stand in calibration.py and radial.py.
        With `sigma` the outputs get sqrt(A) L G, L L' = sigma: given A, Gaussian noise of covariance A sigma.
        Multiplied by L^-1, which is known to all and can be undone, it is the noise above of scale 1, and the
        outputs of neighbours are within c ||L^-1 M|| of one another. That is the sensitivity, an upper bound
        proved in ball arithmetic (sigma.py). Sensitivity <= z is the paper's condition (10).
        The noisy reals are rounded to a public grid by certified rounding (noising.py, elliptical.py):
        post-processing.
        "discrete" puts the values on the grid first, which adds step * sqrt(N) to c.
        `protect` names what is private; x0 that is not is public, and part of the plan. Every run draws its
        own A.
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
    leaves_out = (
        "covers the noise; not rounding to the grid, nor samples that were missing or beyond the limit"
    )

    @property
    def sensitivity(self) -> Fraction:
        """How far apart neighbours are where the noise is added, in the norm of the noise: an upper bound."""
        if self.sigma:
            return distance_in(self.system, self.horizon, self.unit, self.protect, self.sigma)
        return sensitivity(
            self.system, self.horizon, self.unit, self.where, self.protect, self.noise, self.step
        )

    @property
    def dims(self) -> int:
        """How many numbers get noise."""
        return Operator(self.system, self.horizon, self.protect).shape[1 if self.where == "input" else 0]

    @property
    def mechanism(self) -> StableNoise | EllipticalNoise:
        if self.sigma:
            return EllipticalNoise(self.alpha, self.sigma, self.step)
        return StableNoise(self.alpha, self.scale, self.step, self.noise != "independent")

    @property
    def public_start(self) -> Floats:
        """x0 where it is not protected."""
        return np.array([float(x) for x in self.start]) if self.start else np.zeros(self.system.states)

    def forecast(self) -> Forecast:
        return forecast_of(self)

    def band(self, level: float = 0.95) -> Floats:
        """How far off each output at each time is with probability `level`: shape (horizon + 1, outputs)."""
        return error_sizes(self, level)

    def prepare(self, data: Any) -> Record:
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
                from oboro.dynamics.discrete import add_discrete

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

    def publish(self, measured: Integers) -> Any:
        return table_of(self.outputs(measured))

    def intervals(self, table: Any, level: float) -> tuple[Floats, Floats]:
        """For each output the range that holds the true one with this probability."""
        return interval_columns(self, table, level)

    def describe(self) -> dict[str, Any]:
        states = "1 state" if self.system.states == 1 else f"{self.system.states} states"
        what = f"output of a system of {states} over times 0 to {self.horizon}"
        law = self.mechanism.to_dict()
        if self.noise == "discrete":
            law["law"] = "discrete Gaussian, one A for the record"
        return {
            "released": f"{what}, noise on the {self.where}",
            "noise": {**law, "sensitivity": show(self.sensitivity), "calibration": self.method},
        }

    def neighbours(self) -> Iterator[Pair]:
        """The largest change in one number; spread over many; and, for output noise, where the gain is attained."""
        from oboro.dynamics.worst import worst_pairs

        yield from worst_pairs(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "system": self.system.to_dict(),
            "horizon": self.horizon,
            "unit": self.unit.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            **{name: getattr(self, name) for name in ("where", "noise", "method")},
            **{name: show(getattr(self, name)) for name in ("alpha", "scale", "step", "limit")},
            "protect": list(self.protect),
            "start": [show(x) for x in self.start],
            "columns": list(self.columns),
            **({"sigma": [[show(x) for x in row] for row in self.sigma]} if self.sigma else {}),
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> SignalPlan:
        from oboro.dynamics.making import make_plan

        guarantee = guarantee_from(record["guarantee"])
        return make_plan(
            system=system_from(record["system"]),
            horizon=record["horizon"],
            unit=unit_from(record["unit"]),
            guarantee=guarantee,
            **{
                name: record[name] for name in ("alpha", "where", "noise", "method", "scale", "step", "limit")
            },
            protect=tuple(record["protect"]),
            x0=record["start"] or None,
            columns=tuple(record["columns"]),
            sigma=record.get("sigma"),
        )

    def _public_parts(self, record: Record) -> Record:
        """What is not protected is public, and the same for everybody."""
        return Record(
            record.x0 if "x0" in self.protect else self.public_start,
            record.u if "u" in self.protect else np.zeros((self.horizon + 1, self.system.inputs)),
        )


def table_of(y: Floats) -> Any:
    """Outputs over time as the table that goes out: t and y, with the number of the output if there are several."""
    import pyarrow as pa

    times, channels = y.shape
    if channels == 1:
        return pa.table({"t": np.arange(times), "y": y[:, 0]})
    t, output = np.repeat(np.arange(times), channels), np.tile(np.arange(1, channels + 1), times)
    return pa.table({"t": t, "output": output, "y": y.ravel()})
