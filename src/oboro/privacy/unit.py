"""Who is protected, how much one of them may contribute, and what it means to be absent.

Adjacency
    "add/remove": two datasets are neighbours if one has one unit more. The number of units is private.
    "replace":    two datasets are neighbours if one unit's data differ. The number of units is public.
Add/remove at eps implies replace at 2 eps: take the old one out, put the new one in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from oboro.errors import UnitError, setting, told
from oboro.exact import Number, positive, show, whole
from oboro.kinds import takes
from oboro.language import Lines, plain
from oboro.privacy.guarantee import ZCDP, Approx, Conditional, Guarantee, Pure, Renyi, round_up
from oboro.records import Columns

if TYPE_CHECKING:
    from oboro.noise.lazy import Ball

ADJACENCIES = ("add/remove", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One protected unit. Make it with `Unit.row`, `Unit.person`, `Unit.cells` or `Unit.signal`.

    >>> ob.Unit.row("replace")
    Unit.row(adjacency='replace')
    >>> ob.Unit.person("customer", max_rows=10).contributions
    10
    """

    kind: str
    adjacency: str = "add/remove"
    column: str | None = None
    max_rows: int | None = None
    max_cells: int | None = None
    max_per_cell: int | None = None
    distance: Fraction | None = None
    norm: Fraction | None = None

    @classmethod
    def row(cls, adjacency: str = "add/remove") -> Unit:
        """One row of the data. Right where a person has one row."""
        return cls(kind="row", adjacency=_adjacency(adjacency), max_rows=1)

    @classmethod
    def person(cls, column: str, max_rows: int, adjacency: str = "add/remove") -> Unit:
        """All rows with the same value in `column`; at most `max_rows` of them are used, the rest is left out."""
        if not isinstance(column, str) or not column:
            raise UnitError(
                "column must name who a row belongs to",
                given=told(column=repr(column)),
                needed="the name of a column",
                fix=setting(unit=Unit.person("user_id", max_rows=20)),
            )
        rows = whole("max_rows", max_rows, least=1, most=2**31)
        return cls(kind="person", adjacency=_adjacency(adjacency), column=column, max_rows=rows)

    @classmethod
    def cells(cls, max_cells: int = 1, max_per_cell: int = 1, adjacency: str = "add/remove") -> Unit:
        """For data that is counted already: one unit is in at most `max_cells` cells, with at most
        `max_per_cell` in each. Counts cannot prove this, so it is declared, and the promise rests on it."""
        return cls(
            kind="cells",
            adjacency=_adjacency(adjacency),
            max_cells=whole("max_cells", max_cells, least=1, most=2**31),
            max_per_cell=whole("max_per_cell", max_per_cell, least=1, most=2**31),
        )

    @classmethod
    def signal(cls, distance: Number, norm: Number | str = 2) -> Unit:
        """A whole signal: neighbours are signals within `distance` of one another in the `norm`-norm."""
        if isinstance(norm, str | float) and norm in ("inf", float("inf")):
            exponent = None
        else:
            exponent = positive("norm", norm)
            if exponent < 1:
                raise UnitError(
                    "norm must be at least 1",
                    given=told(norm=show(exponent)),
                    needed="1, 2, ... or 'inf'",
                    fix=setting(norm=2),
                )
        return cls(kind="signal", adjacency="replace", distance=positive("distance", distance), norm=exponent)

    @property
    def contributions(self) -> int:
        """How many rows or cells one unit may touch."""
        if self.kind == "signal":
            raise UnitError(
                "a signal does not fall into groups",
                given=str(self),
                needed="a unit of rows, persons or cells",
                fix=setting(unit=Unit.row()),
            )
        return self.max_rows or self.max_cells or 1

    def to_dict(self) -> dict[str, object]:
        """The canonical form, also the `[unit]` table of a TOML file."""
        record: dict[str, object] = {"kind": self.kind, "adjacency": self.adjacency}
        for name in ("column", "max_rows", "max_cells", "max_per_cell"):
            if getattr(self, name) is not None and not (self.kind == "row" and name == "max_rows"):
                record[name] = getattr(self, name)
        if self.kind == "signal":
            assert self.distance is not None
            record["distance"] = show(self.distance)
            record["norm"] = "inf" if self.norm is None else show(self.norm)
        return record

    def as_record(self, columns: Columns | None) -> dict[str, object]:
        return self.to_dict()

    @classmethod
    def from_record(cls, record: object, columns: Columns | None, where: str) -> Unit:
        return unit_from(record)

    def __str__(self) -> str:
        if self.kind == "signal":
            norm = "inf" if self.norm is None else show(self.norm)
            return f"a signal within distance {show(self.distance or 0)} in the {norm}-norm"
        who = {
            "row": "one row",
            "person": f"all rows of one {plain(self.column or '')} (at most {self.max_rows} used)",
            "cells": "one unit in one cell"
            if self.max_cells == self.max_per_cell == 1
            else f"one unit in at most {self.max_cells} cells, at most {self.max_per_cell} in each",
        }[self.kind]
        return who + (", replaced" if self.adjacency == "replace" else ", added or removed")

    def __repr__(self) -> str:
        adjacency = "" if self.adjacency == "add/remove" else f"adjacency={self.adjacency!r}"
        arguments = {
            "row": [],
            "person": [repr(self.column), f"max_rows={self.max_rows}"],
            "cells": [f"max_cells={self.max_cells}", f"max_per_cell={self.max_per_cell}"],
            "signal": [
                f"distance={show(self.distance or 0)!r}",
                f"norm={'inf' if self.norm is None else show(self.norm)!r}",
            ],
        }[self.kind]
        if self.kind != "signal" and adjacency:
            arguments.append(adjacency)
        return f"Unit.{self.kind}({', '.join(arguments)})"


def unit_from(record: object) -> Unit:
    """The unit that a `[unit]` table describes.

    >>> ob.privacy.unit_from({"kind": "person", "column": "customer", "max_rows": 10})
    Unit.person('customer', max_rows=10)
    """
    makers: dict[str, Callable[..., Unit]] = {
        "row": Unit.row,
        "person": Unit.person,
        "cells": Unit.cells,
        "signal": Unit.signal,
    }
    given = dict(record) if isinstance(record, dict) else {}
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in makers:
        raise UnitError(
            "the unit has an unknown kind",
            given=told(kind=repr(kind)),
            needed="row, person, cells or signal",
            fix=Lines('[unit]\nkind = "person"\ncolumn = "user_id"\nmax_rows = 20'),
        )
    if kind == "signal" and given.get("adjacency") == "replace":
        del given["adjacency"]
    try:
        return makers[str(kind)](**given)
    except TypeError:
        raise UnitError(
            f"the unit of kind {kind!r} has wrong or missing parts",
            given=", ".join(sorted(given)) or "nothing else",
            needed={"person": "column, max_rows", "signal": "distance"}.get(kind, "adjacency at most"),
            fix=Lines('[unit]\nkind = "person"\ncolumn = "user_id"\nmax_rows = 20'),
        ) from None


@takes(guarantee=Guarantee, made_for=Unit, wanted=Unit)
def translate(guarantee: Guarantee, made_for: Unit, wanted: Unit) -> Guarantee:
    """What a promise about `made_for` means for `wanted`; refused where nothing is proved.

    - the same unit: the same promise;
    - a person with another `max_rows`: the same promise, for the limit is enforced and the person is whole;
    - cells or signals with larger limits than `wanted`: the same promise, for it speaks of more neighbours;
    - add/remove to replace: out with the old, in with the new, two steps [group privacy]: 2 eps,
      (2 eps, (1 + e^eps) delta), 4 rho; Rényi of order b: (2b - 1)/(b - 1) eps at the order b^2/(2b - 1).

    >>> ob.privacy.translate(ob.Pure("0.1"), ob.Unit.row(), ob.Unit.row("replace"))
    Pure('0.2')
    """
    check_unit(made_for, wanted, guarantee)
    if made_for.adjacency == wanted.adjacency:
        return guarantee
    return two_steps(guarantee)


def check_unit(made_for: Unit, wanted: Unit, budget: Guarantee) -> None:
    """Refuses a unit about which a ledger for `wanted` accounts nothing. What the error proposes protects all that either of them
    says: a unit that this ledger accounts for, or where it accounts for none, a ledger of this budget. Where no unit protects
    both, somebody has to decide, and nothing is proposed."""
    if accounts_for(wanted, made_for):
        return
    both = protecting_both(made_for, wanted)
    raise UnitError(
        "a promise about replacing a unit says nothing about adding or removing one"
        if _same_or_wider(made_for, wanted)
        else "the plan protects another unit than the ledger",
        given=f"plan: {made_for}",
        needed=f"ledger: {wanted}",
        fix="no unit protects both: the ledger of this data, or a decision of who is protected"
        if both is None
        else setting(unit=both)
        if accounts_for(wanted, both)
        else setting(unit=both, budget=budget),
        argument="unit",
    )


def accounts_for(wanted: Unit, made_for: Unit) -> bool:
    """Whether a ledger for `wanted` can pay for plans that protect `made_for`: `translate` says at which price."""
    replaced = made_for.adjacency == "replace" != wanted.adjacency
    return _same_or_wider(made_for, wanted) and not replaced


def protecting_both(made_for: Unit, wanted: Unit) -> Unit | None:
    """The least unit that protects all that either protects, be it at a worse guarantee; None where there is none.

    The rows of a person hold each of them; adding and removing hold replacing, in two steps; larger limits hold smaller ones. A row
    that is replaced by another person's is a change of two of them, so replacing persons does not hold it. A person
    is whole whatever `max_rows` says: the limit of `made_for` is kept where it has one.
    """
    replaced = made_for.adjacency == wanted.adjacency == "replace" and made_for.kind == wanted.kind
    adjacency = "replace" if replaced else "add/remove"
    if made_for.kind == "signal" and (wanted.kind, wanted.norm) == ("signal", made_for.norm):
        return max(made_for, wanted, key=lambda unit: unit.distance or 0)
    if made_for.kind == wanted.kind == "cells":
        cells, each = (
            max(getattr(made_for, name) or 0, getattr(wanted, name) or 0)
            for name in ("max_cells", "max_per_cell")
        )
        return Unit.cells(cells, each, adjacency)
    kinds = {made_for.kind, wanted.kind}
    if kinds == {"row"}:
        return Unit.row(adjacency)
    person = made_for if made_for.kind == "person" else wanted
    if kinds <= {"row", "person"} and {made_for.column, wanted.column} <= {None, person.column}:
        return replace(person, adjacency=adjacency)
    return None


def _same_or_wider(made_for: Unit, wanted: Unit) -> bool:
    if (made_for.kind, made_for.column) != (wanted.kind, wanted.column):
        return False
    if made_for.kind == "cells":
        return (made_for.max_cells or 0) >= (wanted.max_cells or 0) and (made_for.max_per_cell or 0) >= (
            wanted.max_per_cell or 0
        )
    if made_for.kind == "signal":
        return made_for.norm == wanted.norm and (made_for.distance or 0) >= (wanted.distance or 0)
    return True


def two_steps(guarantee: Guarantee) -> Guarantee:
    """What a promise about one step between neighbours says about two of them [group privacy].

    Rényi, from P over R to Q. For 1/p + 1/q = 1 write P^a Q^(1-a) = (P^a R^-(a-1/p)) (R^(a-1/p) Q^(1-a)). By Hölder's inequality

        D_a(P||Q) <= (a - 1/p)/(a - 1) D_(pa)(P||R) + D_(q(a-1/p))(R||Q)         [Mironov 2017, Prop. 11].

    With a promise of the one order b for both steps, pa = b and q(a - 1/p) = (b - 1)/(p - 1) <= b: the least such p is 2 - 1/b, which gives
    the largest order a = b^2/(2b - 1) and the least factor, b/(b - 1). So D_a <= (b/(b - 1) + 1) eps = (2b - 1)/(b - 1) eps.

    >>> ob.privacy.translate(ob.Renyi(8, 1), ob.Unit.row(), ob.Unit.row("replace"))
    Renyi('64/15', '15/7')
    """
    if isinstance(guarantee, Conditional):
        return Conditional(two_steps(guarantee.guarantee), guarantee.assumptions)
    if isinstance(guarantee, Pure):
        return Pure(2 * guarantee.eps)
    if isinstance(guarantee, ZCDP):
        return ZCDP(4 * guarantee.rho)
    if isinstance(guarantee, Approx):
        from oboro.noise.lazy import ball

        eps, delta = guarantee.eps, guarantee.delta

        def grown() -> Ball:
            return (1 + ball(eps).exp()) * ball(delta)

        # a delta of 1 is no promise, and `Approx` refuses it
        return Approx(2 * eps, round_up(grown) if grown() < 1 else 1)
    assert isinstance(guarantee, Renyi)
    order = guarantee.order
    return Renyi(order**2 / (2 * order - 1), guarantee.eps * (2 * order - 1) / (order - 1))


def _adjacency(adjacency: str) -> str:
    if not isinstance(adjacency, str) or adjacency not in ADJACENCIES:
        raise UnitError(
            "adjacency is unknown",
            given=told(adjacency=repr(adjacency)),
            needed='"add/remove" or "replace"',
            fix=setting(adjacency="replace"),
        )
    return adjacency
