"""When answers leave. A slot is public: it follows from the kind and the declared size of a question, and from what was asked before it.

    due     when the answer leaves, said when the question is admitted
    slot    how long after its turn: longer than the work takes on made-up data of the declared size
    work    how long the turn of a question lasts in the queue

Turns follow from the clock and from what was admitted, never from how long anything took. An answer that is not ready when it is due
leaves one slot later, or two: that is the residue, and the steward is alerted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from oboro.service import database as schema
from oboro.service.database import Database
from oboro.service.questions import Shape


@dataclass(frozen=True, slots=True)
class Slot:
    """Milliseconds."""

    work: int
    slot: int


APART = 60_000  # milliseconds by which the clocks of several machines may differ
UNCALIBRATED = Slot(work=250, slot=2_000)


def all_of(connection: sa.Connection, dataset: str) -> dict[Shape, Slot]:
    """The slots that were calibrated for a dataset."""
    table = schema.slots
    rows = connection.execute(sa.select(table).where(table.c.dataset == dataset))
    return {Shape(row.kind, row.size): Slot(row.work, row.slot) for row in rows}


def slot_of(connection: sa.Connection, dataset: str, shape: Shape) -> Slot:
    """The slot of a question."""
    return fitting(all_of(connection, dataset), shape)


def fitting(found: Mapping[Shape, Slot], shape: Shape) -> Slot:
    """The slot of a question among those that were calibrated: of its kind and size, or the next larger one that was calibrated. Above all of
    them it is the largest, so many times as the question is larger."""
    same = sorted((one for one in found if one.kind == shape.kind), key=lambda one: one.size)
    if not same:
        return UNCALIBRATED
    nearest = next((one for one in same if one.size >= shape.size), same[-1])
    slot, times = found[nearest], -(-shape.size // nearest.size)
    return Slot(slot.work * max(1, times), slot.slot * max(1, times))


def take_turn(connection: sa.Connection, lanes: int, slot: Slot, now: int) -> int:
    """When an answer is due whose question is admitted now. Its turn is in the lane that is free first."""
    rows = list(connection.execute(_LANES))
    if _is_ahead(rows, now):
        turn_back(connection, rows, now)
        rows = list(connection.execute(_LANES))
    free = {row.number: row.free for row in rows}
    lane = min(range(lanes), key=lambda number: free.get(number, 0))
    start: int = max(now, free.get(lane, 0))
    taken = {"lane": lane, "until": start + slot.work, "now": now}
    if lane in free:
        connection.execute(_TAKE, taken)
    else:
        connection.execute(schema.lanes.insert().values(number=lane, free=start + slot.work, taken=now))
    return start + slot.slot


def settle(database: Database, now: int) -> bool:
    """Puts right what a clock said that was far ahead. Whether it was."""
    with database.reading() as connection:
        if not _is_ahead(list(connection.execute(sa.select(schema.lanes))), now):
            return False
    with database.writing() as connection:
        rows = list(connection.execute(_LANES))
        if _is_ahead(rows, now):
            turn_back(connection, rows, now)
    return True


def _is_ahead(rows: list[sa.Row[Any]], now: int) -> bool:
    return any(row.taken > now + APART for row in rows)


def turn_back(connection: sa.Connection, rows: list[sa.Row[Any]], now: int) -> None:
    """The clock was ahead when lanes were taken, and is not any more: all that was to come comes as much later as it was to.

    By the clock and by what was admitted alone: t becomes max(now, t - by), for every time that is still to come.
    """
    by = max(row.taken for row in rows) - now
    lanes, jobs = schema.lanes, schema.jobs
    connection.execute(
        lanes.update()
        .where(lanes.c.taken > now)
        .values(free=_later(lanes.c.free, now, by), taken=_later(lanes.c.taken, now, by))
    )
    for column in (jobs.c.due, jobs.c.leaves):
        moved = {column.name: _later(column, now, by)}
        connection.execute(jobs.update().where(column > now).values(moved))


def _later(column: Any, now: int, by: int) -> Any:
    return sa.case((column > now + by, column - by), else_=now)


_LANES = sa.select(schema.lanes).with_for_update().order_by(schema.lanes.c.number)
_TAKE = (
    schema.lanes.update()
    .where(schema.lanes.c.number == sa.bindparam("lane"))
    .values(free=sa.bindparam("until"), taken=sa.bindparam("now"))
)


def first_from(due: int, slot: int, ready: int) -> int:
    """The first of the times due, due + slot, due + 2 slot, ... that is not before `ready`."""
    return due if ready <= due else due + -(-(ready - due) // slot) * slot


def enters_from(due: int, slot: int, ready: int) -> int:
    """When an answer that is ready is entered in the ledger: half a slot before it leaves, never as soon as it is ready."""
    return first_from(due - slot // 2, slot, ready)


def keep(database: Database, dataset: str, found: dict[Shape, Slot]) -> None:
    """Writes down what a calibration found, in place of what was there."""
    with database.writing() as connection:
        connection.execute(schema.slots.delete().where(schema.slots.c.dataset == dataset))
        for shape, slot in found.items():
            connection.execute(
                schema.slots.insert().values(
                    dataset=dataset, kind=shape.kind, size=shape.size, work=slot.work, slot=slot.slot
                )
            )
