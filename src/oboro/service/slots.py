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

import sqlalchemy as sa

from oboro.service import database as schema
from oboro.service.database import Database
from oboro.service.questions import Shape


@dataclass(frozen=True, slots=True)
class Slot:
    """Milliseconds."""

    work: int
    slot: int


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
    free = {row.number: row.free for row in connection.execute(_LANES)}
    lane = min(range(lanes), key=lambda number: free.get(number, 0))
    start: int = max(now, free.get(lane, 0))
    taken = {"lane": lane, "until": start + slot.work}
    if lane in free:
        connection.execute(_TAKE, taken)
    else:
        connection.execute(schema.lanes.insert().values(number=lane, free=start + slot.work))
    return start + slot.slot


_LANES = sa.select(schema.lanes).with_for_update().order_by(schema.lanes.c.number)
_TAKE = (
    schema.lanes.update()
    .where(schema.lanes.c.number == sa.bindparam("lane"))
    .values(free=sa.bindparam("until"))
)


def first_from(due: int, slot: int, ready: int) -> int:
    """The first of the times due, due + slot, due + 2 slot, ... that is not before `ready`."""
    return due if ready <= due else due + -(-(ready - due) // slot) * slot


def enters_from(due: int, slot: int, ready: int) -> int:
    """When an answer that is ready is entered in the ledger: a quarter of a slot before it leaves, never as soon as it is ready."""
    return first_from(due - slot // 4, slot, ready)


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
