"""When answers leave. A slot is public: it follows from the kind and the declared size of a question, and from what was asked before it.

    due     when the answer leaves, said when the question is admitted
    slot    how long after its turn: longer than the work takes on made-up data of the declared size
    work    how long the turn of a question lasts in the queue

Turns follow from the clock and from what was admitted, never from how long anything took. An answer that is not ready when it is due
leaves one slot later, or two: that is the residue, and the steward is alerted.
"""

from __future__ import annotations

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


def slot_of(connection: sa.Connection, dataset: str, shape: Shape) -> Slot:
    """The slot of a question: of its kind and size, or the next larger one that was calibrated."""
    table = schema.slots
    found = connection.execute(
        sa.select(table.c.work, table.c.slot)
        .where(table.c.dataset == dataset, table.c.kind == shape.kind, table.c.size >= shape.size)
        .order_by(table.c.size)
        .limit(1)
    ).first()
    return UNCALIBRATED if found is None else Slot(found.work, found.slot)


def take_turn(connection: sa.Connection, lanes: int, slot: Slot, now: int) -> int:
    """When an answer is due whose question is admitted now. Its turn is in the lane that is free first."""
    table = schema.lanes
    free = {
        row.number: row.free
        for row in connection.execute(sa.select(table).with_for_update().order_by(table.c.number))
    }
    lane = min(range(lanes), key=lambda number: free.get(number, 0))
    start: int = max(now, free.get(lane, 0))
    if lane in free:
        connection.execute(table.update().where(table.c.number == lane).values(free=start + slot.work))
    else:
        connection.execute(table.insert().values(number=lane, free=start + slot.work))
    return start + slot.slot


def first_from(due: int, slot: int, ready: int) -> int:
    """The first of the times due, due + slot, due + 2 slot, ... that is not before `ready`."""
    return due if ready <= due else due + -(-(ready - due) // slot) * slot


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
