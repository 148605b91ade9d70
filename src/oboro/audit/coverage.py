"""How often what is printed covers the truth: intervals of rows and of answers, tried out on made-up data.

For tables the rows that are published and hold people, those that are published and hold nobody, cells, blocks, odd
rectangles and totals that were chosen beforehand, by every strategy with intervals, with Laplace and Gaussian noise; for
statistics each number with an interval, alone, by group and in a batch, and the ranks of quantiles; for signals each output
under each kind of noise. Each at several eps and levels. Coverage must be at least the level, within what chance allows: a
full run calls sound intervals short once in a million times.

A table of one's own can be tried in the same way: its plan and its data, for the steward's eyes, since shares are those of true
counts.

What is not promised, and not measured: the interval of the largest row, or of rows that a reader picks by their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from oboro.arrays import Bools, Floats, Integers, Table
from oboro.domain import Category, Column, Domain, Grid, Integer, Mesh
from oboro.errors import ParameterError
from oboro.exact import about, percent, positive, rational, show, whole
from oboro.kinds import list_of
from oboro.noise import Bits, system_bits
from oboro.privacy import Unit
from oboro.release import Plan
from oboro.tables.cells import Cells, column_groups
from oboro.tables.plan import TablePlan
from oboro.tables.plan import plan as table_plan
from oboro.tables.tree.answers import region_of

EPS = ("0.1", "0.5", "1", "3")
LEVELS = (0.5, 0.8, 0.95, 0.99)
RUNS = 200
ALARM = 1e-6  # of a full run
_SIDE = 64
_TOGETHER = 4  # rows of one run hang together through the levels above them: so many count as one
_QUESTIONS = 4  # of each size
_SIZES = (
    ("cells", 1, 1),
    ("blocks of 4 x 4", 4, 4),
    ("blocks of 16 x 16", 16, 16),
    ("odd rectangles", 13, 7),
)
_MOST_KINDS = 20  # of intervals in one of the things that are tried


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


class _Tally:
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
                holds = _likely(hits / few, size / few, level, alarm)
                yield Covered(what, eps, level, hits / size, int(size), width / size, holds)


def _likely(hits: float, size: float, level: float, alarm: float) -> bool:
    """Whether so few hits come about with at least this probability if the level is kept."""
    from scipy.special import bdtr

    return hits >= level * size or float(bdtr(math.floor(hits), max(math.ceil(size), 1), level)) >= alarm


def coverage(
    runs: int = RUNS,
    *,
    eps: Sequence[str] = EPS,
    levels: Sequence[float] = LEVELS,
    plan: TablePlan | None = None,
    data: object = None,
    bits: Bits | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Iterator[Covered]:
    """Runs everything that has an interval so many times and counts. The data are made up; nothing is spent.

    With the `plan` of a table and its `data` that table alone is tried. What is found is for the steward: it is computed from
    true counts, and is not to be published.

    >>> found = list(ob.audit.coverage(1, eps=["1"], levels=[0.95]))
    >>> [one.what for one in found][:2], all(one.holds for one in found)
    (['tree, rows that hold people', 'tree, rows that hold nobody'], True)
    """
    runs = whole("runs", runs, least=1, most=10**6)
    asked = [show(positive("eps", each)) for each in list_of("eps", eps)]
    wanted = [float(rational("levels", each, 0.95)) for each in list_of("levels", levels)]
    if plan is not None:
        if not isinstance(plan, TablePlan) or plan.intervals is None:
            raise ParameterError(
                "only tables with intervals can be tried on data of one's own",
                given=plan.kind if isinstance(plan, Plan) else repr(type(plan)),
                needed="the plan of a table by strategy tree, filtered or adaptive",
                fix="oboro table forecast ... --save-plan plan.toml",
            )
        return _own(runs, wanted, plan, data, bits or system_bits(), watch)
    return _tried(runs, asked, wanted, bits or system_bits(), watch)


def _own(
    runs: int,
    levels: Sequence[float],
    plan: TablePlan,
    data: object,
    bits: Bits,
    watch: Callable[[str, int, int], None] | None,
) -> Iterator[Covered]:
    prepared = plan.prepare(data)
    questions = list(_own_questions(plan, prepared))
    tally = _Tally()
    for done in range(runs):
        if watch is not None:
            watch(plan.strategy, done, runs)
        _run(tally, plan.strategy, plan, prepared, questions, levels, bits)
    yield from tally.result(show(plan.mechanism.eps), ALARM / (_MOST_KINDS * max(len(levels), 1)))


def _own_questions(plan: TablePlan, cells: Cells) -> Iterator[tuple[str, dict[str, object], int]]:
    """Chosen from the domain alone, the same in all runs: cells, blocks, odd rectangles, all."""
    rng, layout = np.random.default_rng(1), plan.layout
    for what, high, wide in _SIZES:
        for _ in range(_QUESTIONS):
            where: dict[str, object] = {}
            for column in layout.domain:
                where |= _choice(column, high, wide, rng)
            yield what, where, int(cells.counts[region_of(layout, where).hold(cells.keys)].sum())
    yield "all", {}, int(cells.counts.sum())


def _choice(column: Column, high: int, wide: int, rng: np.random.Generator) -> dict[str, object]:
    """Of a grid a rectangle, of numbers and dates a range, of categories one or all, of meshes one or a coarser one."""
    if isinstance(column, Grid):
        found: dict[str, object] = {}
        for name, side, size in zip(column.names, (high, wide), column.shape, strict=True):
            first = int(rng.integers(0, max(size - side, 0) + 1))
            first = first // side * side if high == wide else first
            found[name] = (first, min(first + side, size) - 1)
        return found
    name = column.sources[0]
    if isinstance(column, Mesh):
        place = [rng.integers(0, size, 1) for group in column_groups(column) for size in group]
        code = str(int(column.from_axes(place)[0]))
        return {name: code if high == 1 else code[: max(len(code) - (1 if high == 4 else 2), 4)]}
    if isinstance(column, Category):
        return {name: column.value(int(rng.integers(0, column.size)))} if high in (1, 13) else {}
    first = int(rng.integers(0, max(column.size - wide, 0) + 1))
    first = first // wide * wide if high == wide else first
    return {name: (column.value(first), column.value(min(first + wide, column.size) - 1))}


def _tried(
    runs: int,
    eps: Sequence[str],
    levels: Sequence[float],
    bits: Bits,
    watch: Callable[[str, int, int], None] | None,
) -> Iterator[Covered]:
    tried = [(name, make, each) for each in eps for name, make in _made().items()]
    alarm = ALARM / max(len(tried) * _MOST_KINDS * len(levels), 1)
    for done, (name, make, each) in enumerate(tried):
        if watch is not None:
            watch(name, done, len(tried))
        tally = _Tally()
        make(tally, name, each, levels, runs, bits)
        yield from tally.result(each, alarm)


def _made() -> dict[str, Callable[[_Tally, str, str, Sequence[float], int, Bits], None]]:
    return {
        "tree": _tree,
        "tree by sex": _tree_by_sex,
        "tree, Gaussian": _gaussian,
        "tree, publish 0.1": _stands_out,
        "filtered": _filtered,
        "adaptive": _adaptive,
        "statistics": _statistics,
        "statistics, replaced": _replaced,
        "quantiles": _quantiles,
        "batch": _batch,
        "signals": _signals,
    }


def people() -> Integers:
    """A dense corner, villages, and single farms in much empty land."""
    rng = np.random.default_rng(7)
    far = np.add.outer(np.arange(_SIDE), np.arange(_SIDE))
    dense = rng.poisson(np.where(far < 30, 40.0, np.where(far < 60, 1.5, 0.01)))
    return np.asarray(dense + np.where(rng.random(far.shape) < 0.01, rng.poisson(80, far.shape), 0))


def _tree(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "tree"), people(), levels, runs, bits)


def _filtered(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "filtered"), people(), levels, max(runs // 4, 1), bits)


def _gaussian(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "tree", delta="1e-6"), people(), levels, max(runs // 4, 1), bits)


def _stands_out(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _table(tally, name, _plan(eps, "tree", publish="0.1"), people(), levels, max(runs // 4, 1), bits)


def _adaptive(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """For few people in many cells, whose number is public."""
    most = int(0.9 * _SIDE**2 / float(eps))
    density = people().reshape(-1) + 0.01
    few = np.random.default_rng(3).multinomial(min(most, 3000), density / density.sum())
    plan = table_plan(
        Domain([Grid("row", "col", shape=(_SIDE, _SIDE))]),
        unit=Unit.cells(adjacency="replace"),
        eps=eps,
        count="n",
        strategy="adaptive",
        total=int(few.sum()),
    )
    _table(tally, name, plan, few.reshape(_SIDE, _SIDE), levels, max(runs // 4, 1), bits)


def _tree_by_sex(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    by_sex = np.random.default_rng(3).multinomial(people()[:32, :32], [0.5, 0.4, 0.1])
    domain = Domain([Grid("row", "col", shape=(32, 32)), Category("sex", ["F", "M", "X"])])
    plan = table_plan(domain, unit=Unit.cells(), eps=eps, count="n", strategy="tree")
    _table(tally, name, plan, by_sex, levels, max(runs // 4, 1), bits)


def _plan(eps: str, strategy: str, delta: str | None = None, publish: str | None = None) -> TablePlan:
    domain = Domain([Grid("row", "col", shape=(_SIDE, _SIDE))])
    return table_plan(
        domain, unit=Unit.cells(), eps=eps, delta=delta, count="n", strategy=strategy, publish=publish
    )


def _table(
    tally: _Tally,
    name: str,
    plan: TablePlan,
    true: Integers,
    levels: Sequence[float],
    runs: int,
    bits: Bits,
) -> None:
    places = np.nonzero(true)
    data: dict[str, object] = {"row": places[0].tolist(), "col": places[1].tolist()}
    if true.ndim == 3:
        data["sex"] = [("F", "M", "X")[i] for i in places[2]]
    prepared = plan.prepare({**data, "n": true[places].tolist()})
    questions = list(_questions(true))
    for _ in range(runs):
        _run(tally, name, plan, prepared, questions, levels, bits)


def _run(
    tally: _Tally,
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
            several = _QUESTIONS if where else 1
            tally.add(f"{name}, {what}", level, hit, answer.high - answer.low, several)


def _questions(true: Integers) -> Iterator[tuple[str, dict[str, object], int]]:
    """Chosen beforehand, the same in all runs."""
    rng, side = np.random.default_rng(1), true.shape[0]
    for what, high, wide in _SIZES:
        for _ in range(_QUESTIONS):
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


def _statistics(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _asked(tally, statistics_plans(eps, replaced=False), "", levels, runs, bits)


def _replaced(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    _asked(tally, statistics_plans(eps, replaced=True), ", replaced", levels, runs, bits)


def _asked(
    tally: _Tally, plans: dict[str, Plan], beside: str, levels: Sequence[float], runs: int, bits: Bits
) -> None:
    rows = _rows()
    for what, plan in plans.items():
        # what `measure` adds to `prepare` is noise alone: without it the table that goes out is the truth
        true = _values(plan.publish(plan.prepare(rows)))
        _numbers(tally, f"{what}{beside}", plan, rows, true, 0.0, levels, runs, bits)


def _quantiles(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
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


def _batch(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Printed at 95%, whatever is asked for elsewhere."""
    from oboro.privacy import ZCDP, Approx, Pure
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
        plan = BatchPlan(plans, promise or Approx(rational("eps", eps), rational("delta", "1e-6")))
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


def _signals(tally: _Tally, name: str, eps: str, levels: Sequence[float], runs: int, bits: Bits) -> None:
    """Each output, as its band has it."""
    from oboro.dynamics.plan import SignalPlan
    from oboro.dynamics.system import respond

    u = np.linspace(-0.5, 0.5, 10)[:, None]
    for what, plan in signal_plans(eps).items():
        assert isinstance(plan, SignalPlan)
        outputs = respond(plan.system, plan.public_start, u).reshape(-1)
        _numbers(tally, what, plan, u, outputs, 2 * float(plan.step), levels, runs, bits)


def _numbers(
    tally: _Tally,
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


def summary(found: Iterable[Covered]) -> list[tuple[str, bool, list[float]]]:
    """For each kind: whether it holds, and the smallest share that was covered at each level, over all eps."""
    kinds: dict[str, list[Covered]] = {}
    for one in found:
        kinds.setdefault(one.what, []).append(one)
    return [
        (
            what,
            all(one.holds for one in own),
            [min(one.share for one in own if one.level == level) for level in sorted({o.level for o in own})],
        )
        for what, own in kinds.items()
    ]
