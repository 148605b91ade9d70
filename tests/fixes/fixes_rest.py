"""Calls that are refused with a fix, rarer than those of `fixes_calls` and `fixes_more`, and written in the same way.

Below them is what they name beside the names of `fixes_world`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
from fixes_world import COLUMNS, modelled, module, typed

import oboro as ob
from oboro.synth.marks import _written, read_mark, write_records

REST = r"""
# -- dynamics
ob.dynamics.calibrate(alpha="1.5", eps=700, delta="1e-6")
ob.dynamics.gain(stiff(), horizon=200) ==> ob.dynamics.gain(stiff(), horizon=3)
(lambda scale: (scale.take(), scale.take()))(module("dynamics.laws").Scale(Fraction(1), ob.noise.bits.Bits())) ==> ((lambda plan, ledger: {fix_call})(signal, signal_ledger), (lambda plan, ledger: {fix_call})(signal, signal_ledger))
# -- statistics
patched("statistics.isolation", "_started", unstarted, lambda: module("statistics.isolation").Computing(job()).__enter__()) ==> people.plan.sample_and_aggregate("def f(rows):\n    return 1.0\n", columns=["age"], blocks=2, bounds=(0, 1), eps="0.1", isolation=fix.split('"')[1])
batched(replaced).strategies[0].prepare(text_at("five.csv", PEOPLE + PEOPLE.splitlines()[1] + "\n")) ==> ob.run(batched(ob.Session("five.csv", domain=domain, unit=ob.Unit.row("replace"), ledger=replaced_ledger)), "five.csv", replaced_ledger)
tables_with(batched(people), answers=(0, 99)) ==> block(people, "{fix}", "batch.mean('age', weight=2)")
tables_with(batched(people), margins=()) ==> block(people, "{fix}", "batch.mean('age', weight=2)")
dataclasses.replace(own_function(), name="") ==> own_function(**dict({fix}))
patched("statistics.row_function", "rehearse", lambda job, rows: job, lambda: people.plan.sum_of("def g(row):\n    return 7\n", columns=["region"], eps="0.1").values) ==> people.plan.sum_of("def g(row):\n    return 1\n", columns=["region"], eps="0.1").values
dataclasses.replace(replaced.plan.quantile("age", 0.5, method="smooth", rho=1), law=module("statistics.smooth_noise").LaplaceLogNormal(None)).noise ==> dataclasses.replace(replaced.plan.quantile("age", 0.5, method="smooth", rho=1), **incomplete(fix)).noise
# -- engine, privacy
people.plan.count(eps="0.001").prepare(damaged()) ==> people.plan.count(eps="0.001").prepare("people.csv")
ob.Domain.from_toml("older-rules.toml") if text_at("older-rules.toml", 'impossible = "never.csv"\n' + COLUMN) and open("never.csv", "wb").write("age,名\n3,男\n".encode("cp932")) else None ==> shell(fix)
ob.Ledger.create("odd.csv", dataset="x", unit=ob.Unit.row(), budget=ob.Pure(1)) and counted().save("odd.csv") ==> counted().save("{fix}"[3:])
module("engine.persons").check_keys([ob.engine.open_data(pa.table({"person": [1]})), ob.engine.open_data(pa.table({"person": [1.0]}))], ob.Unit.person("person", 2)) ==> module("engine.persons").check_keys([ob.engine.open_data(pa.table({"person": ["1"]})), ob.engine.open_data(pa.table({"person": ["1"]}))], ob.Unit.person("person", 2))
module("privacy.events").cost_of(3) ==> (lambda guarantee: {fix_call})(ob.Pure(1))
ob.engine.open_data(pa.table({"age": [1], "x": pa.array([None], pa.decimal256(60, 2))})) ==> ob.engine.open_data(pa.table({"age": [1]}))
ob.Domain.from_toml(text_file(COLUMN + '[labels]\n年齢 = "x"\n')) ==> tomllib.loads(fix)
# -- synthetic records
copied().sample(3, where={"region": "nrth"})
patched("synth.copula", "_MOST_TRIES", 0, lambda: copied().sample(3, where={"age": 119})) ==> ob.synth.plan(domain.only("age", "region"), unit=ob.Unit.row(), eps=1, delta="1e-6", method=fix.split('"')[1])
patched("synth.contents", "_memory", lambda: 2**6, lambda: ob.synth.check(marked())) ==> ob.synth.check("marked.parquet")
module("synth.contents").check_room(10**12, small, "huge.parquet") ==> module("synth.contents").check_room(10**3, small, "one-of-many.parquet")
patched("synth.check", "drawn_again", lambda *a: (_ for _ in ()).throw(MemoryError()), lambda: ob.synth.check(marked())) ==> ob.synth.check("marked.parquet")
ob.synth.check(of_an_older_version("older.csv"), output="anew.csv") ==> ob.synth.check("older.csv", output="anew.csv", **dict({fix}))
ob.synth.load(".") ==> ob.synth.load("{fix}") if modelled().save("model.oboro") else None
# -- tables
ob.run(ob.tables.plan(two_meshes(), unit=ob.Unit.row(), eps="0.1"), pa.table({"home": ["5339452611"], "work": ["5339452611"]}), row_ledger) ==> ob.run(ob.tables.plan(two_meshes(), unit=ob.Unit.cells(2), eps="0.1", **dict({fix})), pa.table({"home": ["5339452611"], "work": ["5339452611"], "people": [3]}), cells_ledger)
visits() ==> visits(**dict({fix}))
towns_release().save("towns.gpkg", by="town") ==> towns_release().save("towns.gpkg", by="town", outlines=outlines())
bands("bands.tif") ==> bands("{fix}")
ob.tables.tree.workload.Workload(()) ==> ob.tables.plan(grid, unit=ob.Unit.cells(), eps=1, **dict({fix}))
unmeasured() ==> typed("table release cells.csv --domain grid.toml --count people --eps 1 --ledger cells.ledger " + fix.partition("... ")[2].replace("published", "measured"))
hourly(pa.timestamp("us")) ==> hourly_again(fix)
hourly(pa.date32()) ==> hourly_again(fix)
# -- the command line
prompted("SELECT COUNT(*) FROM people") ==> prompted(fix, "SELECT COUNT(*) FROM people", "yes")
uninstalled("fastapi", lambda: typed("serve service.toml")) ==> extra(fix)
"""


def stiff() -> Any:
    """A system whose numbers are further apart than doubles can tell."""
    return ([[0.9, 1e8, 0], [0, 0.9, 1e8], [0, 0, 0.9]], [[0], [0], [1]], [[1e-8, 0, 0]], [[0]])


def unstarted(**_: object) -> Any:
    raise OSError("no more processes")


def job() -> Any:
    return module("statistics.isolation").Job("def f(rows):\n    return 1.0\n", ("age",), 1, 1.0, "sealed")


def batched(session: ob.Session) -> Any:
    with session.batch(eps="0.1") as batch:
        batch.count()
        batch.histogram("region")
        batch.histogram(["region", "smokes"])
        batch.by("smokes").count()
        batch.by("smokes").mean("age")
        batch.mean("age")
        plan = batch.plan
        batch._asked.clear()  # nothing is asked
    return plan


def tables_with(plan: Any, **changed: Any) -> Any:
    """The batch with other tables than the planner made."""
    shared = dataclasses.replace(plan.shared[0], **changed)
    return dataclasses.replace(plan, shared=(shared, *plan.shared[1:]))


def incomplete(fix: str) -> dict[str, Any]:
    """The law and beta that a fix shows."""
    law, _, beta = fix.rpartition(", ")
    return {
        "law": eval(law, vars(module("statistics.smooth_noise"))),
        "beta": Fraction(beta.split("=")[1].strip('"')),
    }


def own_function(name: str = "mine") -> Any:
    from oboro.statistics.own import own_function_plan

    return own_function_plan(
        lambda rows: 1.0,
        lambda rows, beta: 1.0,
        name=name,
        bounds=(0, 10),
        step=1,
        unit=ob.Unit.row("replace"),
        guarantee=ob.Pure(1),
    )


def copied() -> Any:
    """A model of scores, that draws under conditions by drawing again."""
    plan = ob.synth.plan(
        ob.Domain(COLUMNS).only("age", "income", "odd", "region"),
        unit=ob.Unit.row(),
        method="moments",
        eps=1,
        delta="1e-6",
    )
    ledger = ob.Ledger.create(
        f"copied-{len(list(Path().glob('copied-*.ledger')))}.ledger",
        dataset="people",
        unit=ob.Unit.row(),
        budget=ob.Approx(10, "0.1"),
    )
    return ob.synth.release("people.csv", plan, ledger=ledger)


def two_meshes() -> ob.Domain:
    return ob.Domain([ob.Mesh(name, "250m", region=[5339]) for name in ("home", "work")])


def visits(count: str | None = None) -> Any:
    """A tick of a series over columns whose codes are wide."""
    domain = ob.Domain(
        [ob.Mesh("home", "250m", region=[5339]), *(ob.Mesh(name, "80km", region=[5339]) for name in "ab")]
    )
    unit = ob.Unit.person("person", 2) if count is None else ob.Unit.cells(2)
    plan = ob.tables.plan(domain, unit=unit, eps=1, ticks=24, max_ticks=2, count=count)
    ledger = ob.Ledger.create(f"visits-{count}.ledger", dataset="city", unit=unit, budget=ob.Pure(9))
    data = pa.table(
        {"tick": [0], "home": ["5339452611"], "a": ["5339"], "b": ["5339"], "person": ["x"], "people": [3]}
    )
    return ob.tables.series(plan, ledger=ledger, name="hours").publish(data, tick=0)


def bands(path: str) -> Any:
    """A map of so many kinds of people that no raster has a band for each number of each."""
    kinds = [str(i) for i in range(60)]
    domain = ob.Domain([ob.Mesh("mesh", "80km", region=[5339]), ob.Category("kind", kinds)])
    plan = ob.tables.plan(domain, unit=ob.Unit.cells(), eps=1, count="people")
    ledger = ob.Ledger.create(f"{path}.ledger", dataset="city", unit=ob.Unit.cells(), budget=ob.Pure(9))
    data = pa.table({"mesh": ["5339"] * 60, "kind": kinds, "people": [10**6] * 60})
    return ob.run(plan, data, ledger).save(path)


def outlines() -> str:
    square = [[[0, 0], [1, 0], [1, 1], [0, 0]]]
    shapes = [
        {
            "type": "Feature",
            "properties": {"town": town},
            "geometry": {"type": "Polygon", "coordinates": square},
        }
        for town in "ab"
    ]
    Path("towns.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    return "towns.geojson"


def unmeasured() -> Any:
    """Asks a strategy of the paper for an interval."""
    plan = ob.tables.plan(
        ob.Domain([ob.Grid("row", "col", shape=(16, 16))]),
        unit=ob.Unit.cells(),
        eps=1,
        strategy="wavelet",
        count="people",
    )
    return plan.mechanism.published(pa.table({}))


_TICKS: list[Any] = []


def hourly(kind: pa.DataType) -> None:
    """A tick of a series whose data says when by the clock."""
    domain = ob.Domain([ob.Grid("row", "col", shape=(4, 4))])
    plan = ob.tables.plan(domain, unit=ob.Unit.cells(2), eps=1, ticks=3, max_ticks=2, count="people")
    ledger = ob.Ledger.create(
        f"hourly-{len(_TICKS)}.ledger", dataset="city", unit=ob.Unit.cells(2), budget=ob.Pure(9)
    )
    data = pa.table(
        {
            "tick": pa.array([0, 1]).cast(pa.int32()).cast(kind)
            if kind == pa.date32()
            else pa.array([0, 1]).cast(kind),
            "row": [0, 1],
            "col": [1, 1],
            "people": [3, 4],
        }
    )
    _TICKS.append((ob.tables.series(plan, ledger=ledger, name="hours"), data))
    _TICKS[-1][0].publish(data, tick=0)


def hourly_again(fix: str) -> None:
    import pyarrow
    import pyarrow.compute

    series, data = _TICKS[-1]
    start = data["tick"][0]
    ticks = eval(fix, {"pyarrow": pyarrow, "start": start, "data": data})
    series.publish(data.set_column(0, "tick", ticks), tick=0)


def prompted(*lines: str) -> None:
    """Lines that are typed at the prompt of `oboro sql`; what it refuses comes out as it is."""
    usual, kept = sys.stdin, module("cli.sql").echo
    refused: list[Any] = []
    cli = module("cli.sql")
    ask = cli._ask

    def asked(*args: Any) -> None:
        try:
            ask(*args)
        except ob.OboroError as error:
            refused.append(error)
            raise

    sys.stdin, cli._ask = StringIO("".join(f"{line}\n" for line in lines)), asked
    try:
        typed("sql people.toml")
    finally:
        sys.stdin, cli._ask, cli.echo = usual, ask, kept
    if refused:
        raise refused[0]


def uninstalled(name: str, work: Callable[[], Any]) -> Any:
    """Does something where a module cannot be found."""
    import importlib.util

    usual = importlib.util.find_spec

    def find(wanted: str, package: str | None = None) -> Any:
        return None if wanted == name else usual(wanted, package)

    importlib.util.find_spec = find
    try:
        return work()
    finally:
        importlib.util.find_spec = usual


def damaged() -> pa.Table:
    """Texts of a file whose offsets lead beyond it."""
    feather.write_feather(pa.table({"age": ["1" * 5, "2" * 7]}), "damaged.arrow", compression="uncompressed")
    offsets, wrong = (
        b"".join(place.to_bytes(4, "little") for place in one) for one in ((0, 5, 12), (0, 9**9, 12))
    )
    Path("damaged.arrow").write_bytes(Path("damaged.arrow").read_bytes().replace(offsets, wrong))
    return pa.ipc.open_file("damaged.arrow").read_all()


def marked() -> str:
    """Synthetic records as they were written."""
    modelled().save("model.oboro")
    write_records(ob.synth.load("model.oboro").sample(3), "marked.parquet")
    return "marked.parquet"


def of_an_older_version(path: str) -> str:
    """Synthetic records whose mark holds no model."""
    modelled().save("model.oboro")
    write_records(ob.synth.load("model.oboro").sample(3), Path(path))
    beside = Path(path + ".synthetic.json")
    said = read_mark(beside.read_bytes())
    assert said is not None
    beside.write_bytes(_written({name: part for name, part in said.items() if name != "model"}))
    return path


RARE: dict[str, Any] = {
    one.__name__: one
    for one in (stiff, unstarted, job, batched, tables_with, own_function, incomplete, copied, two_meshes, visits, bands, outlines, unmeasured, hourly, hourly_again, prompted, uninstalled, damaged, marked, of_an_older_version)
} | {"dataclasses": dataclasses}  # fmt: skip
