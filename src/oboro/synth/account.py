"""What N records cost in all, by every bound, in one small table."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from oboro.exact import Number, about, show, whole
from oboro.language import aligned
from oboro.privacy import Approx, Conditional, Guarantee
from oboro.privacy.guarantee import positive_delta
from oboro.synth.curves import Best, Curve, best_order, private_curve, public_curve


@dataclass(frozen=True, slots=True)
class Line:
    """One bound: what it promises by the paper's conversion and by the tight one; None where it holds at no order."""

    adjacency: str
    bound: str
    simple: Best | None
    tight: Best | None


@dataclass(frozen=True, slots=True)
class Account:
    """The cost of `records` synthetic records drawn from n rows; prints as a table.

    >>> cost = ob.synth.account(n=100_000, dims=5, records=1, delta="1e-6", ridge="0.1")
    >>> cost.guarantee("replace")
    Approx('0.01628...', '1e-6')
    """

    n: int
    dims: int
    records: int
    delta: Fraction
    min_eigenvalue: Fraction | None
    ridge: Fraction | None
    lines: tuple[Line, ...] = field(repr=False)

    @property
    def assumption(self) -> str | None:
        return None if self.min_eigenvalue is None else eigenvalue_assumption(self.min_eigenvalue)

    def guarantee(self, adjacency: str = "replace") -> Guarantee:
        """The best that is proved under one adjacency."""
        found = [line.tight.approx for line in self.lines if line.adjacency == adjacency and line.tight]
        best: Guarantee = min(found, key=lambda approx: approx.eps) if found else Approx("1e9", self.delta)
        return best if self.assumption is None else Conditional(best, self.assumption)

    def to_dict(self) -> dict[str, object]:
        def told(best: Best | None) -> dict[str, object] | None:
            if best is None:
                return None
            return {"order": show(best.order), "renyi": show(best.renyi), "eps": show(best.approx.eps)}

        return {
            "n": self.n,
            "dims": self.dims,
            "records": self.records,
            "delta": show(self.delta),
            "min_eigenvalue": None if self.min_eigenvalue is None else show(self.min_eigenvalue),
            "ridge": None if self.ridge is None else show(self.ridge),
            "assumption": self.assumption,
            "bounds": [
                {
                    "adjacency": line.adjacency,
                    "bound": line.bound,
                    "simple": told(line.simple),
                    "tight": told(line.tight),
                }
                for line in self.lines
            ],
        }

    def __str__(self) -> str:
        width = (
            f"ridge {show(self.ridge)}"
            if self.ridge is not None
            else f"min_eigenvalue {show(self.min_eigenvalue or 0)}"
        )
        rows = [
            [
                "adjacency",
                "bound",
                "order",
                "Rényi eps",
                "eps (paper's rule)",
                "order",
                "Rényi eps",
                "eps (tight rule)",
            ]
        ]
        for line in self.lines:
            cells = [line.adjacency, line.bound]
            for best in (line.simple, line.tight):
                cells += (
                    ["-", "-", "-"]
                    if best is None
                    else [about(best.order), about(best.renyi, 6), about(best.approx.eps, 7)]
                )
            rows.append(cells)
        title = f"{self.records:,} records from n = {self.n:,} rows of {self.dims} columns, {width}, delta = {show(self.delta)}"
        lines = [
            title,
            "",
            *aligned(rows, "<<>"),
            "",
            "  add/remove: n is the smaller size of the pair, and must be a public lower bound; the number of records is public",
        ]
        if self.assumption is not None:
            lines.append(f"  all of this holds only provided that {self.assumption}")
        return "\n".join(lines)


def account(
    *,
    n: Number,
    dims: int,
    records: Number,
    delta: Number,
    min_eigenvalue: Number | None = None,
    ridge: Number | None = None,
) -> Account:
    """What `records` records cost under both adjacencies, by the paper's bounds and by the tighter ones.

    >>> cost = ob.synth.account(n=100_000, dims=5, records=1, delta="1e-6", ridge="0.1")
    >>> cost.guarantee("replace")
    Approx('0.01628...', '1e-6')
    >>> print(cost)
    1 records from n = 100,000 rows of 5 columns, ridge 0.1, delta = 1e-6
    <BLANKLINE>
      adjacency   bound  order   Rényi eps  eps (paper's rule)  order   Rényi eps  eps (tight rule)
      add/remove  ridge  483.3  0.00260129          0.03124566  472.9  0.00213471        0.01624334
      replace     ridge  482.3  0.00260643          0.03130827    472  0.00213913        0.01628011
    <BLANKLINE>
      add/remove: n is the smaller size of the pair, and must be a public lower bound; the number of records is public
    """
    from oboro.exact import rational

    size, count = whole("n", n, least=2), whole("records", records, least=1, most=10**12)
    small = positive_delta(delta)
    names = [("add/remove", "exact"), ("replace", "tight")]
    if ridge is None:
        names = [("add/remove", "exact"), ("add/remove", "paper"), ("replace", "tight"), ("replace", "paper")]
    lines = []
    for adjacency, bound in names:
        make = private_curve if adjacency == "add/remove" else public_curve
        curve: Curve = make(size, dims, min_eigenvalue, ridge, bound)
        lines.append(
            Line(
                adjacency,
                bound if ridge is None else "ridge",
                best_order(curve, count, small, "simple"),
                best_order(curve, count, small),
            )
        )
    return Account(
        size,
        whole("dims", dims, least=1),
        count,
        small,
        None if min_eigenvalue is None else rational("min_eigenvalue", min_eigenvalue),
        None if ridge is None else rational("ridge", ridge),
        tuple(lines),
    )


def eigenvalue_assumption(least: Fraction) -> str:
    """How a conditional guarantee says what it rests on."""
    return (
        f"the covariance of the data, scaled to [-1, 1], has no eigenvalue below {show(least)}, "
        "and the same is true of every dataset that differs in one row"
    )
