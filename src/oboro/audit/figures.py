"""Every figure with an interval, tried on made-up data: rows and answers of tables, numbers of statistics, outputs of signals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain import Areas, Category, Domain, Grid, Integer
from oboro.exact import about, percent, rational, show
from oboro.noise import Bits
from oboro.privacy import Unit
from oboro.release import Plan
from oboro.tables.cells import Cells
from oboro.tables.plan import TablePlan
from oboro.tables.plan import plan as table_plan

_SIDE = 64
_TOGETHER = 4  # rows of one run hang together through the levels above them: so many count as one
QUESTIONS = 4  # of each size
SIZES = (
    ("cells", 1, 1),
    ("blocks of 4 x 4", 4, 4),
    ("blocks of 16 x 16", 16, 16),
    ("odd rectangles", 13, 7),
)


@dataclass(frozen=True, slots=True)
class Covered:
    """How often one kind of interval covered, among how many, and how wide it was on average.

    >>> print(ob.audit.Covered("count", "1", 0.95, share=0.955, tried=200, width=6.0, holds=True))
    holds: count, eps 1: 96% of 200 for 95%, 6 wide
    """

    what: str
    eps: str
    level: float
    share: float
    tried: int
    width: float
    holds: bool

    def to_dict(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "falls short"
        found = f"{percent(self.share)} of {self.tried:,} for {percent(self.level)}"
        return f"{verdict}: {self.what}, eps {self.eps}: {found}, {about(self.width, 4)} wide"


class Tally:
    """Hits, trials and widths by kind and level; `together` says how many of a kind hang together."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, float], list[float]] = {}
        self.together: dict[str, int] = {}

    def add(self, what: str, level: float, inside: Bools, width: float, together: int = 1) -> None:
        own = self.found.setdefault((what, level), [0.0, 0.0, 0.0])
        self.together[what] = together
        own[0] += float(inside.sum())
        own[1] += inside.size
        own[2] += width

    def result(self, eps: str, alarm: float) -> Iterator[Covered]:
        for (what, level), (hits, size, width) in self.found.items():
            if size:
                few = self.together[what]
                holds = likely(hits / few, size / few, level, alarm)
                yield Covered(what, eps, level, hits / size, int(size), width / size, holds)


def likely(hits: float, size: float, level: float, alarm: float) -> bool:
    """Whether so few hits come about with at least this probability if the level is kept."""
    from scipy.special import bdtr

    return hits >= level * size or float(bdtr(math.floor(hits), max(math.ceil(size), 1), level)) >= alarm


def made() -> dict[str, Callable[[Tally, str, str, Sequence[float], int, Bits], None]]:
    return {
        "tree": _tree,
        "tree by sex": _tree_by_sex,
        "tree, Gaussian": _gaussian,
        "tree by sex, Gaussian": _gaussian_by_sex,
        "tree, publish 0.1": _stands_out,
        "tree by sex, Gaussian, publish 0.1": _few_stand_out,
        "tree, total": _with_total,
        "tree, sea": _tree_at_sea,
        "filtered": _filtered,
        "filtered, sea": _filtered_at_sea,
        "adaptive": _adaptive,
        "adaptive, blocks": _tree_that_looks,
        "sized": _sized,
        "areas": _areas,
        "areas, known": _areas_known,
        "series": _series,
        "statistics": _statistics,
        "statistics, replaced": _replaced,
        "persons": _persons,
        "quantiles": _quantiles,
        "batch": _batch,
        "SQL": _sql,
        "signals": _signals,
    }


def people() -> Integers:
    """A dense corner, villages, and single farms in much empty land."""
    rng = np.random.default_rng(7)
    far = np.add.outer(np.arange(_SIDE), np.arange(_SIDE))
    dense = rng.poisson(np.where(far < 30, 40.0, np.where(far < 60, 1.5, 0.01)))
    return np.asarray(dense + np.where(rng.random(far.shape) < 0.01, rng.poisson(80, far.shape), 0))


def _tree(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "tree"), people(), levels, runs, bits)


def _filtered(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "filtered"), people(), levels, max(runs // 4, 1), bits)


def _gaussian(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "tree", delta="1e-6"), people(), levels, max(runs // 4, 1), bits)


def _stands_out(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "tree", publish="0.1"), people(), levels, max(runs // 4, 1), bits)


def _with_total(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """How many people there are is public."""
    plan = table_plan(
        Domain([Grid("row", "col", shape=(_SIDE, _SIDE))]),
        unit=Unit.cells(adjacency="replace"),
        eps=eps,
        count="n",
        strategy="tree",
        total=int(people().sum()),
    )
    _table(tally, name, plan, people(), levels, max(runs // 4, 1), bits)


def _sea() -> tuple[Integers, dict[str, list[int]]]:
    """People on land, and where the sea is: half of the land beyond the villages, and a lake."""
    row, col = np.indices((_SIDE, _SIDE))
    sea = (row + col > 80) | ((row - 20) ** 2 + (col - 12) ** 2 < 40)
    where = np.nonzero(sea)
    return np.where(sea, 0, people()), {"row": where[0].tolist(), "col": where[1].tolist()}


def _tree_at_sea(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    on_land, sea = _sea()
    _table(tally, name, _plan(eps, "tree", impossible=sea), on_land, levels, max(runs // 4, 1), bits)


def _filtered_at_sea(
    tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits
) -> None:
    on_land, sea = _sea()
    _table(tally, name, _plan(eps, "filtered", impossible=sea), on_land, levels, max(runs // 4, 1), bits)


def _towns() -> Integers:
    """The town of each cell: the nearest of twelve places, so that towns have all shapes and sizes."""
    rng = np.random.default_rng(11)
    row, col = np.indices((32, 32))
    far = [(row - r) ** 2 + (col - c) ** 2 for r, c in rng.integers(0, 32, (12, 2))]
    return np.asarray(np.argmin(far, axis=0), np.int64)


def _areas(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _of_areas(tally, name, eps, levels, runs, bits, None)


def _areas_known(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """How many people live in three of the towns is public."""
    towns = _towns()
    known = {f"t{town:02}": int(people()[:32, :32][towns == town].sum()) for town in (0, 4, 7)}
    _of_areas(tally, name, eps, levels, runs, bits, {"town": known})


def _of_areas(
    tally: Tally,
    name: str,
    eps: str,
    levels: Sequence[float],
    runs: int,
    bits: Bits,
    known: dict[str, dict[str, int]] | None,
) -> None:
    true, towns = people()[:32, :32], _towns()
    row, col = (each.reshape(-1).tolist() for each in np.indices((32, 32)))
    names = [f"t{town:02}" for town in towns.reshape(-1)]
    column = Areas(
        "row,col",
        levels=["town", "row,col"],
        table={"town": names, "row": row, "col": col},
        of=Grid("row", "col", shape=(32, 32)),
    )
    plan = table_plan(Domain([column]), unit=Unit.cells(), eps=eps, count="n", known=known)
    fixed = {} if known is None else known["town"]
    asked: list[tuple[str, dict[str, object], int]] = [
        ("areas", {"town": f"t{town:02}"}, int(true[towns == town].sum()))
        for town in range(1, 11)
        if f"t{town:02}" not in fixed
    ]
    _table(tally, name, plan, true, levels, max(runs // 4, 1), bits, [*asked[:QUESTIONS], *_questions(true)])


def _series(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    from oboro.audit.hours import series

    series(tally, name, eps, levels, max(runs // 4, 1), bits)


def _adaptive(
    tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits, **planned: object
) -> None:
    """Few people, whose number is public, in half of the runs; many in the others."""
    density = people().reshape(-1) + 0.01
    few = np.random.default_rng(3).multinomial(3000, density / density.sum())
    grid = Domain([Grid("row", "col", shape=(_SIDE, _SIDE))])
    looks = {"eps": eps, "count": "n", "strategy": "adaptive", **planned}
    plan = table_plan(grid, unit=Unit.cells(adjacency="replace"), total=int(few.sum()), **looks)  # type: ignore[call-overload]
    _table(tally, name, plan, few.reshape(_SIDE, _SIDE), levels, max(runs // 8, 1), bits)
    plan = table_plan(grid, unit=Unit.cells(), **looks)  # type: ignore[call-overload]
    _table(tally, name, plan, people(), levels, max(runs // 8, 1), bits)


def _tree_that_looks(
    tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits
) -> None:
    from oboro.tables import blocks

    _adaptive(tally, name, eps, levels, runs, bits, workload=blocks())


def _sized(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """As many people as there are where one way ends and another begins: both are gone."""
    grid = Domain([Grid("row", "col", shape=(_SIDE, _SIDE))])
    plan = table_plan(grid, unit=Unit.cells(), eps=eps, count="n", strategy="sized")
    density = people().reshape(-1) + 0.01
    some = np.random.default_rng(3).multinomial(plan.by_people[-1].people, density / density.sum())
    _table(tally, name, plan, some.reshape(_SIDE, _SIDE), levels, max(runs // 4, 1), bits)


def _tree_by_sex(
    tally: Tally,
    name: str,
    eps: str,
    levels: Sequence[float],
    runs: int,
    bits: Bits,
    delta: str | None = None,
) -> None:
    by_sex = np.random.default_rng(3).multinomial(people()[:32, :32], [0.5, 0.4, 0.1])
    domain = Domain([Grid("row", "col", shape=(32, 32)), Category("sex", ["F", "M", "X"])])
    plan = table_plan(domain, unit=Unit.cells(), eps=eps, delta=delta, count="n", strategy="tree")
    _table(tally, name, plan, by_sex, levels, max(runs // 4, 1), bits)


def _gaussian_by_sex(
    tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits
) -> None:
    _tree_by_sex(tally, name, eps, levels, runs, bits, "1e-6")


def _few_stand_out(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Two rows, so that the cut lies just below one of them."""
    few = np.zeros((16, 16, 3), np.int64)
    few[3, 5, 0] = few[12, 9, 1] = math.ceil(200 / float(eps))
    domain = Domain([Grid("row", "col", shape=(16, 16)), Category("sex", ["F", "M", "X"])])
    plan = table_plan(
        domain, unit=Unit.cells(), eps=eps, delta="1e-6", count="n", strategy="tree", publish="0.1"
    )
    _table(tally, name, plan, few, levels, runs, bits)


def _plan(
    eps: str,
    strategy: str,
    delta: str | None = None,
    publish: str | None = None,
    impossible: dict[str, list[int]] | None = None,
) -> TablePlan:
    domain = Domain([Grid("row", "col", shape=(_SIDE, _SIDE))])
    return table_plan(
        domain,
        unit=Unit.cells(),
        eps=eps,
        delta=delta,
        count="n",
        strategy=strategy,
        publish=publish,
        impossible=impossible,
    )


def _table(
    tally: Tally,
    name: str,
    plan: TablePlan,
    true: Integers,
    levels: Sequence[float],
    runs: int,
    bits: Bits,
    asked: Sequence[tuple[str, dict[str, object], int]] | None = None,
) -> None:
    places = np.nonzero(true)
    data: dict[str, object] = {"row": places[0].tolist(), "col": places[1].tolist()}
    if true.ndim == 3:
        data["sex"] = [("F", "M", "X")[i] for i in places[2]]
    prepared = plan.prepare({**data, "n": true[places].tolist()})
    questions = list(_questions(true)) if asked is None else asked
    for _ in range(runs):
        run_table(tally, name, plan, prepared, questions, levels, bits)


def run_table(
    tally: Tally,
    name: str,
    plan: TablePlan,
    prepared: Cells,
    questions: Sequence[tuple[str, dict[str, object], int]],
    levels: Sequence[float],
    bits: Bits,
) -> None:
    """Publishes a table once and looks at its rows and at answers."""
    found = plan.measure(prepared, bits)
    place = np.minimum(np.searchsorted(prepared.keys, found.keys), max(prepared.keys.size - 1, 0))
    here = np.zeros(found.keys.size, np.int64)
    if prepared.keys.size:
        here = np.where(prepared.keys[place] == found.keys, prepared.counts[place], 0)
    for level in levels:
        low, high = plan.mechanism.intervals(found, level)
        inside, width = (low <= here) & (here <= high), high - low
        for lived, what in ((True, "rows that hold people"), (False, "rows that hold nobody")):
            own = (here > 0) == lived
            tally.add(f"{name}, {what}", level, inside[own], float(width[own].sum()), _TOGETHER)
        for what, where, value in questions:
            answer = plan.mechanism.answer(found, where, level)
            hit = np.array([answer.low <= value <= answer.high])
            several = QUESTIONS if where else 1
            tally.add(f"{name}, {what}", level, hit, answer.high - answer.low, several)


def _questions(true: Integers) -> Iterator[tuple[str, dict[str, object], int]]:
    """Chosen beforehand, the same in all runs."""
    rng, side = np.random.default_rng(1), true.shape[0]
    for what, high, wide in SIZES:
        for _ in range(QUESTIONS):
            row, col = (int(rng.integers(0, side - s + 1)) for s in (high, wide))
            if high == wide:
                row, col = row // high * high, col // wide * wide
            where: dict[str, object] = {"row": (row, row + high - 1), "col": (col, col + wide - 1)}
            asked = true[row : row + high, col : col + wide]
            if true.ndim == 3 and high in (1, 13):
                where, asked = {**where, "sex": "F"}, asked[..., :1]
            yield what, where, int(asked.sum())
    yield "all", {}, int(true.sum())


_ROWS = 4000
_DOMAIN = Domain([Integer("age", 0, 99), Integer("hours", 0, 80), Category("region", ["north", "south"])])


def _rows() -> dict[str, list[object]]:
    rng = np.random.default_rng(5)
    ages = np.clip(rng.normal(40, 15, _ROWS), 0, 99).astype(int)
    hours = np.clip(60 - ages / 2 + rng.normal(0, 10, _ROWS), 0, 80).astype(int)
    regions = rng.choice(["north", "south"], _ROWS, p=[0.8, 0.2])
    return {"age": ages.tolist(), "hours": hours.tolist(), "region": regions.tolist()}


_OLD = "def old(row):\n    return row['age'] / 200"


def statistics_plans(eps: str, *, replaced: bool) -> dict[str, Plan]:
    """Every question whose answer has an interval: by name."""
    from oboro.statistics import Ball
    from oboro.statistics.oracle import query_plan
    from oboro.statistics.scope import Scope
    from oboro.statistics.session import Plans
    from oboro.statistics.where import parse

    unit = Unit.row("replace") if replaced else Unit.row()
    asked = Plans(_DOMAIN, unit, _ROWS if replaced else None)
    by = asked.by("region")
    found: dict[str, Plan] = {
        "count": asked.where("age >= 40").count(eps=eps),
        "count by region": by.where("age >= 40").count(eps=eps),
        "histogram": asked.histogram("age", eps=eps),
        "histogram, Gaussian": asked.histogram("age", rho=eps),
        "sum": asked.sum("age", eps=eps),
        "sum, Gaussian": asked.sum("age", rho=eps),
        "sum by region": by.sum("age", eps=eps),
        "sums of two columns": asked.sum(["age", "hours"], eps=eps),
        "sums in a ball, by region": by.sum(["age", "hours"], ball=Ball("l2", 60), rho=eps),
        "sum of a function": asked.sum_of(_OLD, columns=["age"], eps=eps),
        "mean": asked.mean("age", eps=eps),
        "mean, Gaussian": asked.mean("age", rho=eps),
        "mean by region": by.mean("age", eps=eps),
        "means of two columns": asked.mean(["age", "hours"], eps=eps),
        "variance": asked.variance("age", eps=eps),
        "covariances": asked.covariance(["age", "hours"], eps=eps),
        "covariances, Gaussian": asked.covariance(["age", "hours"], rho=eps),
        "covariances by region": by.covariance(["age", "hours"], eps=eps),
    }
    if replaced:
        scope = Scope(unit, parse("age >= 40", _DOMAIN), (), _ROWS)
        found["query"] = query_plan(scope, tolerance=5 / (_ROWS * rational("eps", eps)), failure="0.01")
    return found


def _statistics(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _asked(tally, statistics_plans(eps, replaced=False), "", levels, runs, bits)


def _replaced(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _asked(tally, statistics_plans(eps, replaced=True), ", replaced", levels, runs, bits)


def _asked(
    tally: Tally,
    plans: dict[str, Plan],
    beside: str,
    levels: Sequence[float],
    runs: int,
    bits: Bits,
    data: dict[str, list[object]] | None = None,
) -> None:
    rows = _rows() if data is None else data
    for what, plan in plans.items():
        # what `measure` adds to `prepare` is noise alone: without it the table that goes out is the truth
        true = _values(plan.publish(plan.prepare(rows)))
        _numbers(tally, f"{what}{beside}", plan, rows, true, 0.0, levels, runs, bits)


def persons_plans(eps: str) -> dict[str, Plan]:
    """How many persons there are, each with several rows: by name."""
    from oboro.statistics.session import Plans

    unit = Unit.person("who", 2)
    asked, replaced = (
        Plans(_DOMAIN, own, n) for own, n in ((unit, None), (Unit.person("who", 2, "replace"), _PERSONS))
    )
    return {
        "persons": asked.where("age >= 40").persons(eps=eps),
        "persons, Gaussian": asked.where("age >= 40").persons(rho=eps),
        "persons by region": asked.by("region").persons(eps=eps),
        "persons by region, Gaussian": asked.by("region").persons(rho=eps),
        "persons, replaced": replaced.where("age >= 40").persons(eps=eps),
        "persons by region, replaced": replaced.by("region").persons(eps=eps),
        "persons by region, replaced, Gaussian": replaced.by("region").persons(rho=eps),
    }


_PERSONS = 1500


def _persons(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    who: list[object] = [i % _PERSONS for i in range(_ROWS)]
    _asked(tally, persons_plans(eps), "", levels, runs, bits, {**_rows(), "who": who})


def _sql(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Each figure of a statement, worked out from others or not, as it is printed: at 95%."""
    from oboro.statistics.session import Plans

    if 0.95 not in levels:
        return
    text = (
        "SELECT region, COUNT(*) AS rows, AVG(age) AS mean, SUM(hours) AS hours, SUM(hours) / COUNT(*) AS ratio, "
        "STDDEV_POP(age) AS deviation, CORR(age, hours) AS correlation FROM data GROUP BY region"
    )
    for kind, unit, n in (("", Unit.row(), None), (", replaced", Unit.row("replace"), _ROWS)):
        plan = Plans(_DOMAIN, unit, n).sql(text, eps=show(8 * rational("eps", eps)))
        prepared = plan.prepare(_rows())
        true = plan.publish(prepared)  # what `measure` adds is noise alone
        figures = [each for each in true.column_names if f"{each} low" in true.column_names]
        for _ in range(max(runs // 4, 1)):
            table = plan.publish(plan.measure(prepared, bits))
            for figure in figures:
                value = np.asarray(true.column(figure).to_numpy(), float)
                low, high = (
                    np.asarray(table.column(f"{figure} {end}").to_numpy(), float) for end in ("low", "high")
                )
                inside = (low - 1e-9 <= value) & (value <= high + 1e-9)
                wide = np.where(np.isfinite(high - low), high - low, 0)
                tally.add(f"SQL, {figure}{kind}", 0.95, inside, float(wide.sum()))


def _quantiles(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Ranks, by each method: all quantiles of an answer at once lie within them."""
    from oboro.statistics.quantiles import QuantilePlan
    from oboro.statistics.session import Plans

    asked = Plans(_DOMAIN, Unit.row("replace"), _ROWS)
    data = _rows()
    ages = np.sort(np.asarray(data["age"], np.int64))
    for method in ("single", "independent", "splitting", "joint"):
        wanted = ["0.5"] if method == "single" else ["0.25", "0.5", "0.9"]
        plan = asked.quantile("age", wanted, method=method, eps=eps)
        assert isinstance(plan, QuantilePlan)
        aim = np.array([float(q) for q in plan.quantiles]) * _ROWS
        times = max(runs // 8, 1) if method == "joint" else runs
        for codes in plan.measure(plan.prepare(data), bits, trials=times):
            found = np.asarray(plan.publish(codes).column("value").to_numpy(), np.int64)
            low, high = (np.searchsorted(ages, found, side=side) for side in ("left", "right"))
            off = np.maximum(np.maximum(low - aim, aim - high), 0)
            for level in levels:
                most = np.array(plan.rank_errors(level))
                tally.add(f"ranks, {method}", level, np.array([(off <= most).all()]), float(most.mean()))


def _batch(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Printed at 95%, whatever is asked for elsewhere."""
    from oboro.privacy import ZCDP, Approx, Pure
    from oboro.statistics.planner import strategies
    from oboro.statistics.questions import Asked, BatchPlan
    from oboro.statistics.session import Plans

    if 0.95 not in levels:
        return
    asked, data = Plans(_DOMAIN, Unit.row(), None), _rows()
    by = asked.by("region")
    share = show(rational("eps", eps) / 4)
    for what, unit, promise in (("eps", "eps", Pure(eps)), ("rho", "rho", ZCDP(eps)), ("delta", "eps", None)):
        each: Asked = {"rho": share} if unit == "rho" else {"eps": share}
        plans = (
            asked.count(**each),
            by.mean("age", **each),
            asked.sum("hours", **each),
            asked.histogram("region", **each),
        )
        _tried(
            tally,
            what,
            BatchPlan(plans, promise or Approx(rational("eps", eps), rational("delta", "1e-6"))),
            data,
            runs,
            bits,
        )
        if promise is not None:
            _tried(tally, f"{what}, shared", BatchPlan(plans, promise, strategies(plans)), data, runs, bits)


def _tried(tally: Tally, what: str, plan: Plan, data: object, runs: int, bits: Bits) -> None:
    prepared = plan.prepare(data)
    true = np.asarray(plan.publish(prepared).column("value").to_numpy(), np.float64)
    for _ in range(runs):
        table = plan.publish(plan.measure(prepared, bits))
        low, high = (np.asarray(table.column(end).to_numpy(), np.float64) for end in ("low", "high"))
        inside = (low - 1e-9 <= true) & (true <= high + 1e-9)
        tally.add(f"batch, {what}", 0.95, inside, float((high - low).sum()), true.size)


def signal_plans(eps: str) -> dict[str, Plan]:
    """A lag under each kind of noise: by name."""
    from oboro.dynamics import plan as signal_plan
    from oboro.dynamics.system import system_from

    lag = system_from(([["0.5"]], [[1]], [[1]], [[0]]))
    kinds: dict[str, dict[str, str]] = {
        "signal": {},
        "signal, Gaussian": {"alpha": "2"},
        "signal, shared": {"noise": "shared"},
        "signal, discrete": {"noise": "discrete"},
        "signal, at the output": {"where": "output"},
    }
    return {
        what: signal_plan(lag, unit=Unit.signal(1), horizon=9, eps=eps, delta="0.02", protect=("u",), **own)
        for what, own in kinds.items()
    }


def _signals(tally: Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Each output, as its band has it."""
    from oboro.dynamics.plan import SignalPlan
    from oboro.dynamics.system import respond

    u = np.linspace(-0.5, 0.5, 10)[:, None]
    for what, plan in signal_plans(eps).items():
        assert isinstance(plan, SignalPlan)
        outputs = respond(plan.system, plan.public_start, u).reshape(-1)
        _numbers(tally, what, plan, u, outputs, 2 * float(plan.step), levels, runs, bits)


def _numbers(
    tally: Tally,
    what: str,
    plan: Plan,
    data: object,
    true: Floats,
    slack: float,
    levels: Sequence[float],
    runs: int,
    bits: Bits,
) -> None:
    """Each number of a table; `slack` is what rounding to a grid may add."""
    intervals = plan.intervals
    assert intervals is not None
    for measured in plan.measure(plan.prepare(data), bits, trials=runs):
        table = plan.publish(measured)
        for level in levels:
            low, high = (np.asarray(end, float).reshape(-1) for end in intervals(table, level))
            inside = (low - slack - 1e-9 <= true) & (true <= high + slack + 1e-9)
            # counts of a histogram have a noise each; other numbers of one answer hang together
            together = 1 if plan.kind == "statistics.histogram" else true.size
            tally.add(what, level, inside, float((high - low).sum()), together)


def _values(table: Table) -> Floats:
    chosen = next(name for name in ("value", "sum", "mean", "count") if name in table.column_names)
    return np.asarray(table.column(chosen).to_numpy(), np.float64)
