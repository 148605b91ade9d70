"""Questions to a published table, from its file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oboro.errors import DataError
from oboro.release import plan_from
from oboro.tables.plan import TablePlan
from oboro.tables.tree import leftover
from oboro.tables.tree.asking import Where
from oboro.tables.tree.carrying import plan_in
from oboro.tables.tree.intervals import Answer


def ask(published: Any, where: Where | None = None, *, level: float = 0.95) -> Answer:
    """How many people a published table counts in a part of it, and an interval for the true number.

    `published` is a Parquet file that oboro released, or the table of it. `where` names the part: a value, a list of
    values or a pair (low, high) for any column; a column that it does not name is taken as a whole.

        ask("published.parquet", {"row": (100, 131), "col": (200, 231), "sex": "F"})
    """
    table = _table(published)
    plan = plan_from(plan_in(table))
    assert isinstance(plan, TablePlan)
    return plan.ask(table, where or {}, level)


def unallocated(published: Any) -> Any:
    """For a table by strategy filtered: blocks that hold people, and how many of them are in no published cell.

    An Arrow table: the columns of the first cell of each block, `cells` (how many it has), `held`, `unallocated`.
    """
    table = _table(published)
    plan = plan_from(plan_in(table))
    if not isinstance(plan, TablePlan) or plan.strategy != "filtered":
        raise DataError(
            "only a filtered table leaves people unallocated", needed="a table by strategy filtered"
        )
    return leftover.unallocated(table, plan.layout)


def _table(published: Any) -> Any:
    if hasattr(published, "schema"):
        return published
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(Path(published))
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{published} cannot be read",
            given=str(error).partition("\n")[0],
            needed="a Parquet file that oboro released",
        ) from None
