"""Questions to a published table, from its file alone."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from oboro.errors import DataError
from oboro.exact import Number, positive, show
from oboro.files import reads
from oboro.kinds import list_of, path_of, takes
from oboro.noise import Bits, system_bits
from oboro.privacy import Pure
from oboro.release import plan_from
from oboro.tables.plan import TablePlan
from oboro.tables.tree.answers import Where
from oboro.tables.tree.intervals import Answer, plan_in

if TYPE_CHECKING:
    from oboro.arrays import Data


@takes(where=Mapping)
def ask(published: Any, where: Where | None = None, *, level: float = 0.95) -> Answer:
    """How many people a published table counts in a part of it, and an interval for the true number.

    `published` is a Parquet or Arrow file that oboro released by strategy tree, filtered or adaptive, or the table of
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
    table, plan = _opened(published)
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


def _opened(published: Any) -> tuple[Any, TablePlan]:
    """The table, and the plan that it carries."""
    table = _table(published)
    plan = plan_from(plan_in(table))
    if not isinstance(plan, TablePlan):
        raise DataError("only a table can be asked", given=plan.kind, needed="a table that oboro released")
    return table, plan


def _table(published: Any) -> Any:
    if hasattr(published, "schema"):
        return published
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = path_of("published", published)
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
                return pa.ipc.open_file(source).read_all()
        with pa.OSFile(str(path)) as source:  # a path, and never an address, which pyarrow would follow
            return pq.read_table(source)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{published} cannot be read",
            given=str(error).partition("\n")[0],
            needed="a Parquet or Arrow file that oboro released",
        ) from None


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
        other = dataclasses.replace(plan, guarantee=Pure(exact), design=None)
        tables[show(exact)] = other.publish(other.measure(cells, bits or system_bits()))
    return plan.publish(cells), tables
