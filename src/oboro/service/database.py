"""The service's own tables: who may ask, what was asked, when answers leave. On SQLite for one machine, on PostgreSQL for several.

What was spent stands in the ledgers and nowhere else. If these tables were lost, no budget would be: what had been admitted would be
spent and gone.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import sqlite

from oboro.errors import LedgerError
from oboro.ledger.file import Place, is_address

SCHEMA = "oboro_service"  # on PostgreSQL: beside the ledgers, each of which has a schema of its own
THREADS = 16  # that answer requests at once, each with a connection that stays open
metadata = sa.MetaData()
BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")

people = sa.Table(
    "people",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("password", sa.Text),
    sa.Column("password_by", sa.Text),  # who else knows it, having set it
    sa.Column("since", BIG, nullable=False),
)
tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("person", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("since", BIG, nullable=False),
    sa.Column("until", BIG),
    sa.Column("revoked", BIG),
    sa.Column("maker", sa.Text),  # the token that made it, which takes it along when it is revoked
    sa.Column("by", sa.Text),  # who else could have it: whoever made it, or set the password that gave it
)
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("question", sa.Text, nullable=False),  # as it was asked, in canonical JSON
    sa.Column("plan", sa.Text, nullable=False),  # the record that the server made of it
    sa.Column("digest", sa.Text, nullable=False),  # of the plan and the edition: the same question
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("cost", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("size", BIG, nullable=False),
    sa.Column("asked", BIG, nullable=False),  # milliseconds
    sa.Column("due", BIG),
    sa.Column("slot", BIG),
    sa.Column("leaves", BIG),
    sa.Column("reservation", sa.Text),
    sa.Column("entry", BIG),
    sa.Column("worker", sa.Text),
    sa.Column("beat", BIG),
    sa.Column("answer", sa.LargeBinary),
    sa.Column("leader", sa.Text),  # the job whose answer is this one's too
    sa.Column("by", sa.Text),  # who approved or declined it
    sa.Column("through", sa.Text),  # who else could have asked it: it was asked with a token of their making
    sa.Column("why", sa.Text),  # for the steward's eyes
    sa.Index("jobs_state", "state", "due"),
)
# one question is on its way, or answered, once for each account
_ONCE = sa.text("state IN ('asked', 'waiting', 'admitted', 'running', 'done', 'follows')")
sa.Index(
    "jobs_once",
    jobs.c.dataset,
    jobs.c.digest,
    jobs.c.account,
    unique=True,
    sqlite_where=_ONCE,
    postgresql_where=_ONCE,
)
keys = sa.Table(
    "keys",
    metadata,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("job", sa.Text, nullable=False),
    sa.Column("since", BIG, nullable=False),
)
lanes = sa.Table(
    "lanes",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("free", BIG, nullable=False),
    sa.Column("taken", BIG, nullable=False),  # when it was taken last, by the clock
)
slots = sa.Table(
    "slots",
    metadata,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("size", BIG, primary_key=True),
    sa.Column("work", BIG, nullable=False),
    sa.Column("slot", BIG, nullable=False),
)
alerts = sa.Table(
    "alerts",
    metadata,
    sa.Column("number", BIG, primary_key=True, autoincrement=True),
    sa.Column("time", BIG, nullable=False),
    sa.Column("job", sa.Text),
    sa.Column("words", sa.Text, nullable=False),
)

version = sa.Table(
    "version", metadata, sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)
)
VERSION = 3
# what makes a database of the version before one of this version; a new column of a table that exists goes here too
STEPS: dict[int, tuple[str, ...]] = {
    2: (
        "ALTER TABLE tokens ADD COLUMN maker TEXT",
        "ALTER TABLE lanes ADD COLUMN taken BIGINT DEFAULT 0 NOT NULL",
    ),
    3: (
        "ALTER TABLE people ADD COLUMN password_by TEXT",
        'ALTER TABLE tokens ADD COLUMN "by" TEXT',
        "ALTER TABLE jobs ADD COLUMN through TEXT",
        # who made a token was kept before: what is asked with it from now on is not for them to approve
        "WITH RECURSIVE made(id, person, whose) AS (SELECT id, person, CAST(NULL AS TEXT) FROM tokens WHERE maker IS NULL UNION ALL "
        "SELECT one.id, one.person, CASE WHEN made.person <> one.person THEN made.person ELSE made.whose END "
        "FROM tokens AS one JOIN made ON one.maker = made.id) "
        'UPDATE tokens SET "by" = (SELECT made.whose FROM made WHERE made.id = tokens.id)',
    ),
}


@cache
def _written(query: sa.Select[Any]) -> tuple[str, Any]:
    """A query as SQLite takes it, with :names where values stand, and what its rows are."""
    return str(query.compile(dialect=sqlite.dialect(paramstyle="named"))), namedtuple("Found", query.selected_columns.keys())  # fmt: skip


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Database:
    """A connection for each thread, and transactions that take turns."""

    def __init__(self, where: str) -> None:
        self.place = Place.of(where)
        self.where = self.place.shown
        if is_address(where):
            self.sqlite = False
            self.engine = sa.create_engine(
                self.place.url or "",
                connect_args={"options": f"-csearch_path={SCHEMA}"},
                pool_size=THREADS,
                max_overflow=THREADS,
                pool_pre_ping=False,
            )
        else:
            self.sqlite = True
            assert self.place.path is not None
            if not _only_ours(self.place.path):
                _refuse_others(self.place.path)
            self.engine = sa.create_engine(
                f"sqlite:///{self.place.path}",
                connect_args={"timeout": 60, "check_same_thread": False},
                pool_size=THREADS,
                max_overflow=64,
            )
            event.listen(self.engine, "connect", _pragmas)
            event.listen(self.engine, "begin", _begin)
        # on a server each look is one statement, which sees what is there: no way there and back to begin or to end it
        self.reader = (
            self.engine if self.sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        )
        self._create()

    def _create(self) -> None:
        try:
            if not self.sqlite:
                with self.engine.begin() as connection:
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(7305233511)"))
                    connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
                    _bring_up(connection)
            else:
                with (
                    self.engine.connect().execution_options(immediate=True) as connection,
                    connection.begin(),
                ):
                    _bring_up(connection)
        except sa.exc.SQLAlchemyError as error:
            raise LedgerError(
                "the database of the service cannot be used",
                given=f"{self.where}: {type(error).__name__}",
                needed="a SQLite file of a service, or a PostgreSQL that can be reached",
            ) from None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.reader.connect() as connection:
            yield connection

    def first(self, query: sa.Select[Any], **values: object) -> Any:
        """The first row of a query that every request asks: of a SQLite file past SQLAlchemy, which would take most of the time."""
        if not self.sqlite:
            with self.reading() as connection:
                return connection.execute(query, values).first()
        text, names = _written(query)
        pooled = self.engine.raw_connection()
        try:
            driver: Any = pooled.driver_connection
            found = driver.execute(text, values).fetchone()
        finally:
            pooled.close()
        return None if found is None else names(*found)

    @contextmanager
    def single(self) -> Iterator[sa.Connection]:
        """For one statement that writes: on a server it is a transaction by itself."""
        if self.sqlite:
            with self.writing() as connection:
                yield connection
        else:
            with self.reader.connect() as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction. On SQLite it takes the lock at once, so that nothing that it read has changed when it writes."""
        with self.engine.connect().execution_options(immediate=True) as connection, connection.begin():
            yield connection

    def close(self) -> None:
        self.engine.dispose()


def _bring_up(connection: sa.Connection) -> None:
    """Makes the tables, or those of an earlier version into those of this one: all of it in one transaction, which only one has."""
    there, own = sa.inspect(connection), None if connection.dialect.name == "sqlite" else SCHEMA
    have = set(there.get_table_names(schema=own))
    found = VERSION
    if version.name in have:
        found = connection.execute(sa.select(sa.func.max(version.c.number))).scalar_one()
    elif have:  # before versions were written down
        found = (
            2 if "maker" in {column["name"] for column in there.get_columns(tokens.name, schema=own)} else 1
        )
    if found > VERSION:
        raise LedgerError(
            "the database of the service was made by a newer oboro",
            given=f"version {found}",
            needed=f"version {VERSION} or earlier",
            fix="the oboro that served it last, or a newer one",
        )
    for number in range(found + 1, VERSION + 1):
        for line in STEPS[number]:
            connection.exec_driver_sql(line)
    if version.name not in have or found < VERSION:
        metadata.create_all(connection)
        connection.execute(version.delete())
        connection.execute(version.insert().values(number=VERSION))


def _pragmas(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where we say
    for line in ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 60000"):
        connection.execute(f"PRAGMA {line}")


def _begin(connection: sa.Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _only_ours(path: Path) -> bool:
    """The file holds hashes of tokens and what was asked: nobody else reads it. Whether it is new.

    One that is there is not opened: to close it would give up the locks of whoever has it open in this process, and another process
    would take itself for the last to have it, and delete what was written ahead.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return True
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
        return False


def _refuse_others(path: Path) -> None:
    """A file that holds something else, a ledger perhaps, is not written to."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as looking:
            have = {
                name for (name,) in looking.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
    except sqlite3.Error:
        return  # what cannot be read is told when it is opened
    if have and not {people.name, tokens.name, jobs.name} <= have:
        raise LedgerError(
            "this is no database of a service",
            given=path.name,
            needed="a file that is not there yet, or one that a service made",
            fix='database = "service.db"',
        )
