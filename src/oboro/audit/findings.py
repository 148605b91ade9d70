"""What an attack found: one finding for each pair of neighbours and each form of the promise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from oboro.audit.events import Event
from oboro.exact import about, show
from oboro.language import plain
from oboro.privacy import Approx, Guarantee, Pure, Renyi

DELTAS = (Fraction(1, 100), Fraction(1, 10_000))  # where a Rényi or zCDP promise is looked at as (eps, delta)
ORDERS = (Fraction(2), Fraction(4))  # and the orders at which a zCDP promise is looked at
EXACT = 1e-12  # how well what is computed is known


@dataclass(frozen=True, slots=True)
class Finding:
    """One pair: what was promised, and what was certified by trials ("measured") or is so ("computed").

    With an `order` both are Rényi divergences of that order; otherwise both are eps at `delta`.

    >>> finding = ob.audit.exact(plan).closest
    >>> finding.why, finding.promised, finding.how
    ('one unit with all its rows, or nobody', Fraction(1, 2), 'computed')
    """

    why: str
    delta: Fraction
    promised: Fraction
    eps_lower: float
    event: Event | None
    how: str = "measured"
    order: Fraction | None = None

    @property
    def holds(self) -> bool:
        return self.eps_lower <= self.promised + (Fraction(EXACT) if self.how == "computed" else 0)

    @property
    def where(self) -> str:
        """ "at delta 0.01" or "of order 2"."""
        return f"at delta {about(self.delta)}" if self.order is None else f"of order {show(self.order)}"

    def to_dict(self) -> dict[str, object]:
        return {
            "pair": self.why,
            "how": self.how,
            **({"delta": float(self.delta)} if self.order is None else {"order": float(self.order)}),
            "promised": float(self.promised),
            "eps_lower": self.eps_lower if self.eps_lower < float("inf") else "infinite",
            "holds": self.holds,
        }

    def __str__(self) -> str:
        sign = "<=" if self.holds else ">"
        what = "eps" if self.order is None else "divergence"
        is_so = "=" if self.how == "computed" else ">="
        return (
            f"{self.how} {what} {is_so} {about(self.eps_lower)} {sign} {about(self.promised)} promised "
            f"{self.where}: {self.why}"
        )


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an attack found. `eps_lower` is certified: larger than the truth with probability below 1e-6.

    >>> print(ob.audit.exact(plan))
    holds: statistics.histogram, eps = 0.5, computed
      computed eps = 0.5 <= 0.5 promised at delta 0: one unit with all its rows, or nobody
      computed eps = 0.5 <= 0.5 promised at delta 0: one unit with all its rows, or nobody
    """

    plan: str
    guarantee: Guarantee
    trials: int
    findings: tuple[Finding, ...]
    name: str = ""

    @property
    def eps_lower(self) -> float:
        """The largest eps that was certified, at a promised delta."""
        return max((finding.eps_lower for finding in self.findings if finding.order is None), default=0.0)

    @property
    def verdict(self) -> str:
        """ "holds" (nothing was found against the promise) or "broken"."""
        return "holds" if all(finding.holds for finding in self.findings) else "broken"

    @property
    def how(self) -> str:
        """ "computed" if the truth about every pair is known, otherwise "measured"."""
        known = {finding.why for finding in self.findings if finding.how == "computed"}
        return "computed" if known >= {finding.why for finding in self.findings} else "measured"

    @property
    def closest(self) -> Finding:
        """What comes nearest to the promise, or furthest beyond it. The truth goes before what was measured."""
        chosen = [finding for finding in self.findings if finding.how == self.how or not finding.holds]
        return max(chosen, key=lambda finding: finding.eps_lower / max(float(finding.promised), 1e-12))

    def to_dict(self) -> dict[str, object]:
        return {
            **({"name": self.name} if self.name else {}),
            "plan": self.plan,
            "guarantee": self.guarantee.to_dict(),
            "trials": self.trials,
            "how": self.how,
            "verdict": self.verdict,
            "eps_lower": self.eps_lower if self.eps_lower < float("inf") else "infinite",
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        named = f"{self.name}: {self.plan}" if self.name else self.plan
        how = f"{self.trials:,} trials a world" if self.trials else "computed"
        head = plain(f"{self.verdict}: {named}, {self.guarantee}, {how}")
        return "\n".join([head, *(f"  {plain(str(finding))}" for finding in self.findings)])


def promised(guarantee: Guarantee) -> list[tuple[Fraction, Fraction]]:
    """The promise as a list of (delta, eps) that can be tested."""
    plain = guarantee.unconditional
    if isinstance(plain, Pure):
        return [(Fraction(0), plain.eps)]
    if isinstance(plain, Approx):
        return [(plain.delta, plain.eps)]
    return [(delta, plain.to_approx(delta).eps) for delta in DELTAS]


def promised_divergences(guarantee: Guarantee) -> list[Renyi]:
    """The promise as Rényi divergences, where it is one."""
    plain = guarantee.unconditional
    if isinstance(plain, Renyi):
        return [plain]
    return [] if isinstance(plain, Pure | Approx) else [plain.to_renyi(order) for order in ORDERS]
