"""Transactions on SQLite or PostgreSQL, safe across threads, processes and forks.

SQLite       BEGIN IMMEDIATE: one writer at a time. A commit goes into the file itself, not into a log beside it, and is
             on disk before it returns (a rollback journal, synchronous = EXTRA); the file has one name (`file`).
PostgreSQL   READ COMMITTED, and writers take turns at one row that they lock first.

A process must not carry SQLite connections over a fork, not even to close them: file locks belong to the
process that opened them. So a fork waits until the transactions of this
process are done and closes idle connections first. PostgreSQL's are left alone in the child.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    text,
)
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from oboro.errors import LedgerError, OboroError, TamperError
from oboro.files import BESIDE_SQLITE, reads
from oboro.ledger.chain import Head
from oboro.ledger.file import Place, Progress, identity, in_words, moved, refuse_network

PATIENCE = 60  # seconds to wait for others

T = TypeVar("T")


class Database:
    """One ledger's database. `create` lets SQLite make the file; a `copy` is nobody else's, and may lie anywhere."""

    def __init__(self, place: Place, *, create: bool = False, copy: bool = False) -> None:
        self.place = place
        if place.path is not None:
            reads(place.path, *BESIDE_SQLITE)
        self.engine = _postgres(place) if place.path is None else _sqlite(place, create=create, copy=copy)
        self.sqlite = place.path is not None
        self.seen: Head | None = None  # the furthest that this process saw the chain
        self._shared: list[Head] | None = (
            None  # what is seen while a transaction is shared, which may yet fail
        )
        self._jobs: deque[_Job[Any]] = deque()  # of threads that wait for their turn
        self._turn = threading.RLock()  # threads of one process take turns at a SQLite file
        self._holder: int | None = (
            None  # the thread whose turn it is: it may begin another, also while a fork waits
        )
        self._foreign: type[Exception] = self.engine.dialect.loaded_dbapi.Error
        _alive.add(self)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view: nothing that others write meanwhile is seen."""
        options = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
        seen = self.seen  # by now: what others see meanwhile may not be in this view
        with self._connected(Progress(), options) as connection, connection.begin():
            self._check_file(connection.info, "")
            _refuse_older_copy(connection, seen)
            yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, when all that it wrote is recorded, durably.

        What is slow is the disk. So of threads that wait for a SQLite file the first does the work of all in one
        transaction, each part of which is recorded or not by itself. If that fails, everyone tries alone, unless it may have
        been recorded: then everyone is told so.
        """
        if not self.sqlite:
            with self.writing() as connection:
                return work(connection)
        job = _Job(work)
        self._jobs.append(job)
        try:
            with self._in_turn():
                if not job.taken:
                    self._share(job)
                if job.found is None:
                    with self.writing() as connection:
                        return work(connection)
        finally:
            with suppress(ValueError):  # who was interrupted waits no more
                self._jobs.remove(job)
        return job.found()

    def _share(self, own: _Job[Any]) -> None:
        jobs = [self._jobs.popleft() for _ in range(len(self._jobs))]
        for job in jobs:
            job.taken = True
        if jobs == [own]:
            return
        progress, self._shared = Progress(), []
        try:
            with self.writing(progress) as connection:
                found = [job.tried(connection) for job in jobs]
        except BaseException as error:
            self._shared = None
            if progress.committing:
                for job in jobs:
                    job.found = _raising(
                        error if isinstance(error, LedgerError) else _in_doubt(self.place, progress)
                    )
            if not isinstance(error, Exception):
                raise
        else:
            seen, self._shared = self._shared, None
            for head in seen:
                self.saw(head)
            for job, one in zip(jobs, found, strict=True):
                job.found = one

    @contextmanager
    def writing(self, progress: Progress | None = None) -> Iterator[Connection]:
        """A transaction that is recorded as a whole, durably, or not at all."""
        progress = progress or Progress()
        options = {"oboro_begin": "BEGIN IMMEDIATE"} if self.sqlite else {}
        seen = self.seen
        with self._connected(progress, options) as connection:
            with connection.begin():
                progress.writing = True
                self._check_file(connection.info, progress.outcome)
                self._check_journal(connection, progress)
                _refuse_older_copy(connection, seen)
                yield connection
                progress.committing = True
            self._check_file(connection.info, progress.outcome)  # a file that was taken away keeps nothing

    @contextmanager
    def raw(self) -> Iterator[sqlite3.Connection]:
        """SQLite's own connection, for what cannot be said in SQL."""
        with self._connected(Progress(), {}) as connection:
            driver = connection.connection.dbapi_connection
            assert isinstance(driver, sqlite3.Connection)
            yield driver

    def end_log(self) -> None:
        """Takes a write-ahead log, which 0.1 kept beside a SQLite ledger, into the file, and does without from then on.

        Nobody else may have the file open meanwhile. If somebody has, the next opening tries again; writers insist.
        """
        if self.sqlite:
            try:
                with self.raw() as driver:
                    if driver.execute("PRAGMA journal_mode").fetchone() == ("wal",):
                        driver.execute("PRAGMA journal_mode = DELETE")
            except LedgerError:
                self.close()  # not to be the one that others wait for

    def saw(self, head: Head) -> None:
        """Remembers how far the chain came, written or read: a ledger never goes back under a process."""
        if self._shared is not None:
            self._shared.append(head)
        elif self.seen is None or head.position > self.seen.position:
            self.seen = head

    def close(self) -> None:
        """Closes idle connections. The database can be used again afterwards."""
        with self._in_turn():
            self.engine.dispose()

    def _check_file(self, info: Mapping[str, object], outcome: str) -> None:
        """That the file which is open still stands under its name, and has no other."""
        path, shown = self.place.path, self.place.shown
        if path is not None and identity(path, shown, outcome) != info["identity"]:
            raise moved(shown, outcome)

    def _check_journal(self, connection: Connection, progress: Progress) -> None:
        if self.sqlite and one_of(connection, "PRAGMA journal_mode") != "delete":
            raise LedgerError(
                "the ledger still has the write-ahead log of oboro 0.1, which forgets by another name."
                + progress.outcome,
                given=self.place.shown,
                needed="a moment in which no other process has the ledger open",
                fix="end the processes that use oboro 0.1, and try again",
            )

    @contextmanager
    def _connected(self, progress: Progress, options: dict[str, str]) -> Iterator[Connection]:
        with (
            self._in_turn(),
            in_words(self.place, progress, self._foreign),
            self.engine.connect() as connection,
        ):
            yield connection.execution_options(**options)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        if not self.sqlite or self._holder == threading.get_ident():
            yield
            return
        with _forking:  # a fork that waits for its turn goes first, or busy threads would starve it
            turn = self._turn
        with turn:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None

    def _before_fork(self) -> None:
        if self.sqlite:
            self._turn.acquire()
            self.engine.dispose()

    def _after_fork(self, *, child: bool) -> None:
        if not self.sqlite:
            if child:
                self.engine.dispose(close=False)
        elif child:
            self._turn, self._holder = threading.RLock(), None
            self._jobs.clear()  # of threads that are not in the child
        else:
            self._turn.release()


class _Job(Generic[T]):
    """What a thread wants written, and what came of it once it is known: a function that gives it, or raises."""

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.taken = False
        self.found: Callable[[], T] | None = None

    def tried(self, connection: Connection) -> Callable[[], T]:
        """Does the work among that of others: of what is refused nothing remains."""
        connection.exec_driver_sql("SAVEPOINT one_of_many")
        try:
            result = self.work(connection)
        except OboroError as error:
            connection.exec_driver_sql("ROLLBACK TO one_of_many")
            found = _raising(error)
        else:
            found = partial(_same, result)
        connection.exec_driver_sql("RELEASE one_of_many")
        return found


def _same(result: T) -> T:
    return result


def _raising(error: Exception) -> Callable[[], Any]:
    def found() -> Any:
        raise error

    return found


def _in_doubt(place: Place, progress: Progress) -> LedgerError:
    """What others are told where whoever wrote for them was interrupted."""
    return LedgerError("the ledger cannot be used." + progress.outcome, given=place.shown)


def _sqlite(place: Place, *, create: bool, copy: bool) -> Engine:
    path, shown = place.path, place.shown
    assert path is not None
    uri = f"file://{quote(str(path))}?mode={'rwc' if create else 'rw'}"

    def connect() -> sqlite3.Connection:
        if not copy:
            refuse_network(path, shown)
        if path.exists():
            identity(path, shown)  # before SQLite looks for a journal beside a name that may be the wrong one
        # isolation_level=None: Python must not begin transactions of its own; the hook below does.
        connection = sqlite3.connect(
            uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        for pragma in ("synchronous = EXTRA", "fullfsync = ON", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=1, max_overflow=0)

    @event.listens_for(engine, "connect")
    def remember(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["identity"] = identity(path, shown)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        one_of(connection, connection.get_execution_options().get("oboro_begin", "BEGIN"))

    return engine


def _postgres(place: Place) -> Engine:
    assert place.url is not None
    try:
        engine = create_engine(
            place.url,
            isolation_level="READ COMMITTED",
            pool_pre_ping=True,
            max_overflow=20,
            pool_timeout=PATIENCE,
        )
    except ModuleNotFoundError:
        raise LedgerError(
            "a ledger on PostgreSQL needs psycopg", given=place.shown, fix="pip install 'oboro[postgres]'"
        ) from None

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        connection.autocommit = True
        # A writer whose machine vanished must not keep the lock for hours; and a server that is told to
        # answer before it has written to disk could forget a reservation.
        connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
        connection.execute(f"SET idle_in_transaction_session_timeout = '{PATIENCE}s'")
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )
        connection.autocommit = False

    return engine


def _refuse_older_copy(connection: Connection, seen: Head | None) -> None:
    """That the ledger still holds what this process has seen of it."""
    if seen is None:
        return
    found = one_of(connection, "SELECT hash FROM oboro_entries WHERE position = :at", at=seen.position)
    if found != seen.hash:
        raise TamperError(
            f"the ledger was at position {seen.position} when this process last saw it, and is not now: "
            "an older copy was put in its place",
            given="no such entry" if found is None else f"{seen.position}:{found}",
            needed=str(seen),
            fix="find the newer copy; what it had spent is spent",
        )


def first_of(connection: Connection, statement: str, **values: object) -> tuple[Any, ...] | None:
    """The first row that a statement gives. SQLite is asked directly: twenty such are part of every answer."""
    if connection.dialect.name != "sqlite":
        found = connection.execute(text(statement), values)
        first = found.first() if found.returns_rows else None
        return None if first is None else tuple(first)
    driver: Any = connection.connection.driver_connection
    row: tuple[Any, ...] | None = driver.execute(statement, values).fetchone()
    return row


def one_of(connection: Connection, statement: str, **values: object) -> Any:
    """The first value that a statement gives."""
    row = first_of(connection, statement, **values)
    return None if row is None else row[0]


def serialise(connection: Connection) -> None:
    """Takes the one lock of the ledger until the transaction ends. On SQLite BEGIN IMMEDIATE has done so."""
    if connection.dialect.name == "postgresql":
        one_of(connection, "SELECT 1 FROM oboro_ledger WHERE one = 1 FOR UPDATE")


_alive: weakref.WeakSet[Database] = weakref.WeakSet()
_forking = threading.Lock()
_waiting: list[Database] = []


def _before_fork() -> None:
    _forking.acquire()
    _waiting.extend(_alive)
    for database in _waiting:
        database._before_fork()


def _after_fork_in_parent() -> None:
    for database in _waiting:
        database._after_fork(child=False)
    _waiting.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    _forking = threading.Lock()
    for database in _waiting:
        database._after_fork(child=True)
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )


# The tables, the same for SQLite and PostgreSQL.
#
# `name` and `reservation` repeat what stands in the body, so that they can be looked up and be unique.
# `verify` checks that they agree.

# 1  oboro 0.1
# 2  a SQLite ledger commits into its file, and its first page says how long it is; the chain says which schema it is
VERSION = 2

metadata = MetaData()
_Position = BigInteger().with_variant(Integer, "sqlite")

# One row. It says what the file is, and on PostgreSQL it is the lock that writers take turns with.
about = Table(
    "oboro_ledger",
    metadata,
    Column("one", Integer, CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    Column("schema", Integer, nullable=False),
    Column("id", Text, nullable=False),
)

entries = Table(
    "oboro_entries",
    metadata,
    Column("position", _Position, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Column("signature", Text, nullable=False),
    Column("name", Text, unique=True),
    Column("reservation", _Position, ForeignKey("oboro_entries.position"), unique=True),
)

# What was released, in pieces, under the position of its reservation.
parts = Table(
    "oboro_parts",
    metadata,
    Column(
        "reservation", _Position, ForeignKey("oboro_entries.position"), primary_key=True, autoincrement=False
    ),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

_REFUSAL = "a ledger is append-only"


def _run(target: Table | MetaData, when: str, dialect: str, statement: str) -> None:
    event.listen(target, when, DDL(statement).execute_if(dialect=dialect))  # type: ignore[no-untyped-call]


def _trigger(table: Table, action: str) -> str:
    return (
        f"CREATE TRIGGER {table.name}_no_{action.lower()} BEFORE {action} ON {table.name} "
        f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
    )


# Against mistakes, not against an attacker: whoever can write to the file can also drop a trigger.
for _table in (about, entries, parts):
    for _action in ("UPDATE", "DELETE"):
        _run(_table, "after_create", "sqlite", _trigger(_table, _action))
    _run(
        _table,
        "after_create",
        "postgresql",
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {_table.name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION oboro_append_only()",
    )
_run(
    metadata,
    "before_create",
    "postgresql",
    "CREATE OR REPLACE FUNCTION oboro_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$",
)


def state(connection: Connection, version: int) -> None:
    """Changes the one thing that ever changes: which schema the ledger is of."""
    sqlite = connection.dialect.name == "sqlite"
    before = (
        f"DROP TRIGGER {about.name}_no_update"
        if sqlite
        else f"ALTER TABLE {about.name} DISABLE TRIGGER append_only"
    )
    after = _trigger(about, "UPDATE") if sqlite else f"ALTER TABLE {about.name} ENABLE TRIGGER append_only"
    connection.exec_driver_sql(before)
    connection.execute(about.update().values(schema=version))
    connection.exec_driver_sql(after)
