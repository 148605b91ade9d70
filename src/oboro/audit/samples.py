"""Small plans of every kind that can be released, for `oboro audit --all`: small, so that many trials are quick.

A kind of plan that has no sample here fails the build (tests/audit/test_audit_every_kind.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from oboro.audit.events import AuditReport
from oboro.audit.run import SEARCHED, run
from oboro.domain import Areas, Category, Domain, Grid, Integer
from oboro.noise.bits import Bits
from oboro.privacy import ZCDP, Approx, Pure, Unit
from oboro.records import Record

if TYPE_CHECKING:
    from oboro.release import Plan

CAPABILITIES = ("dynamics", "secure", "statistics", "synth", "tables")
AGE = Integer("age", 0, 3)
REGION = Category("region", ["north", "south"])
DOMAIN = Domain([AGE, REGION])
ROW, REPLACED, PERSON = Unit.row(), Unit.row("replace"), Unit.person("who", 2)
TOWNS = Domain(
    [
        Areas(
            "row,col",
            levels=["town", "row,col"],
            table={"town": ["a", "a", "b"], "row": [0, 1, 0], "col": [0, 0, 1]},
            of=Grid("row", "col", shape=(2, 2)),
        )
    ]
)
SMALL_GRID = Domain([Grid("row", "col", shape=(2, 2))])
GRID = Domain([Grid("row", "col", shape=(4, 4))])
LARGE_GRID = Domain([Grid("row", "col", shape=(64, 64))])  # large enough to be divided twice


def samples() -> dict[str, Plan]:
    """A plan for each name: every kind, both adjacencies, rows and persons, and every form of promise that it has.

    >>> ob.audit.samples()["count"].guarantee
    Pure(1)
    """
    made: dict[str, Plan] = {}
    for part in (_counts_and_sums, _ranks, _smooth, _learners, _tables, _synth, _dynamics, _secure):
        made |= dict(part())
    return made


def _counts_and_sums() -> Iterator[tuple[str, Plan]]:
    from oboro.statistics import Ball, histogram_plan
    from oboro.statistics.marginals import Margin, Strategy
    from oboro.statistics.oracle import query_plan
    from oboro.statistics.questions import BatchPlan
    from oboro.statistics.scope import Scope
    from oboro.statistics.session import Plans
    from oboro.statistics.statement import Call, Figure, Group, Ordering, Output, StatementPlan
    from oboro.statistics.where import parse

    rows, persons = Plans(DOMAIN, ROW, None), Plans(DOMAIN, PERSON, None)
    swapped = Plans(DOMAIN, REPLACED, 5)
    known = Plans(Domain([Integer("age", 0, 3, missing=0)]), REPLACED, 5)  # every row counts, so n is public
    yield "count", rows.where("age >= 2").count(eps=1)
    yield "count, persons", persons.where("age >= 2").count(eps=1)
    yield "count, replaced, zCDP", swapped.where("age >= 2").count(rho="0.5")
    for name, unit in (("", ROW), (", replaced", REPLACED), (", persons", PERSON)):
        yield f"histogram{name}", histogram_plan(DOMAIN, "age", unit=unit, eps=1)
        yield f"histogram{name}, zCDP", histogram_plan(DOMAIN, "age", unit=unit, rho="0.5")
    for name, asked in (("", rows), (", replaced", swapped), (", persons", persons)):
        yield f"sum{name}", asked.sum("age", eps=1)
        yield f"sum by region{name}, zCDP", asked.by("region").sum("age", rho="0.5")
        yield f"mean{name}", asked.mean("age", eps=1)
        yield f"mean by region{name}, zCDP", asked.by("region").mean("age", rho="0.5")
        yield f"variance{name}", asked.variance("age", eps=1)
    pairs = Domain([AGE, Integer("debt", -2, 1), REGION])
    for name, asked in (("", Plans(pairs, ROW, None)), (", replaced", Plans(pairs, REPLACED, 5))):
        yield f"sums{name}", asked.sum(["age", "debt"], eps=1)
        yield f"sums by region{name}, zCDP", asked.by("region").sum(["age", "debt"], rho="0.5")
        yield f"sums in a ball{name}", asked.sum(["age", "debt"], ball=Ball("l2", 2), eps=1)
    yield "mean, n public", known.mean("age", eps=1)
    yield "mean about an origin, replaced", swapped.mean("age", origin=1, eps=1)
    yield "variance, n public, zCDP", known.variance("age", rho="0.5")
    query = Scope(REPLACED, parse("age >= 2", DOMAIN), n=50)
    yield "query", query_plan(query, tolerance="0.05", failure="0.1")
    three = tuple(rows.where(f"age >= {age}").count(eps="0.5") for age in (1, 2, 3))
    yield "batch", BatchPlan((rows.count(eps="0.4"), rows.mean("age", eps="0.6")), Pure(1))
    yield "batch, zCDP", BatchPlan((rows.count(rho="0.1"), rows.sum("age", rho="0.4")), ZCDP("0.5"))
    both = BatchPlan((rows.by("region").mean("age", eps="0.5"), rows.by("region").count(eps="0.5")), Pure(1))
    shown = (Output("region", Group(0)), Output("ratio", Call("/", (Figure(0, "sum"), Figure(1)))))
    yield "statement", StatementPlan(both, shown, order=(Ordering(Figure(1), True),), limit=1)
    yield "covariance of two", Plans(pairs, ROW, None).cross_covariance("age", "debt", eps=1)
    yield "covariance of two, replaced", Plans(pairs, REPLACED, 5).cross_covariance("age", "debt", eps=1)
    table, few = Margin((0,), "distances", Pure("0.7"), 0), Margin((), "count", Pure("0.3"))
    alike = (
        rows.by("region").mean("age", eps="0.4"),
        rows.by("region").count(eps="0.3"),
        rows.count(eps="0.3"),
    )
    yield "batch, shared", BatchPlan(alike, Pure(1), (Strategy((0, 1, 2), (table, few)),))
    two = (swapped.by("region").mean("age", eps="0.5"), swapped.by("region").count(eps="0.5"))
    counts = Margin((0,), "count", Pure("0.3"))
    yield "batch, shared, replaced", BatchPlan(two, Pure(1), (Strategy((0, 1), (table, counts)),))
    sums = (persons.by("region").sum("age", rho="0.2"), persons.by("region").mean("age", rho="0.3"))
    wide = Margin((0,), "distances", ZCDP("0.5"), 0)
    yield "batch, shared, persons, zCDP", BatchPlan(sums, ZCDP("0.5"), (Strategy((0, 1), (wide,)),))
    yield "batch, tight", BatchPlan(three, Approx("1.34", "0.05"))


def _ranks() -> Iterator[tuple[str, Plan]]:
    from oboro.statistics.session import Plans

    rows, swapped = Plans(DOMAIN, ROW, None), Plans(DOMAIN, REPLACED, 5)
    persons = Plans(DOMAIN, PERSON, None)
    yield "persons", persons.where("age >= 2").persons(eps=1)
    yield "persons by region, zCDP", persons.by("region").persons(rho="0.5")
    yield (
        "persons by age, replaced",
        Plans(DOMAIN, Unit.person("who", 2, "replace"), 4).by("age").persons(eps=1),
    )
    for name, asked in (("", rows), (", replaced", swapped), (", persons", persons)):
        yield f"mode{name}", asked.mode("age", eps=1)
    yield "top 2 by region, replaced", swapped.by("region").top("age", 2, eps=1)
    yield "top 2", rows.top("age", 2, eps=1)
    yield "quantile", rows.quantile("age", 0.5, eps=1)
    yield "quantile, replaced", swapped.quantile("age", 0.25, eps=1)
    yield "quantile by region, replaced", swapped.by("region").quantile("age", 0.5, eps=1)
    yield "quantile, persons", persons.quantile("age", 0.5, eps=1)
    yield "quantiles, joint", swapped.quantile("age", [0.25, 0.75], eps=1)
    yield "quantiles, splitting", rows.quantile("age", [0.25, 0.5, 0.75], eps=1)
    yield "quantiles, independent", rows.quantile("age", [0.25, 0.75], method="independent", eps=1)


def _smooth() -> Iterator[tuple[str, Plan]]:
    from oboro.noise import StudentT
    from oboro.release import Pair
    from oboro.statistics.blocks import sample_aggregate_plan
    from oboro.statistics.graphs import mst_cost_plan, triangles_plan
    from oboro.statistics.own import own_function_plan
    from oboro.statistics.row_function import row_function_plan
    from oboro.statistics.scope import Scope
    from oboro.statistics.smooth import smooth_quantile_plan, trimmed_mean_plan

    scope, age = Scope(REPLACED, n=5), Integer("age", 0, 20)
    small, rho = Approx(1, "0.01"), ZCDP("0.5")
    yield "smooth median, Cauchy", smooth_quantile_plan(scope, age, "1/2", guarantee=Pure(1))
    yield (
        "smooth median, Student t",
        smooth_quantile_plan(scope, age, "1/2", guarantee=Pure(1), noise=StudentT(Fraction(3))),
    )
    yield "smooth median, Laplace", smooth_quantile_plan(scope, age, "1/2", guarantee=small)
    yield "smooth median, rows come and go", smooth_quantile_plan(Scope(ROW), age, "1/2", guarantee=Pure(1))
    yield "smooth median, zCDP", smooth_quantile_plan(scope, age, "1/2", guarantee=rho)
    nine = Scope(REPLACED, n=9)
    yield "trimmed mean", trimmed_mean_plan(nine, age, "0.2", guarantee=Pure(1))
    yield "trimmed mean, zCDP", trimmed_mean_plan(nine, age, "0.2", guarantee=rho)
    triangle = {(0, 1): 0, (1, 2): 0, (0, 2): 0}
    yield "spanning tree", mst_cost_plan(triangle, cap=10, guarantee=Pure(1))
    yield "spanning tree, zCDP", mst_cost_plan(triangle, cap=10, guarantee=rho)
    yield "triangles", triangles_plan(6, guarantee=Pure(1))
    yield "triangles, Laplace", triangles_plan(6, guarantee=small)
    yield (
        "own function",
        own_function_plan(
            _share_of_yes,
            _one_in_four,
            name="share of yes, version 1",
            bounds=(0, 1),
            step="0.01",
            unit=REPLACED,
            guarantee=Pure(1),
            pairs=(Pair([0, 0, 0, 0], [1, 0, 0, 0], "one answer changes"),),
        ),
    )
    for name, unit, n in (("", ROW, None), (", replaced", REPLACED, 4)):
        yield (
            f"sample and aggregate{name}",
            sample_aggregate_plan(
                Scope(unit, n=n), [AGE], _largest, blocks=2, bounds=(0, 3), step=1, eps=1, label="largest age"
            ),
        )
    for name, scope, price in (("", Scope(ROW), Pure(1)), (", replaced, zCDP", Scope(REPLACED, n=4), rho)):
        plan = row_function_plan(scope, [AGE], _thirds, price, label="thirds")
        yield f"sum of a function{name}", plan
    for aggregator, copies in (("mean", 1), ("smooth", 1), ("median", 2), ("mean", 2)):
        yield (
            f"sample and aggregate, {aggregator}" + (", copies" if copies > 1 else ""),
            sample_aggregate_plan(
                Scope(ROW),
                [AGE],
                _largest,
                blocks=2,
                bounds=(0, 3),
                step=1,
                eps=1,
                label="largest age",
                aggregator=aggregator,
                copies=copies,
            ),
        )


def _learners() -> Iterator[tuple[str, Plan]]:
    from oboro.statistics.clusters import clusters_plan
    from oboro.statistics.components import components_plan
    from oboro.statistics.learners import conjunction_plan, perceptron_plan, tree_plan
    from oboro.statistics.scope import Scope

    rows, swapped, persons = Scope(ROW), Scope(REPLACED, n=4), Scope(PERSON)
    answers = [Category(name, ["no", "yes"]) for name in ("smokes", "drinks")]
    label = Category("sick", ["no", "yes"])
    for name, scope in (("", rows), (", replaced", swapped), (", persons", persons)):
        yield f"clusters on a grid{name}", _grid(scope, clusters_plan)
        yield f"conjunction{name}", conjunction_plan(scope, answers, label, eps=1)
        yield f"perceptron{name}", perceptron_plan(scope, [AGE], label, eps=1, rounds=2)
        yield f"decision tree{name}", tree_plan(scope, answers, label, eps=1, depth=2)
        yield f"clusters by rounds{name}", clusters_plan(scope, [AGE], 2, eps=1, method="lloyd")
    pair = [Integer("x", -4, 4), Integer("y", -4, 4)]
    for name, guarantee in (("", Pure(1)), (", delta", Approx(1, "0.01")), (", zCDP", ZCDP("0.5"))):
        yield f"components{name}", components_plan(rows, pair, 1, radius=4, guarantee=guarantee)
        yield (
            f"components, replaced{name}",
            components_plan(swapped, pair, 1, radius=4, guarantee=guarantee),
        )


def _tables() -> Iterator[tuple[str, Plan]]:
    from oboro.tables import areas, blocks, plan
    from oboro.tables.plan import STRATEGIES
    from oboro.tables.tree.sized import Way

    moved = Unit.cells(adjacency="replace")
    for strategy in STRATEGIES:
        yield f"table, {strategy}", plan(SMALL_GRID, unit=Unit.cells(), eps=1, count="n", strategy=strategy)
        yield (
            f"table, {strategy}, replaced",
            plan(SMALL_GRID, unit=moved, eps=1, count="n", strategy=strategy),
        )
    yield "table, wavelet, persons", plan(SMALL_GRID, unit=PERSON, eps=1, strategy="wavelet")
    yield "table, wavelet, two cells", plan(SMALL_GRID, unit=Unit.cells(2, 2), eps=1, strategy="wavelet")
    yield (
        "table, wavelet, public total",
        plan(SMALL_GRID, unit=moved, eps=1, count="n", strategy="wavelet", total=1),
    )
    yield "table, tree, delta", plan(GRID, unit=Unit.cells(), eps=1, delta="0.01", count="n", strategy="tree")
    counted: Record = {"unit": Unit.cells(), "eps": 1, "count": "n"}
    yield "table, areas", plan(TOWNS, workload=areas("town"), **counted)
    yield "table, areas, replaced", plan(TOWNS, **(counted | {"unit": moved}))
    yield "table, areas, known", plan(TOWNS, known={"town": {"a": 3}}, **counted)
    yield "table, areas, delta", plan(TOWNS, delta="0.01", **counted)
    hours: Record = {"eps": 1, "ticks": 3, "max_ticks": 2}
    yield "series", plan(SMALL_GRID, unit=PERSON, **hours)
    yield "series, replaced", plan(SMALL_GRID, unit=Unit.person("who", 2, "replace"), **hours)
    yield "series, counted", plan(SMALL_GRID, unit=Unit.cells(), count="n", **hours)
    yield "series, delta", plan(SMALL_GRID, unit=PERSON, delta="0.01", **hours)
    yield "series, events", plan(SMALL_GRID, unit=ROW, event=True, **(hours | {"max_ticks": 1}))
    older: Record = {"unit": moved, "eps": 1, "count": "n", "strategy": "adaptive-0.1"}
    yield "table, adaptive of 0.1", plan(LARGE_GRID, total=9, **older)
    looks: Record = {"eps": 1, "count": "n", "strategy": "adaptive"}
    yield "table, adaptive, public total", plan(LARGE_GRID, unit=moved, total=9, **looks)
    yield "table, adaptive, delta", plan(GRID, unit=Unit.cells(), delta="0.01", **looks)
    tree = plan(GRID, unit=Unit.cells(), eps=1, count="n", strategy="tree")
    two: Record = {"strategy": "sized", "design": None, "by_people": (Way(0), Way(20, tree.design))}
    yield "table, sized, two ways", replace(tree, **two)
    yield "table, adaptive, planned", plan(LARGE_GRID, unit=Unit.cells(), workload=blocks(), **looks)
    planned: Record = {"unit": moved, "workload": blocks(), "total": 9}
    yield "table, adaptive, planned, public total", plan(GRID, **planned, **looks)
    two["by_people"] = (Way(0, tree.design, looks=True), Way(20, tree.design))
    yield "table, sized, a tree that looks", replace(tree, **two)


def _synth() -> Iterator[tuple[str, Plan]]:
    from oboro.synth import plan

    pair = Domain([Category("sex", ["F", "M"]), REGION])
    for method in ("marginals", "quality", "moments"):
        yield f"synthetic, {method}", plan(pair, unit=ROW, eps=1, delta="0.01", method=method)
        yield f"synthetic, {method}, replaced", plan(pair, unit=REPLACED, rho="0.5", n=20, method=method)
    yield "synthetic, marginals, eps alone", plan(pair, unit=ROW, eps=1, method="marginals")
    yield "synthetic, quality, eps alone", plan(pair, unit=REPLACED, eps=1, n=20, method="quality")
    yield "synthetic, moments, eps alone", plan(pair, unit=PERSON, eps=1, method="moments")
    yield "synthetic, marginals, persons", plan(pair, unit=PERSON, rho="0.5", method="marginals")
    numbers, asked = Domain([Integer("age", 0, 20)]), {"eps": 1, "delta": "0.01", "method": "gaussian"}
    yield "synthetic, gaussian", plan(numbers, unit=ROW, records=2, n_min=20, **asked)  # type: ignore[arg-type]
    yield "synthetic, gaussian, replaced", plan(numbers, unit=REPLACED, records=2, n=20, **asked)  # type: ignore[arg-type]


def _dynamics() -> Iterator[tuple[str, Plan]]:
    from oboro.dynamics import plan
    from oboro.dynamics.system import system_from

    lag = system_from(([["0.5"]], [[1]], [[1]], [[0]]))
    asked: Record = {"unit": Unit.signal(1), "horizon": 1, "eps": 1, "delta": "0.02"}
    yield "signal", plan(lag, **asked)
    yield "signal, shared", plan(lag, noise="shared", **asked)
    yield "signal, shared, on the output", plan(lag, noise="shared", where="output", **asked)
    yield "signal, Gaussian", plan(lag, alpha=2, **asked)
    yield "signal, discrete", plan(lag, noise="discrete", step=1, **asked)
    exact = {**asked, "horizon": 0, "protect": ("u",)}
    yield "signal, exact delta", plan(lag, noise="shared", method="exact", **exact)
    yield "signal, pure", plan(lag, noise="shared", **(exact | {"delta": None}))


def _secure() -> Iterator[tuple[str, Plan]]:
    from oboro.secure import draw_plan, plan

    for name, sensitivity in (("", 1), (", sensitivity 3", 3)):
        noise = plan(eps=1, delta="1e-3", urns=1, sensitivity=sensitivity)
        yield f"secure draw{name}", draw_plan(noise, low=0, high=100, unit=ROW)


def _grid(scope: object, clusters_plan: Any) -> Plan:
    from dataclasses import replace

    made: Plan = replace(clusters_plan(scope, [AGE], 2, eps=1, method="grid"), bins=4)
    return made


def _share_of_yes(data: list[int]) -> float:
    return sum(data) / 4


def _one_in_four(data: list[int], beta: float) -> float:
    return float(Fraction(1, 4))


def _largest(rows: Any) -> float:
    return float(max(rows["age"], default=0))


def _thirds(row: dict[str, int]) -> float:
    return row["age"] / 3


# The audit of everything: a sample of every kind of plan, with one false alarm in a million full runs at most.

FULL_ALARM = 5e-7  # of a full run, whatever it holds
TRIALS = 40_000
FEWEST = 200


def everything(
    trials: int = TRIALS,
    *,
    plans: Mapping[str, Plan] | None = None,
    search: int = SEARCHED,
    alarm: float = FULL_ALARM,
    bits: Bits | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Iterator[AuditReport]:
    """Audits the samples, or `plans` by name, with `search` random pairs each, fewer for slow ones.

    `alarm` is how likely any sound plan among them may be called broken. `watch` is told the name of each before it
    begins, how many are done, and how many there are.

    >>> [report.verdict for report in ob.audit.everything(trials=1000, plans={"coin": plan})]
    ['holds']
    """
    chosen = samples() if plans is None else dict(plans)
    for done, (name, plan) in enumerate(chosen.items()):
        if watch is not None:
            watch(name, done, len(chosen))
        slow = plan.slowness
        report = run(
            plan,
            max(FEWEST, trials // slow),
            search=search if slow < 20 else search // 4,
            alarm=alarm / len(chosen),
            bits=bits,
        )
        yield replace(report, name=name)
