"""Questions to a published table, from its file alone."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oboro.domain import Domain, Grid, Mesh
from oboro.errors import DataError
from oboro.exact import Number, positive, show
from oboro.files import reads
from oboro.kinds import list_of, path_of, takes
from oboro.noise import Bits, system_bits
from oboro.privacy import Pure
from oboro.release import plan_from
from oboro.tables.plan import TablePlan
from oboro.tables.subtrees.parts import in_parts
from oboro.tables.tree.answers import Where, is_code, names_of, places_named
from oboro.tables.tree.intervals import Answer, plan_in

if TYPE_CHECKING:
    from oboro.arrays import Data


@takes(where=Mapping)
def ask(published: Any, where: Where | None = None, *, level: float = 0.95) -> Answer:
    """How many people a published table counts in a part of it, and an interval for the true number.

    `published` is a Parquet or Arrow file that oboro released by strategy tree, filtered, adaptive or sized, or the table of
    it. `where` names the part: a value, a list of
    values or a pair (low, high) for any column; a column that it does not name is taken as a whole.

        ask("published.parquet", {"row": (100, 131), "col": (200, 231), "sex": "F"})

    >>> plan = ob.tables.plan(mesh, unit=ob.Unit.cells(), eps=1, count="people")
    >>> release = ob.tables.release(cells, plan, ledger=ledger)
    >>> _ = release.save("city.parquet")
    >>> answer = ob.tables.ask("city.parquet", {"row": (0, 3)})
    >>> answer.low <= answer.value <= answer.high
    True
    """
    table, plan = _opened(published, where or {})
    return plan.ask(table, where or {}, level)


def unallocated(published: Any) -> Any:
    """For a table by strategy filtered: blocks that hold people, and how many of them are in no published cell.

    An Arrow table: the columns of the first cell of each block, `cells` (how many it has), `held`, `unallocated`.

    >>> plan = ob.tables.plan(mesh, unit=ob.Unit.cells(), eps=1, count="people", strategy="filtered")
    >>> release = ob.tables.release(cells, plan, ledger=ledger)
    >>> ob.tables.unallocated(release.to_arrow()).column_names
    ['row', 'col', 'cells', 'held', 'unallocated']
    """
    table, plan = _opened(published)
    return plan.mechanism.unallocated(table)


def _opened(published: Any, where: Where | None = None) -> tuple[Any, TablePlan]:
    """The table, and the plan that it carries. With `where`: at least the rows that the answer rests on."""
    if hasattr(published, "schema"):
        return published, _plan(published)
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = path_of("published", published)
    if path.is_dir():
        raise in_parts()
    reads(path)
    if path.suffix.lower() in (".csv", ".json"):
        raise DataError(
            f"{path.name} does not carry what intervals come from",
            given=f"{path.suffix.lower()}, which has no place for it",
            needed="the Parquet or Arrow file of the same release: keep it, and publish it too",
            fix=f"oboro table release ... --name NAME -o {shlex.quote(path.stem + '.parquet')}, which a named release gives again, free",
        )
    try:
        if path.suffix.lower() == ".arrow":
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
                table.validate(full=True)  # offsets that lead beyond their bytes would end the program
                return table, _plan(table)
        with pa.OSFile(str(path)) as source:  # a path, and never an address, which pyarrow would follow
            file = pq.ParquetFile(source)
            head = file.schema_arrow.empty_table()
            plan = _plan(head)
            if where is None or not plan.mechanism.part_alone(head):
                return file.read(), plan
            return file.read_row_groups(_groups(file.metadata, plan.domain, where)), plan
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{published} cannot be read",
            given=str(error).partition("\n")[0],
            needed="a Parquet or Arrow file that oboro released",
        ) from None


def _plan(table: Any) -> TablePlan:
    plan = plan_from(plan_in(table))
    if not isinstance(plan, TablePlan):
        raise DataError("only a table can be asked", given=plan.kind, needed="a table that oboro released")
    return plan


def _groups(metadata: Any, domain: Domain, where: Where) -> list[int]:
    """The parts of a Parquet file that may hold rows which a question asks for, by what the file says of its columns.

    By places on a grid and by mesh codes; what is asked of other columns leaves no part out.
    """
    spans = dict(_spans(domain, where))
    names = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}

    def may_hold(group: int) -> bool:
        for name, (low, high) in spans.items():
            known = metadata.row_group(group).column(names[name]).statistics if name in names else None
            if known is None or not known.has_min_max or not type(known.min) is type(known.max) is int:
                continue
            if known.max < low or known.min > high:
                return False
        return True

    return [group for group in range(metadata.num_row_groups) if may_hold(group)]


def _spans(domain: Domain, where: Where) -> Iterator[tuple[str, tuple[int, int]]]:
    """The least and the largest number that may stand in a column, of what is asked for."""
    for column in domain:
        if isinstance(column, Grid):
            for name in set(column.names) & set(where):
                found = places_named(column, name, where[name])
                yield name, (int(found.min()), int(found.max()))
        elif isinstance(column, Mesh) and column.name in where:
            codes = [str(value) for value in names_of(column, column.name, where[column.name])]
            if codes and all(is_code(column, code) for code in codes):
                units = [10 ** (column.digits - len(code)) for code in codes]
                low = min(int(code) * unit for code, unit in zip(codes, units, strict=True))
                high = max((int(code) + 1) * unit - 1 for code, unit in zip(codes, units, strict=True))
                yield column.name, (low, high)


# A look at what a release would be like, beside the truth. FOR THE STEWARD'S EYES: this is not private.
#
# Nothing is paid for, so nothing of this may be published: a preview and a release together would say more than
# the release was paid for. A release draws new noise.


@takes(plan=TablePlan, eps=list_of)
def preview(
    data: Data, plan: TablePlan, eps: Iterable[Number], *, bits: Bits | None = None
) -> tuple[Any, dict[str, object]]:
    """The true table, and one noisy table for each eps.

    >>> plan = ob.tables.plan(mesh, unit=ob.Unit.cells(), eps=1, count="people")
    >>> true, noisy = ob.tables.preview(cells, plan, eps=["0.1", 1])
    >>> true.to_pydict(), list(noisy)
    ({'row': [0, 7], 'col': [3, 4], 'people': [120, 30]}, ['0.1', '1'])
    """
    cells = plan.prepare(data)
    tables = {}
    for each in eps:
        exact = positive("eps", each)
        other = dataclasses.replace(plan, guarantee=Pure(exact), design=None, by_people=())
        tables[show(exact)] = other.publish(other.measure(cells, bits or system_bits()))
    return plan.publish(cells), tables
