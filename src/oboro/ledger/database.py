"""Transactions on SQLite or PostgreSQL, safe across threads, processes and forks.

SQLite       BEGIN IMMEDIATE: one writer at a time. A commit goes into the file itself, not into a log beside it, and is
             on disk before it returns (a rollback journal, synchronous = EXTRA); the file has one name (`file`).
PostgreSQL   READ COMMITTED, and writers take turns at one row that they lock first.

The last entry is not read again where nobody else has written (`Connection.tip`): SQLite counts the commits of other connections
(PRAGMA data_version, read inside the transaction). If that number is the one at which this connection read the last entry, whole,
or wrote it itself, then whatever it would read now comes from the pages that it keeps for the same reason, and by the same count:
to read again tells nothing new. A file that was replaced, by whatever means, is told by its number (`file.stands`), one that was written
over by the count in its first page. What is known goes with a transaction that fails, with the connection, and with a fork.

A process must not carry SQLite connections over a fork, not even to close them: file locks belong to the
process that opened them. So a fork waits until the transactions of this
process are done and closes idle connections first. PostgreSQL's are left alone in the child.

SQLite is asked directly: SQLAlchemy, which keeps connections to a server, is loaded for servers alone.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

from oboro.errors import LedgerError, OboroError, TamperError
from oboro.files import BESIDE_SQLITE, reads
from oboro.ledger.chain import Entry, Head
from oboro.ledger.file import (
    Identity,
    Place,
    Progress,
    identity,
    in_words,
    moved,
    refuse_network,
    stands,
    worded,
)

if TYPE_CHECKING:
    import sqlalchemy

PATIENCE = 60  # seconds to wait for others

T = TypeVar("T")
Row = tuple[Any, ...]


class Connection:
    """An open transaction. Statements are the same on both databases, with :names where values stand."""

    def __init__(
        self,
        sqlite: sqlite3.Connection | None,
        server: sqlalchemy.Connection | None,
        tip: Entry | None = None,
        schema: Any = None,
    ) -> None:
        self.sqlite, self._server = sqlite, server
        self._open: list[sqlite3.Cursor] = []
        self.tip = tip  # the last entry, where it is known without a look
        self.schema = schema  # what the ledger says of itself, where it is known without a look

    def end(self) -> None:
        """Lets go of rows that nobody has read to their end: SQLite would keep its lock for them."""
        for cursor in self._open:
            cursor.close()

    def rows(self, statement: str, *, few: int = 500, **values: object) -> Iterator[Row]:
        """The rows that a statement gives, so many at a time."""
        if self.sqlite is not None:
            self._open.append(cursor := self.sqlite.execute(statement, values))
            return cursor
        from sqlalchemy import text

        assert self._server is not None
        found = self._server.execute(text(statement), values, execution_options={"yield_per": few})
        return (tuple(row) for row in found)

    def all(self, statement: str, **values: object) -> list[Row]:
        """All rows that a statement gives, at once: for statements that give few."""
        driver = self.sqlite if self.sqlite is not None else self
        found: list[Row] = driver.execute(statement, values).fetchall()
        return found

    def first(self, statement: str, **values: object) -> Row | None:
        """The first row that a statement gives."""
        driver = self.sqlite if self.sqlite is not None else self
        row: Row | None = driver.execute(statement, values).fetchone()
        return row

    def one(self, statement: str, **values: object) -> Any:
        """The first value that a statement gives."""
        row = self.first(statement, **values)
        return None if row is None else row[0]

    def run(self, statement: str, **values: object) -> None:
        """Does what a statement says."""
        driver = self.sqlite if self.sqlite is not None else self
        driver.execute(statement, values)

    def serialise(self) -> None:
        """Takes the one lock of the ledger until the transaction ends. On SQLite BEGIN IMMEDIATE has done so."""
        if self.sqlite is None:
            self.schema = self.one("SELECT schema FROM oboro_ledger WHERE one = 1 FOR UPDATE")

    def execute(self, statement: str, values: dict[str, object]) -> Any:
        """Asks the server, through its driver itself: SQLAlchemy would take longer over a statement than the server does."""
        assert self._server is not None
        driver: Any = self._server.connection.driver_connection
        try:
            return driver.execute(_for_driver(statement), values) if values else driver.execute(statement)
        except Exception as error:
            if driver.closed:
                self._server.invalidate(error)  # nobody else is handed what is gone
            raise


@cache
def _for_driver(statement: str) -> str:
    """The statement as psycopg takes it, with %(name)s where :name stands."""
    return re.sub(r"(?<![:\w]):([a-z]\w*)", r"%(\1)s", statement.replace("%", "%%"))


class Database:
    """One ledger's database. `create` lets SQLite make the file; a `copy` is nobody else's, and may lie anywhere."""

    def __init__(self, place: Place, *, create: bool = False, copy: bool = False) -> None:
        self.place = place
        self.sqlite = place.path is not None
        if place.path is not None:
            reads(place.path, *BESIDE_SQLITE)
        self._file = None if place.path is None else _File(place, create=create, copy=copy)
        self._engine = None if place.url is None else _engine(place)
        self._foreign = (sqlite3.Error,) if self._engine is None else _server_errors(self._engine)
        self.seen: Head | None = None  # the furthest that this process saw the chain
        self._shared: list[Head] | None = (
            None  # what is seen while a transaction is shared, which may yet fail
        )
        self._jobs: deque[_Job[Any]] = deque()  # of threads that wait to be written down
        self._leader: _Job[Any] | None = None  # whose thread writes for all that wait, or is about to
        self._guard = threading.Lock()  # of these two
        self._turn = threading.RLock()  # threads of one process take turns at a SQLite file
        self._holder: int | None = (
            None  # the thread whose turn it is: it may begin another, also while a fork waits
        )
        self._tip: tuple[sqlite3.Connection, object, Entry, Any] | None = None  # with the schema
        _alive.add(self)

    def reading(self) -> AbstractContextManager[Connection]:
        """A consistent view: nothing that others write meanwhile is seen."""
        if self._engine is None:
            return self._on_file(Progress(), write=False)
        return self._on_server(self._engine, Progress(), write=False)

    def write(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, when all that it wrote is recorded, durably.

        What is slow is the disk. So of threads that wait for a SQLite file one, the leader, does the work of all in one
        transaction, each part of which is recorded or not by itself. The others sleep until theirs is done, or until they lead.
        If that fails, everyone tries alone, unless it may have been recorded: then everyone is told so.
        """
        if not self.sqlite:
            with self.writing() as connection:
                return work(connection)
        job = _Job(work)
        try:
            with self._guard:
                self._jobs.append(job)
                if self._leader is None:
                    self._leader = job
                else:
                    job.awake = threading.Event()
            if job.awake is not None:
                job.awake.wait()
            if not job.taken:  # nobody has written it down: this thread leads
                with self._in_turn():
                    self._share(job)
                    if job.found is None:
                        with self.writing() as connection:
                            return work(connection)
        finally:
            try:
                self._hand_over(job)
            except BaseException:  # interrupted: without a leader all others would wait without end
                self._hand_over(job)
                raise
        if job.found is None:
            with self.writing() as connection:
                return work(connection)
        return job.found()

    def _hand_over(self, job: _Job[Any]) -> None:
        """Who leads is followed by the first that waits; who was interrupted waits no more."""
        with self._guard:
            with suppress(ValueError):
                self._jobs.remove(job)
            if self._leader is job:
                self._leader = self._jobs[0] if self._jobs else None
                if self._leader is not None and self._leader.awake is not None:
                    self._leader.awake.set()

    def _share(self, own: _Job[Any]) -> None:
        with self._guard:
            jobs = list(self._jobs)
            self._jobs.clear()
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
        finally:
            for job in jobs:
                if job.awake is not None:
                    job.awake.set()

    def writing(self, progress: Progress | None = None) -> AbstractContextManager[Connection]:
        """A transaction that is recorded as a whole, durably, or not at all."""
        if self._engine is None:
            return self._on_file(progress or Progress(), write=True)
        return self._on_server(self._engine, progress or Progress(), write=True)

    @contextmanager
    def raw(self) -> Iterator[sqlite3.Connection]:
        """SQLite's own connection, for what cannot be said in a transaction."""
        assert self._file is not None
        with self._in_turn(), in_words(self.place, Progress(), self._foreign):
            yield self._file.opened()

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
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._engine is not None:
            self._engine.dispose()

    def _check_file(self, progress: Progress) -> None:
        """That the file which is open still stands under its name, and has no other."""
        path, file = self.place.path, self._file
        assert file is not None
        assert path is not None
        if file.identity is None or not stands(path, file.identity):
            shown = self.place.shown
            identity(path, shown, progress.outcome)  # says what is wrong, where that can be said
            raise moved(shown, progress.outcome)

    def _check_journal(self, connection: Connection, progress: Progress) -> None:
        if connection.one("PRAGMA journal_mode") != "delete":
            raise LedgerError(
                "the ledger still has the write-ahead log of oboro 0.1, which forgets by another name."
                + progress.outcome,
                given=self.place.shown,
                needed="a moment in which no other process has the ledger open",
                fix="end the processes that use oboro 0.1, and try again",
            )

    @contextmanager
    def _on_file(self, progress: Progress, *, write: bool) -> Iterator[Connection]:
        """All or nothing of what is done within. An interrupt can come between any two lines, also after the last one within:
        a generator that nobody goes on with is ended by Python, and so undoes it all and lets the next one have its turn."""
        seen, file = self.seen, self._file  # by now: what others see meanwhile may not be in this view
        assert file is not None
        with self._in_turn():
            connection: Connection | None = None
            began = False
            try:
                driver = file.opened()
                began = not driver.in_transaction  # what somebody else began is not ours to undo
                driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                version = driver.execute("PRAGMA data_version").fetchone()
                tip, self._tip = self._tip, None
                known = tip[2:] if tip is not None and tip[0] is driver and tip[1] == version else ()
                connection = Connection(driver, None, *known)
                progress.writing = write
                self._check_file(progress)
                if connection.tip is None:
                    if write:
                        self._check_journal(connection, progress)
                    _refuse_older_copy(connection, seen)
                yield connection
                progress.committing = write
                connection.end()
                driver.execute("COMMIT")
            except BaseException as error:
                try:
                    if connection is not None:
                        connection.end()
                finally:
                    if began:
                        file.undo()
                if isinstance(error, UnicodeDecodeError | sqlite3.Error):
                    raise worded(self.place, progress, error) from None
                raise
            if write:
                self._check_file(progress)  # a file that was taken away keeps nothing
            if connection.tip is not None:
                self._tip = driver, version, connection.tip, connection.schema

    @contextmanager
    def _on_server(
        self, engine: sqlalchemy.Engine, progress: Progress, *, write: bool
    ) -> Iterator[Connection]:
        """All or nothing of what is done within."""
        seen = self.seen  # by now: what others see meanwhile may not be in this view
        with in_words(self.place, progress, self._foreign), engine.connect() as server:
            if not write:
                server.execution_options(isolation_level="REPEATABLE READ")
            with server.begin():
                progress.writing = write
                connection = Connection(None, server)
                _refuse_older_copy(connection, seen)
                yield connection
                progress.committing = write

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
            self._close()

    def _after_fork(self, *, child: bool) -> None:
        if not self.sqlite:
            if child and self._engine is not None:
                self._engine.dispose(close=False)
        elif child:
            self._turn, self._holder = threading.RLock(), None
            self._guard, self._leader = threading.Lock(), None
            self._jobs.clear()  # of threads that are not in the child
        else:
            self._turn.release()


class _Job(Generic[T]):
    """What a thread wants written, and what came of it once it is known: a function that gives it, or raises."""

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.work = work
        self.taken = False  # by a leader
        self.awake: threading.Event | None = None  # of one that waits: it is done, or its thread leads
        self.found: Callable[[], T] | None = None

    def tried(self, connection: Connection) -> Callable[[], T]:
        """Does the work among that of others: of what is refused nothing remains."""
        connection.run("SAVEPOINT one_of_many")
        tip = connection.tip
        try:
            result = self.work(connection)
        except OboroError as error:
            connection.run("ROLLBACK TO one_of_many")
            connection.tip = tip
            found = _raising(error)
        else:
            found = partial(_same, result)
        connection.run("RELEASE one_of_many")
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


class _File:
    """The one connection of a process to a SQLite file, opened when it is needed."""

    def __init__(self, place: Place, *, create: bool, copy: bool) -> None:
        assert place.path is not None
        self._path, self._shown, self._copy = place.path, place.shown, copy
        self._uri = f"file://{quote(str(place.path))}?mode={'rwc' if create else 'rw'}"
        self._driver: sqlite3.Connection | None = None
        self.identity: Identity | None = None  # of the file that is open

    def opened(self) -> sqlite3.Connection:
        if self._driver is None:
            if not self._copy:
                refuse_network(self._path, self._shown)
            if self._path.exists():
                # before SQLite looks for a journal beside a name that may be the wrong one
                identity(self._path, self._shown)
            # isolation_level=None: Python must not begin transactions of its own
            driver = sqlite3.connect(
                self._uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                for pragma in (
                    "synchronous = EXTRA",
                    "fullfsync = ON",
                    "foreign_keys = ON",
                    "trusted_schema = OFF",
                ):
                    driver.execute(f"PRAGMA {pragma}")
                self.identity = identity(self._path, self._shown)
            except BaseException:
                driver.close()
                raise
            self._driver = driver
        return self._driver

    def undo(self) -> None:
        """Ends a transaction of which nothing remains. A connection that cannot do so goes."""
        try:
            if self._driver is not None and self._driver.in_transaction:
                self._driver.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()


def _engine(place: Place) -> sqlalchemy.Engine:
    from sqlalchemy import create_engine, event

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
        if place.schema is not None:
            connection.execute(f'SET search_path TO "{place.schema}"')
        connection.autocommit = False

    return engine


def _server_errors(engine: sqlalchemy.Engine) -> tuple[type[Exception], ...]:
    from sqlalchemy.exc import SQLAlchemyError

    return SQLAlchemyError, engine.dialect.loaded_dbapi.Error


def _refuse_older_copy(connection: Connection, seen: Head | None) -> None:
    """That the ledger still holds what this process has seen of it."""
    if seen is None:
        return
    hash_there = "SELECT hash FROM oboro_entries WHERE position = :at"
    if (
        connection.sqlite is None
    ):  # what is needed next comes along: every question to a server is a way there and back
        both = f"SELECT ({hash_there}), (SELECT schema FROM oboro_ledger)"
        found, connection.schema = connection.first(both, at=seen.position) or (None, None)
    else:
        found = connection.one(hash_there, at=seen.position)
    if found != seen.hash:
        raise TamperError(
            f"the ledger was at position {seen.position} when this process last saw it, and is not now: "
            "an older copy was put in its place",
            given="no such entry" if found is None else f"{seen.position}:{found}",
            needed=str(seen),
            fix="find the newer copy; what it had spent is spent",
        )


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
