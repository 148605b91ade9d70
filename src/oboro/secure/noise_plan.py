"""A noise plan: urns, and the promise that a draw from them keeps. Made of public facts; anyone can check it.

`planner` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from oboro.domain import read_toml
from oboro.errors import GuaranteeError, ParameterError, setting, told
from oboro.exact import about, remembered, show, whole
from oboro.kinds import path_of, shown, takes, text_of
from oboro.ledger import plan_hash
from oboro.noise.bits import Bits
from oboro.privacy import Approx
from oboro.privacy.guarantee import round_up
from oboro.records import Columns, check_fields, inline, read_fields, write_fields
from oboro.secure.batch import MOST_ANSWERS, different, joint_delta
from oboro.secure.digits import lower_bound, optimum
from oboro.secure.elgamal import CIPHERTEXT
from oboro.secure.law import (
    MOST_DRAWS,
    Between,
    Law,
    Urn,
    conditions,
    drawer_delta,
    exact_delta,
    keeps,
    law_of,
)

MOST_SENT = 2**22  # entries that two parties encrypt, send and check for one answer
METHODS = ("digits", "paper", "printed")
MOST_URNS = 16
_NO_PROMISE = 1 - Fraction(1, 2**60)  # a delta of 1 promises nothing, and is not written down


@dataclass(frozen=True)
class NoisePlan:
    """Noise that is the sum of `draws` entries from each urn; for a batch of `answers`, each with entries of its own.

    Privacy
        An answer that one unit moves by at most `sensitivity`, plus this noise, is (eps, delta)-DP: delta(eps) is computed
        with integers, for every shift, whenever a plan comes into being. Each draw has an urn of its own in the protocol, so
        the party that knows its indices has no advantage: given indices into freshly shuffled urns the entries
        are still independent and of the same law.

        Of a batch one unit moves one answer, by at most `sensitivity`; the answers share the urns, no entry is drawn twice,
        and delta(eps) is that of all noisy answers together (`oboro.secure.batch` has the proof).

        method="printed" is Protocol 1 as the paper prints it: all draws from one urn, with replacement. Its delta(eps) is
        that of the party that draws, which knows which of its indices coincide (`drawer_delta`); nobody else's is larger, since
        others see the same noisy answer and less besides.

    >>> noise.save("noise.toml")
    >>> ob.secure.NoisePlan.load("noise.toml") == noise
    True
    """

    promise: inline[Approx]
    sensitivity: int
    method: str
    urns: tuple[Urn, ...]
    draws: int = 1
    answers: int = 1
    kind = "secure.noise"

    def __post_init__(self) -> None:
        check_fields(self, "the noise plan")
        whole("sensitivity", self.sensitivity, least=1)
        whole("draws", self.draws, least=1, most=MOST_DRAWS)
        whole("answers", self.answers, least=1, most=MOST_ANSWERS)
        if self.method not in METHODS or not 1 <= len(self.urns) <= MOST_URNS:
            raise _no_plan(f"method={self.method!r}, {len(self.urns)} urns")
        if self.method == "printed":
            check_printed(self.answers, len(self.urns))
        if self.answers > min(urn.size for urn in self.urns):
            raise ParameterError(
                "there are more answers than entries in an urn",
                given=told(answers=f"{self.answers}"),
                needed=f"at most {min(urn.size for urn in self.urns):,}",
                fix="larger urns: oboro secure plan",
            )
        if not self.promise.covers(self.kept):
            raise GuaranteeError(
                "the noise does not keep its promise",
                given=f"delta({show(self.eps)}) = {about(self.kept.delta, 8)}",
                needed=f"at most {show(self.promise.delta)}",
                fix="oboro secure plan, or " + setting(method="digits"),
            )

    @property
    def eps(self) -> Fraction:
        return self.promise.eps

    @cached_property
    def law(self) -> Law:
        """The exact law of the noise."""
        return _law(self.urns, self.draws)

    @cached_property
    def kept(self) -> Approx:
        """What the noise keeps at eps, from above: nearly always settled by the first bits of delta."""
        found, wanted = _delta(self), self.promise.delta
        settled = (
            found.high <= wanted or not self._apart or not keeps(self.law, self.eps, wanted, self.sensitivity)
        )
        return Approx(self.eps, min(found.high, _NO_PROMISE) if settled else wanted)

    @property
    def _apart(self) -> bool:
        """Whether every draw has an urn of its own: then delta is that of the law of one noise."""
        return self.answers == 1 and self.method != "printed"

    @cached_property
    def delta(self) -> Fraction:
        """delta(eps), exactly where it is rational; otherwise rounded up in the fifteenth digit."""
        return rounded_up(_delta(self))

    @property
    def entries(self) -> int:
        """Entries of all urns. The paper's urn is counted once, though it is drawn from several times."""
        return sum(urn.size for urn in self.urns)

    @property
    def entries_sent(self) -> int:
        """Entries that P1 encrypts and sends, for all answers: the paper's urn once for every draw."""
        return sum(urn.size for urn in self.sent)

    @cached_property
    def mean_abs(self) -> Fraction:
        """E|Z|, exactly."""
        return self.law.mean_abs

    @property
    def optimum(self) -> float:
        """E|Z| of the discrete Laplace law at the same eps and sensitivity."""
        return optimum(self.eps, self.sensitivity)

    @property
    def fewest(self) -> int:
        """What no choice of as many draws can do better than, in entries."""
        draws = self.draws * len(self.urns)
        return lower_bound(self.promise.delta, draws) // self.draws

    @property
    def drawn(self) -> tuple[Urn, ...]:
        """The urn of every draw that one noise is made of."""
        return tuple(urn for urn in self.urns for _ in range(self.draws))

    @property
    def sent(self) -> tuple[Urn, ...]:
        """The urns as the protocol sends them: one for every draw, shuffled apart from one another.

        The paper draws several times from one urn. P2 knows its indices: two that are equal tell it that the
        noise is even, and two that differ that the entries do. method="printed" does that, and pays for it.
        """
        return self.urns if self.method == "printed" else self.drawn

    def picked(self, bits: Bits) -> list[list[int]]:
        """For each answer which of all entries sent are drawn: uniform, and no entry for two answers."""
        chosen: list[list[int]] = [[] for _ in range(self.answers)]
        start = 0
        for urn in self.sent:
            for _ in range(self.draws if self.method == "printed" else 1):
                for answer, index in zip(chosen, different(urn.size, self.answers, 1, bits)[0], strict=True):
                    answer.append(start + int(index))
            start += urn.size
        return chosen

    def check_sendable(self) -> None:
        """Refuses urns that nobody would encrypt for one answer."""
        entries = self.entries_sent
        if entries > MOST_SENT:
            raise ParameterError(
                "the urns are too large to be sent",
                given=f"{entries:,} entries",
                needed=f"at most {MOST_SENT:,}",
                fix=setting(method="digits", urns=4),
            )

    @cached_property
    def hash(self) -> str:
        """What both parties compare."""
        return plan_hash(self.to_dict())

    def to_dict(self) -> dict[str, object]:
        """The canonical form: the fields, and what anyone can compute from them, which shows if a file was altered."""
        return {**write_fields(self), "draws": self.draws} | self._told

    def as_record(self, columns: Columns | None) -> dict[str, object]:
        return self.to_dict()

    @property
    def _told(self) -> dict[str, object]:
        return {
            "entries": self.entries,
            "exact_delta": show(self.delta),
            "mean_abs": show(self.mean_abs),
        }

    @classmethod
    def from_record(cls, record: object, columns: Columns | None, where: str) -> NoisePlan:
        """Reads a plan from someone else: every part is checked, the promise too."""
        if type(record) is not dict or record.get("kind") != cls.kind:
            raise _no_plan(f"kind={shown(record.get('kind') if type(record) is dict else record)}")
        given = dict(record)
        told = {name: given.pop(name, None) for name in ("entries", "exact_delta", "mean_abs")}
        plan = read_fields(cls, given, where)
        for name, actual in plan._told.items():
            if type(told[name]) is not type(actual) or told[name] != actual:
                raise ParameterError(
                    "the noise plan was altered",
                    given=(f"{name} = {told[name]}" if name in record else f"no {name}")[:100],
                    needed=f"{name} = {actual}"[:100],
                    fix="the file as `oboro secure plan` wrote it",
                )
        return plan

    @takes(path=path_of)
    def save(self, path: str | Path) -> None:
        """Writes the plan as TOML."""
        import tomli_w

        from oboro.files import write_whole

        write_whole(Path(path), tomli_w.dumps(self.to_dict()).encode())

    @classmethod
    def load(cls, path: str | Path) -> NoisePlan:
        """Reads a plan from TOML and verifies it."""
        return cls.from_record(read_toml(path), None, "the noise plan")

    def __str__(self) -> str:
        kind = {
            "digits": "digit urns",
            "paper": f"an urn drawn {self.draws} times (Algorithm 2)",
            "printed": f"one urn drawn {self.draws} times by one party, as printed",
        }[self.method]
        worse = 100 * (float(self.mean_abs) / self.optimum - 1)
        found = _delta(self)
        exact = found.high - found.low <= found.high / 2**60
        shared = "" if self.answers == 1 else f"  answers      {self.answers}, all from the same urns\n"
        fewest = f"; no fewer than {self.fewest:,} will do" if self._apart else ""
        size = CIPHERTEXT * self.entries_sent
        return (
            f"noise from {kind}\n"
            f"  promise      {self.promise}, sensitivity {self.sensitivity}\n{shared}"
            f"  {'exact delta ' if exact else 'delta up to '} {about(self.delta, 12)}\n"
            f"  entries      {self.entries:,} in {len(self.urns)}{fewest}\n"
            f"  sent         {self.entries_sent:,} entries, {size:,} bytes\n"
            f"  E|Z|         {about(self.mean_abs, 6)}, {worse:.2f}% above the discrete Laplace law's {about(self.optimum, 6)}\n"
            f"  values       {self.law.lowest} to {self.law.highest}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` found. Both deltas lie between two rationals.

    >>> ob.secure.verify(noise).conditions
    {'i': True, 'ii': True, 'iii': True, 'iv': True, 'v': True}
    """

    plan: NoisePlan = field(repr=False)
    delta: Between
    conditions: dict[str, bool]  # of Theorem 4.1: enough, but not needed

    @property
    def promise(self) -> Approx:
        return self.plan.promise

    @property
    def drawer(self) -> Between:
        """delta of one answer for a party that drew every entry from the same urn, as in the paper, and knows its indices.

        Computed when it is asked for: it takes longer than all the rest, and no promise of oboro's protocol needs it.
        """
        return _drawer_delta(self.plan)


@takes(plan=NoisePlan, view=text_of)
def verify(plan: NoisePlan, *, view: str = "everyone") -> Verdict:
    """Checks the promise with integers and certified bounds on e^eps; raises GuaranteeError if it fails.

    view="everyone" is the promise to all who see the noisy answer, the parties of oboro's protocol among them.
    view="drawer" is that to a party that drew several times from one urn, as in the paper, and knows its indices.

    >>> found = ob.secure.verify(noise)
    >>> float(found.delta.high)
    0.0002687...
    """
    if view not in ("everyone", "drawer"):
        raise ParameterError(
            "view is unknown",
            given=told(view=repr(view)),
            needed='"everyone" or "drawer"',
            fix=setting(view="drawer"),
        )
    eps, delta = plan.promise.eps, plan.promise.delta
    found = _delta(plan) if view == "everyone" else _drawer_delta(plan)
    if found.high > delta if view == "drawer" else not plan.promise.covers(plan.kept):
        raise GuaranteeError(
            "the noise does not keep its promise",
            given=f"delta({show(eps)}) = {about(found.high, 8)}",
            needed=f"at most {show(delta)}",
            fix="oboro secure plan, or " + setting(method="digits"),
        )
    return Verdict(plan, _delta(plan), conditions(plan.law, eps, delta, plan.sensitivity))


def check_printed(answers: int, urns: int) -> None:
    """The paper's protocol gives one noise from one urn. Repeated, as its section 3.2 has it, noises would share entries."""
    if answers > 1 or urns > 1:
        raise ParameterError(
            "the protocol as printed gives one noise from one urn",
            given=told(answers=f"{answers}") + f", {urns} urns",
            needed="one of each: whoever draws would know which noises share entries",
            fix=setting(method="digits"),
        )


def _no_plan(given: str) -> ParameterError:
    return ParameterError(
        "this is not a noise plan",
        given=given[:100],
        needed=told(kind=repr(NoisePlan.kind)) + f", method digits, paper or printed, 1 to {MOST_URNS} urns",
        fix="oboro secure plan --eps 1 --delta 1e-10 -o noise.toml",
    )


@remembered(32)
def _law(urns: tuple[Urn, ...], draws: int) -> Law:
    return law_of(urns, draws)


@remembered(32)
def _delta(plan: NoisePlan) -> Between:
    if plan.method == "printed":
        return _drawer_delta(plan)
    if plan.answers > 1:
        spare = plan.promise.delta / 8  # of the promise, for what a bound leaves aside
        return joint_delta(plan.sent, plan.answers, plan.eps, plan.sensitivity, spare=spare)
    return exact_delta(plan.law, plan.eps, plan.sensitivity)


@remembered(32)
def _drawer_delta(plan: NoisePlan) -> Between:
    if plan.draws == 1:
        return exact_delta(plan.law, plan.eps, plan.sensitivity)
    return drawer_delta(plan.urns[0], plan.draws, plan.eps, plan.sensitivity)


def rounded_up(number: Between) -> Fraction:
    from oboro.noise.lazy import ball

    return number.high if number.low == number.high else round_up(lambda: ball(number.high))
