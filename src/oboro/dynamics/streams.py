"""A plan run in steps: the input comes in sample by sample, and each output goes out at once.

The whole horizon is reserved when the stream opens. A stream is not resumable and cannot be copied: with it
goes the one A of its record.

Closed loops
    The promise is that of the plan also where the input is u(t) = p(t) + k(t, what was published before): p private, neighbours within the unit's
    distance, and k any public rule, a controller. Given what was published k is the same for both neighbours, so the t-th noisy number
    (or, with where="output", the change of the t-th output, as the system is linear) differs between them as p does: what is published can be made from
    the noisy numbers of the open loop, z(t) = p(t) + noise, by a public rule. It is post-processing of the plan without a loop. The limit of the plan only brings p + k of
    two neighbours closer, by an amount that depends on the past; then each step is at most a Gaussian one of its distance (given A, or by score.py),
    and those add up also one after the other [Dong, Roth, Su 2022]. That is shown for noise on the input; "exact" and "pure" promise it as
    long as the limit is not reached.
    Where p itself reacts (a person who sees the output and changes their mind), neighbours may part by more than the unit's distance, and nothing is promised.
    Floats: p + k is rounded to 1e-16 of itself, which the unit's distance has to cover.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from types import TracebackType

import numpy as np

from oboro.arrays import Floats
from oboro.dynamics.laws import EllipticalNoise, Scale, Truth, one_by_one
from oboro.dynamics.plan import SignalPlan, check_private_start, table_of
from oboro.dynamics.signal import cleaned, one_sample, read_record
from oboro.errors import DataError, LedgerError, ParameterError, setting
from oboro.kinds import takes
from oboro.ledger import Ledger
from oboro.ledger.records import Reservation
from oboro.noise.bits import Bits, system_bits
from oboro.noise.lazy import Real
from oboro.release import Quote, Release, quote
from oboro.release.plan import made_again
from oboro.release.run import keep, reserve


@dataclass(eq=False, repr=False)
class Stream:
    """An open stream. `step` takes the input at one time and returns the output at that time, with noise.

    >>> stream = ob.dynamics.stream(plan, ledger=ledger, x0=[0.5])
    >>> output = stream.step(1)
    >>> stream.time, type(output), ledger.remaining
    (1, <class 'float'>, Approx(0, 0))
    """

    _quote: Quote
    ledger: Ledger
    name: str | None
    _reservation: Reservation
    _bits: Bits
    _scale: Scale
    _noise: Callable[[Fraction | Real], int]
    _x0: Floats
    _plan: SignalPlan = field(init=False)
    _state: Floats = field(init=False)
    _truth: Truth = field(init=False)
    _outputs: list[Floats] = field(default_factory=list)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._plan = made_from(self._quote)
        self._truth = Truth(self._plan.system, self._x0)
        states = (
            [self._noisy(x) for x in self._x0]
            if "x0" in self._plan.protect and self._plan.where == "input"
            else []
        )
        self._state = np.array(states) * float(self._plan.step) if states else self._x0

    @property
    def plan(self) -> SignalPlan:
        """The plan that is run, as a copy of your own: nothing done to it reaches the steps to come."""
        copy: SignalPlan = made_again(self._plan)
        return copy

    @property
    def time(self) -> int:
        """The time of the next step."""
        return len(self._outputs)

    def step(self, u: object) -> float | Floats:
        """The noisy output at the next time: a float, or an array if there are several outputs.

        An array that does not fit is refused by its shape. Anything else that is no sample is missing, and read as 0: it is
        paid for already, and no value may decide whether an error is raised.
        """
        plan = self._plan
        if self._closed or self.time > plan.horizon:
            raise ParameterError(
                "the stream has ended" if self._closed else "the stream is at its horizon",
                given=f"time {self.time}",
                needed=f"times 0 to {plan.horizon}, while it is open",
                fix=setting(horizon=max(2 * plan.horizon, 1)) + ", reserved as a whole",
            )
        sample = one_sample(u, plan.system.inputs)
        if sample.size != plan.system.inputs:
            raise DataError(
                "the sample does not fit the system",
                given=f"{sample.size} numbers",
                needed=str(plan.system.inputs),
                fix="stream.step(u[t])",
            )
        sample = cleaned(sample, float(plan.limit))
        if "u" not in plan.protect:
            sample = np.zeros(plan.system.inputs)
        y = self._from_output(sample) if plan.where == "output" else self._from_input(sample)
        self._outputs.append(y)
        return float(y[0]) if y.size == 1 else y

    def close(self) -> Release:
        """Ends the stream, stores what went out, and returns it as a release with a certificate."""
        if self._closed or not self._outputs:
            raise LedgerError(
                "the stream has nothing to store",
                given="closed already" if self._closed else "no step was made",
                needed="one step at least",
            )
        self._closed = True
        table = table_of(np.array(self._outputs))
        return keep(self._quote, self.ledger, self._reservation, table, self._bits)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed and self._outputs:
            self.close()

    def __getstate__(self) -> object:
        return self._scale.__getstate__()  # refuses: a copy would use the scale again

    def __copy__(self) -> object:
        return self._scale.__copy__()

    def __deepcopy__(self, memo: object) -> object:
        return self._scale.__deepcopy__(memo)

    def __repr__(self) -> str:
        return f"Stream(time {self.time} of 0 to {self._plan.horizon}, {self._plan.guarantee})"

    def _noisy(self, value: float | Real) -> int:
        exact = value if callable(value) else Fraction(float(value))
        self._scale.check()
        return self._noise(exact)

    def _from_input(self, sample: Floats) -> Floats:
        a, b, c, d = self._plan.system.arrays()
        noisy = sample
        if "u" in self._plan.protect:
            indices = [self._noisy(x) for x in sample]
            noisy = np.array(indices) * float(self._plan.step)
        y = c @ self._state + d @ noisy
        self._state = a @ self._state + b @ noisy
        return np.asarray(y)

    def _from_output(self, sample: Floats) -> Floats:
        self._truth.feed(sample)
        indices = [self._noisy(self._truth.output(self.time, j)) for j in range(self._plan.system.outputs)]
        return np.array(indices) * float(self._plan.step)


@takes(plan=SignalPlan, ledger=Ledger)
def stream(
    plan: SignalPlan, *, ledger: Ledger, x0: object = None, name: str | None = None, bits: Bits | None = None
) -> Stream:
    """Opens a stream: reserves the whole horizon, then draws A and the noise of the start. `bits` is for tests.

    >>> with_noise = ob.dynamics.stream(plan, ledger=ledger, x0=[0.5])
    >>> outputs = [with_noise.step(reading) for reading in (1, 0, 2, 0)]
    >>> len(outputs), with_noise.close().to_arrow().num_rows
    (4, 4)
    """
    quoted = quote(plan, ledger)
    plan = made_from(quoted)
    check_private_start(plan, x0)
    nothing = np.zeros((1, plan.system.inputs))
    record = read_record(
        {"u": nothing, "x0": x0},
        states=plan.system.states,
        inputs=plan.system.inputs,
        most=1,
        columns=plan.columns,
        limit=float(plan.limit),
    )
    start = record.x0 if "x0" in plan.protect else plan.public_start
    reservation = reserve(quoted, ledger, name)
    source = bits or system_bits()
    scale = Scale(plan.alpha, source)
    return Stream(quoted, ledger, name, reservation, source, scale, _noise_of(plan, scale, source), start)


def made_from(quoted: Quote) -> SignalPlan:
    assert isinstance(quoted.plan, SignalPlan)
    return quoted.plan


def _noise_of(plan: SignalPlan, scale: Scale, bits: Bits) -> Callable[[Fraction | Real], int]:
    """What adds noise to the numbers of one record, one after the other."""
    mechanism = plan.mechanism
    if isinstance(mechanism, EllipticalNoise):
        return mechanism.record(scale.take(), bits).add
    if plan.noise == "discrete":
        return one_by_one(mechanism, scale, bits)
    root = scale.take() if mechanism.shared else None
    return lambda value: mechanism.add_one(value, root, bits)
