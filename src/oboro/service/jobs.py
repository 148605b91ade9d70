"""Jobs: questions on their way. One table, on SQLite or PostgreSQL; many processes take from it, and none takes what another has.

    asked      written down, not paid for
    waiting    for the approval of a steward
    admitted   paid for; nothing was drawn yet
    running    a worker has it
    done       the answer is in the ledger
    lost       paid for, and gone: for whatever reason, never refunded, never explained to the analyst
    declined   by a steward; nothing was spent
    follows    another analyst's answer is this one's too

What an analyst sees before an answer leaves is a clock. From `running` there is no way back: a worker that dies has lost its job.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from oboro.service import database as schema
from oboro.service.database import Database, now
from oboro.service.slots import APART, first_from

Row = sa.Row[Any]
State = Literal["waiting", "pending", "done", "lost", "declined"]  # what an analyst sees
ACTIVE = ("asked", "waiting", "admitted", "running", "done", "follows")
SHARED = (
    "admitted",
    "running",
    "done",
    "lost",
)  # what others follow; of what is lost only what has not left: nobody knows yet
OPEN = ("asked", "waiting", "admitted", "running")
SILENT = (
    APART + 60_000
)  # after so many milliseconds without a sign a worker or a front on another machine is taken for dead


_ID = re.compile(r"q-[0-9a-f]{32}")


def new_id() -> str:
    return f"q-{secrets.token_hex(16)}"


def front_of(file: Path) -> str:
    """A front among those that share a database: by its machine and its file. The names of its workers begin with it."""
    return f"{socket.gethostname()}:{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}:"


def find(connection: sa.Connection, number: str) -> Row | None:
    if not _ID.fullmatch(number):  # not everything that an address can hold is a text to every database
        return None
    return connection.execute(_FIND, {"number": number}).first()


_FIND = sa.select(schema.jobs).where(schema.jobs.c.id == sa.bindparam("number"))
_NEXT = (
    sa.select(schema.jobs.c.id)
    .where(
        schema.jobs.c.state == "admitted",
        sa.or_(
            sa.bindparam("turn", type_=sa.BigInteger).is_(None),
            schema.jobs.c.due - schema.jobs.c.slot <= sa.bindparam("turn"),
        ),
    )
    .order_by(schema.jobs.c.due)
    .limit(1)
)
_NEXT_HERE = _NEXT.where(
    sa.or_(
        schema.jobs.c.dataset.in_(sa.bindparam("datasets", expanding=True)),
        sa.func.coalesce(schema.jobs.c.worker, sa.bindparam("front")) == sa.bindparam("front"),
    )
)
_TAKE, _TAKE_FREE, _TAKE_HERE, _TAKE_FREE_HERE = (
    schema.jobs.update()
    .where(schema.jobs.c.id == number.scalar_subquery())
    .values(state="running", worker=sa.bindparam("who"), beat=sa.bindparam("time"))
    .returning(*schema.jobs.c)
    for number in (
        _NEXT,
        _NEXT.with_for_update(skip_locked=True),
        _NEXT_HERE,
        _NEXT_HERE.with_for_update(skip_locked=True),
    )
)


_END = (
    schema.jobs.update()
    .where(
        schema.jobs.c.id == sa.bindparam("number"),
        schema.jobs.c.state == "running",
        schema.jobs.c.worker == sa.bindparam("who"),
    )
    .values(
        state=sa.bindparam("its_state"),
        answer=sa.bindparam("its_answer"),
        why=sa.bindparam("its_why"),
        # as `first_from` has it: whole numbers are divided
        leaves=sa.text(
            "CASE WHEN due >= :ended THEN due ELSE due + ((:ended - due + slot - 1) / slot) * slot END"
        ).bindparams(sa.bindparam("ended", type_=sa.BigInteger)),
    )
    .returning(schema.jobs.c.due, schema.jobs.c.slot, schema.jobs.c.leaves)
)


def resolved(connection: sa.Connection, row: Row) -> Row:
    """The job whose answer this one's is."""
    led = None if row.leader is None else find(connection, row.leader)
    return row if led is None else led


def claim(
    database: Database, worker: str, turn: int | None = None, datasets: Collection[str] | None = None
) -> Row | None:
    """The next job, for this worker alone; None if there is none. With a time, only one whose turn has come.

    `datasets`: what the worker has open. What other fronts admitted about other datasets is left to their own workers.
    """
    asked: dict[str, object] = {"turn": turn, "who": worker, "time": now()}
    following, take, take_free = _NEXT, _TAKE, _TAKE_FREE
    if datasets is not None:
        asked |= {"datasets": list(datasets), "front": worker.rpartition(":")[0] + ":"}
        following, take, take_free = _NEXT_HERE, _TAKE_HERE, _TAKE_FREE_HERE
    if database.sqlite:
        with database.reading() as connection:  # mostly there is none: no lock is taken for that
            if connection.execute(following, asked).first() is None:
                return None
    with database.single() as connection:
        return connection.execute(take if database.sqlite else take_free, asked).first()


def finish(
    database: Database, number: str, worker: str, *, answer: bytes | None = None, why: str | None = None
) -> bool:
    """Ends a job that this worker has: done, or lost if there is a reason. False if it was taken for dead meanwhile."""
    ended = {"number": number, "who": worker, "ended": now(), "its_answer": answer, "its_why": why}
    with database.writing() as connection:
        row = connection.execute(_END, {**ended, "its_state": "done" if why is None else "lost"}).first()
        if row is None:
            return False
        if row.leaves > row.due:
            late = f"not ready when it was due: it leaves {(row.leaves - row.due) // row.slot} slots later"
            alert(connection, number, late)
        if why is not None:
            alert(connection, number, f"lost: {why}")
    return True


def bury(database: Database, dead: str | None = None, *, own: str | None = None) -> list[Row]:
    """Jobs of a worker that died, or of those that have been silent for long: lost. What was admitted waits for another worker.

    `own`: how the names of workers begin whose deaths are seen: whatever the clock says, they are not taken for dead.
    """
    table = schema.jobs
    gone = table.c.worker == dead if dead is not None else table.c.beat < now() - SILENT
    if own is not None:
        gone = sa.and_(gone, ~table.c.worker.startswith(own, autoescape=True))
    with database.writing() as connection:
        rows = list(connection.execute(sa.select(table).where(table.c.state == "running", gone)))
        for row in rows:
            leaves = first_from(row.due, row.slot, now())
            connection.execute(
                table.update()
                .where(table.c.id == row.id)
                .values(state="lost", leaves=leaves, why="its worker died")
            )
            alert(connection, row.id, "lost: its worker died")
    return rows


def beat(database: Database, worker: str) -> None:
    """A sign of life."""
    table = schema.jobs
    with database.writing() as connection:
        connection.execute(
            table.update().where(table.c.worker == worker, table.c.state == "running").values(beat=now())
        )


def alert(connection: sa.Connection, number: str | None, words: str) -> None:
    """Something that the steward should see."""
    connection.execute(schema.alerts.insert().values(time=now(), job=number, words=words))


def state_at(row: Row, time: int) -> tuple[State, int | None]:
    """What an analyst sees of a job at a time, and when to look again: by the clock alone until its answer leaves."""
    if row.state in ("waiting", "declined"):
        return row.state, None
    if row.due is None:
        return "pending", None
    if row.state in ("done", "lost") and row.leaves is not None and row.leaves <= time:
        return row.state, row.leaves
    return "pending", first_from(row.due, row.slot, time + 1)
