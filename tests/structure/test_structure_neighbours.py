"""Hostile neighbouring data of every type, through every plan and every way in: the same exception or none, the same warnings.

Many hostile values stand in one table. Where it is told from a table of tame values, the value that does it is looked for.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hostile import INF, NAN, TYPED, WAYS, array, arrays, objects

import oboro as ob
from oboro.engine import count_cells, count_units, open_data
from oboro.noise.bits import system_bits
from oboro.release import Plan
from oboro.secure import Answer
from oboro.secure.elgamal import SecretKey
from oboro.statistics.quantiles import quantile_plan
from oboro.statistics.scope import Scope
from oboro.statistics.sums import SumPlan
from support import audited, mostly_long

SAMPLES = audited()


def _rows(plan: Plan) -> dict[str, list[Any]] | None:
    """The columns of a plan's own first data, where that is a table."""
    data = next(iter(plan.neighbours())).one
    found = data.to_pydict() if hasattr(data, "to_pydict") else data
    table = isinstance(found, dict) and all(isinstance(name, str) for name in found) and "x0" not in found
    return found if table else None


def _wide() -> dict[str, Plan]:
    """Columns that the samples do not have: reals, dates, whole labels, numbers beyond doubles; a signal in a table."""
    row, person = ob.Unit.row(), ob.Unit.person("who", 2)
    columns: dict[str, Any] = {
        "dates": ob.Date("age", "0001-01-01", "9999-12-31"),
        "whole labels": ob.Category("age", [0, 1, 2**60]),
        "reals": ob.Real("age", "-1e18", "1e18", "1"),
        "fine reals": ob.Real("age", "0", "1e-140", "1e-150"),
        "wide numbers": ob.Integer("age", -(2**61), 2**61 - 1),
        "steps": ob.Integer("age", -(2**53), 2**53, step=2**4, missing=0),
    }
    made: dict[str, Plan] = {}
    for name, column in columns.items():
        if name == "whole labels":
            made[f"histogram of {name}"] = ob.histogram_plan(ob.Domain([column]), "age", unit=row, eps=1)
        else:
            made[f"quantile of {name}"] = quantile_plan(column, "1/2", Scope(row), ob.Pure(1))
        if name == "dates":
            domain = ob.Domain([ob.Date("age", "1970-01-01", "1970-12-31")])
            made["records of dates"] = ob.synth.plan(domain, unit=person, rho="0.5", method="marginals")
        elif name != "whole labels":
            made[f"sum of {name}"] = SumPlan(column, Scope(person), ob.Pure(1))
    asked: dict[str, Any] = {"unit": ob.Unit.signal(1), "eps": 1, "delta": "0.02", "columns": ("age",)}
    made["signal in a table"] = ob.dynamics.plan(([["0.5"]], [[1]], [[1]], [[0]]), horizon=200, **asked)
    return made


TABLES = {name: rows for name, plan in SAMPLES.items() if (rows := _rows(plan))}
NAMES = sorted({name for rows in TABLES.values() for name in rows} | {"who"})
PLANS = {name: SAMPLES[name] for name in TABLES} | _wide()
PUBLIC = {  # how many rows there must be
    name: len(next(iter(rows.values())))
    for name, rows in TABLES.items()
    if PLANS[name].unit.adjacency == "replace" and PLANS[name].unit.kind != "person"
}
# as many rows as there are; how many persons there are is public under replace, and hostile ids change it
OPEN = [name for name, plan in PLANS.items() if plan.unit.adjacency != "replace"]


def trace(work: Callable[..., Any], *given: Any) -> str:
    """Everything that can be seen of it but its numbers."""
    return _traced(work, *given)[0]


def _traced(work: Callable[..., Any], *given: Any) -> tuple[str, Any]:
    said, log, found = io.StringIO(), io.StringIO(), None
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(said), redirect_stderr(said):
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ResourceWarning)  # of what other tests left open
            try:
                found = work(*given)
                seen = f"quiet: {found if isinstance(found, str) else ''}"
            except Exception as error:
                seen = f"{type(error).__name__}: {error}"
    finally:
        logging.getLogger().removeHandler(handler)
    return " | ".join([seen, *(str(one.message) for one in warned), said.getvalue(), log.getvalue()]), found


def released(plan: Plan, data: Any) -> str:
    """Runs a plan on data; the form of what comes out."""
    return str(plan.publish(plan.measure(plan.prepare(data), system_bits())).schema.remove_metadata())


def told(kind: str, way: str, plans: Iterable[str], path: Path) -> list[str]:
    """Which plans tell hostile values of a type from tame ones, and by what."""
    known = TYPED[kind][1]
    possible = [value for value in [*known, None] if comes(kind, way, [value], path) is not None]
    if comes(kind, way, known[:1] * 2, path) is None:
        return []
    found, opened = [], {}
    for name in plans:
        rows = PUBLIC.get(name, len(possible))
        if rows not in opened:
            worlds = (known[:1] * rows, list(islice(cycle(possible), rows)))
            given = [comes(kind, way, values, path) for values in worlds]
            if any(one is None for one in given):  # such values do not come together this way
                return found
            opened[rows] = [_traced(open_data, one) for one in given]
        seen = [
            trace(released, PLANS[name], source) if source is not None else said
            for said, source in opened[rows]
        ]
        if seen[0] != seen[1] or opened[rows][0][0] != opened[rows][1][0]:
            found.append(f"{name}, {kind}, {way}: {seen[0][:150]!r} or {seen[1][:150]!r}")
    return found


def comes(kind: str, way: str, values: list[Any], path: Path) -> Any:
    """Data of such values; None where this way has no place for them."""
    try:
        return WAYS[way](pa.table({name: array(kind, values) for name in NAMES}), path)
    except BaseException as error:  # a panic of Polars is none of the usual
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


@pytest.mark.few(3, "hostile neighbours")
@pytest.mark.parametrize("way", WAYS)
def test_no_value_of_a_type_is_told_from_another(way: str, tmp_path: Path) -> None:
    """Every way in, some types and plans of each; the next test has them all."""
    first = list(WAYS).index(way)
    for turn, kind in enumerate(list(TYPED)[first::18]):
        other = OPEN[(13 * turn + 7 * first) % len(OPEN)]
        assert not told(kind, way, ["sum of wide numbers", other], tmp_path)


@pytest.mark.long("hostile neighbours")
@pytest.mark.parametrize("way", WAYS)
def test_no_value_of_any_type_is_told_from_another_by_any_plan(way: str, tmp_path: Path) -> None:
    """Every type by every way, every plan by every way, and every type to every plan by two ways or more."""
    for turn, kind in enumerate(TYPED, list(WAYS).index(way)):
        # plans under replace read few rows at a time, and as the others do: fewer of them for each type
        assert not told(kind, way, [*OPEN[turn % 4 :: 4], *list(PUBLIC)[turn % 7 :: 7]], tmp_path)


@pytest.mark.parametrize("way", ["Arrow", "Parquet", "Parquet with milliseconds"])
@pytest.mark.long("hostile neighbours")
def test_no_value_of_a_column_that_nobody_asks_for_is_told_from_another(way: str, tmp_path: Path) -> None:
    """It stands first, where DuckDB looks to count rows."""
    unit, column = ob.Unit.row("replace"), ob.Integer("x", 0, 1)

    def data(kind: str, values: list[Any]) -> Any:
        table = pa.table({"other": array(kind, values), "x": [1] * len(values)})
        if way == "Parquet with milliseconds":
            table = table.append_column("t", pa.array([0] * len(values), pa.timestamp("ms")))
        return table if way == "Arrow" else WAYS["Parquet"](table, tmp_path)

    def asked(given: Any) -> str:
        source = open_data(given)
        return f"{count_units(source, unit)} {count_cells(source, [column], unit)}"

    compared = 0
    for kind, (_, known) in TYPED.items():
        possible = [value for value in known if comes(kind, "Arrow", [value], tmp_path) is not None]
        try:
            worlds = [data(kind, possible), data(kind, known[:1] * len(possible))]
        except (pa.ArrowException, NotImplementedError, OSError):  # Parquet has no such type
            continue
        hostile, tame = (trace(asked, world) for world in worlds)
        assert hostile == tame, kind
        compared += tame.startswith("quiet")
    assert compared > 40


def test_a_plan_that_complains_of_a_value_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = type(PLANS["histogram"])
    counted = plan.prepare

    def complain(self: Any, data: Any) -> Any:
        counts = counted(self, data)
        if counts[1]:
            warnings.warn("somebody is one year old", stacklevel=1)
        return counts

    assert not told("int8", "CSV", ["histogram"], tmp_path)
    monkeypatch.setattr(plan, "prepare", complain)
    assert told("int8", "CSV", ["histogram"], tmp_path)


# -- arrays of NumPy and pandas, and Python objects ----------------------------------------------------------------

ARRAYS = arrays()


def repeated(values: Any, place: int, times: int) -> Any:
    """One value of an array, several times over, in an array of the same type."""
    index = np.full(times, place)
    return values.iloc[index].reset_index(drop=True) if isinstance(values, pd.Series) else values[index]


READERS = [
    "histogram",
    "sum, persons",
    "quantile of dates",
    "histogram of whole labels",
    "synthetic, marginals, persons",
    "signal in a table",
]


@pytest.mark.parametrize("every", mostly_long("hostile neighbours", (False, True), [False]))
@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.few(14, "hostile neighbours")
def test_no_value_of_an_array_is_told_from_another(kind: str, every: bool) -> None:
    values = ARRAYS[kind]
    readers = READERS if every else [READERS[list(ARRAYS).index(kind) % len(READERS)]]
    for form in (dict, pd.DataFrame) if not kind.startswith("records") else (dict,):
        worlds = []
        for each in (values, repeated(values, 0, len(values))):
            try:
                worlds.append(form(dict.fromkeys(NAMES, each)))
            except (TypeError, ValueError, OverflowError):  # pandas has no such column
                break
        for name in readers if len(worlds) == 2 else ():
            hostile, tame = (trace(released, PLANS[name], data) for data in worlds)
            assert hostile == tame, (name, form.__name__)


@pytest.mark.parametrize(
    "name",
    mostly_long(
        "hostile neighbours",
        [*READERS, "quantile", "table, tree", "components"],
        ["sum, persons", "table, tree"],
    ),
)
@pytest.mark.few(1, "hostile neighbours")
def test_no_object_in_a_list_is_told_from_another(name: str) -> None:
    plan, things = PLANS[name], objects()
    column = np.empty(len(things), object)
    for place, thing in enumerate(things):
        column[place] = thing
    tame = trace(released, plan, {each: [0] * len(things) for each in NAMES})
    assert tame.startswith("quiet")
    frame = pd.DataFrame({each: pd.Series(column, dtype=object) for each in NAMES})
    for data in (dict.fromkeys(NAMES, things), dict.fromkeys(NAMES, column), frame):
        if trace(released, plan, data) != tame:
            for thing in things:
                said = trace(released, plan, {each: [0, thing] for each in NAMES})
                assert said == tame, f"{type(thing)}: {said}"
            raise AssertionError(trace(released, plan, data))


# -- data that is no table -----------------------------------------------------------------------------------------


def graphs(name: str, thing: Any) -> Any:
    """Edges, or weights of edges, with a thing among them."""
    return [(0, 1), (1, 2), (0, 2), thing] if name == "triangles" else {(0, 1): 1, (1, 2): thing, (0, 2): 3}


def estimated(which: str, rows: Any) -> str:
    from oboro.statistics.estimators import PCA, KMeans

    made = KMeans(1, bounds=[(0, 9), (0, 9)]) if which == "KMeans" else PCA(1, radius=9, origin=(0, 0))
    made.fit(rows)
    return f"{made.guarantee_} {made.n_features_in_}"


def encrypted(thing: Any) -> str:
    answer = Answer.encrypt(thing, low=0, high=9, public=PUBLIC_KEY)
    return f"{answer.low} {answer.high} {len(answer.ciphertext)}"


PUBLIC_KEY = SecretKey.generate(system_bits()).public
ALONE: dict[str, Callable[[Any], Any]] = {
    "spanning tree": lambda thing: released(SAMPLES["spanning tree"], graphs("spanning tree", thing)),
    "triangles": lambda thing: released(SAMPLES["triangles"], graphs("triangles", thing)),
    "triangles, an end": lambda thing: released(SAMPLES["triangles"], [(0, 1), (1, thing)]),
    "signal": lambda thing: released(SAMPLES["signal"], {"u": [0.5, thing], "x0": [thing]}),
    "signal, a list": lambda thing: released(SAMPLES["signal"], [0.5, thing]),
    "secure draw": lambda thing: released(SAMPLES["secure draw"], thing),
    "secure answer": encrypted,
}
TAME = {"triangles": (0, 3)}


@pytest.mark.parametrize("name", ALONE)
def test_no_object_in_other_data_is_told_from_another(name: str) -> None:
    tame = trace(ALONE[name], TAME.get(name, 1))
    assert tame.startswith("quiet")
    for thing in objects():
        said = trace(ALONE[name], thing)
        assert said == tame, f"{type(thing)}: {said}"


@pytest.mark.parametrize("which", ["KMeans", "PCA"])
def test_no_object_in_a_list_of_rows_is_told_from_another(which: str) -> None:
    def rows(things: list[Any]) -> list[Any]:
        return [[1, 2], *things, *([thing, 1] for thing in things)]

    things = objects()
    tame = trace(estimated, which, rows([1] * len(things)))
    assert tame.startswith("quiet")
    if trace(estimated, which, rows(things)) != tame:
        for thing in things:
            said = trace(estimated, which, rows([thing]))
            assert said == tame, f"{type(thing)}: {said}"


@pytest.mark.parametrize("which", ["KMeans", "PCA"])
def test_how_many_rows_an_estimator_gets_is_private_and_its_width_is_not_theirs(
    which: str, tmp_path: Path
) -> None:
    from oboro.statistics.estimators import PCA, KMeans

    budget, unit = ob.Approx(9, "1e-3"), ob.Unit.row()
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="d", unit=unit, budget=budget)
    wide: Any = KMeans(1, bounds=[(0, 9), (0, 9)], ledger=ledger)
    narrow: Any = KMeans(1, bounds=(0, 9), ledger=ledger)
    if which == "PCA":
        wide, narrow = PCA(1, radius=9, origin=[0, 0], ledger=ledger), PCA(1, radius=9, ledger=ledger)
    usual = trace(wide.fit, [[1, 2], [3, 4]])
    assert usual.startswith("quiet")
    for rows in ([], [[1, 2]], [[1, 2, 3]], [[1], [2]], [None], np.ones((0, 2)), np.ones((1, 2))):
        assert trace(wide.fit, rows) == usual
    refused = {trace(narrow.fit, rows) for rows in ([], [[1, 2]], [[1, 2, 3]], [None], ((1, 2), (3, 4)))}
    assert {one.replace("tuple", "list") for one in refused} == {next(iter(refused)).replace("tuple", "list")}
    assert "does not say how many columns" in refused.pop()


@pytest.mark.parametrize("which", ["KMeans", "PCA"])
def test_what_is_no_table_is_refused_by_what_it_is(which: str) -> None:
    """And never by what it holds, which is never shown: to fit as to predict."""
    import scipy.sparse

    from oboro.statistics.estimators import PCA, KMeans

    def made() -> Any:
        return KMeans(1, bounds=(0, 9)) if which == "KMeans" else PCA(1, radius=9)

    kinds: dict[str, Callable[[Any], Any]] = {
        "one dimension": lambda one: np.array([one, one]),
        "objects": lambda one: np.array([one, one], object),
        "three dimensions": lambda one: np.array([[[one]]], object),
        "no dimension": lambda one: np.array(one, object),
        "fields": lambda one: np.array([(one,)], [("a", object)]),
        "series": lambda one: pd.Series([one, one], dtype=object),
        "polars": lambda one: pl.Series([str(one)]),
        "dictionary": lambda one: {"a": [one]},
        "set": lambda one: {one},
        "text": str,
        "iterator": lambda one: iter([one]),
    }
    numbers: dict[str, Callable[[float], Any]] = {
        "complex": lambda one: np.array([[one, 1j]]),
        "sparse": lambda one: scipy.sparse.csr_matrix([[one, 1]]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = made().fit(np.ones((2, 2)))
    for ask in (lambda rows: made().fit(rows), fitted.transform):
        for kind, form in kinds.items():
            seen = {trace(ask, form(one)) for one in ("777", "secret", "nan", "")}
            assert len(seen) == 1, kind
            assert "DataError" in seen.pop()
        for kind, form in numbers.items():
            seen = {trace(ask, form(one)) for one in (777.0, 0.0, NAN, INF)}
            assert len(seen) == 1, kind
            assert "DataError" in seen.pop()
    # rows to predict need not have the width of most of them, nor be there
    assert trace(fitted.transform, [[1, 2], [3, 4]]) == trace(fitted.transform, [[1], [2, 3, 4]])
    assert trace(fitted.transform, [None]) == trace(fitted.transform, [[1, 2]])
    if which == "PCA":
        back = {trace(fitted.inverse_transform, [[one], [1]]) for one in (777, "secret", NAN, None, INF)}
        assert back == {"quiet:  |  | "}


def test_no_sample_of_several_inputs_is_told_from_another(tmp_path: Path) -> None:
    """In a list, where it decides neither whether nor how many samples come out, and in a stream, which is paid for."""
    unit = ob.Unit.signal(1)
    system = ([["0.5"]], [[1, 1]], [[1]], [[0, 0]])
    plan = ob.dynamics.plan(system, horizon=1, unit=unit, eps=1, delta="1e-3", columns=("u", "v"))
    things = [
        None,
        NAN,
        5.0,
        "x",
        [1],
        [1, 2, 3],
        [None, "x"],
        (NAN, INF),
        np.array([None, 1], object),
        object(),
    ]

    def length(data: Any) -> str:
        return str(plan.publish(plan.measure(plan.prepare(data), system_bits())).num_rows)

    for one in things:
        for other in things:
            assert trace(length, [one, other]) == trace(length, [[0, 0], [0, 0]])
    budget = ob.Approx(100, "0.5")
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="d", unit=unit, budget=budget)
    for thing in things:
        live = ob.dynamics.stream(plan, ledger=ledger)
        assert trace(lambda live=live, thing=thing: str(live.step(thing) is not None)) == "quiet: True |  | "
