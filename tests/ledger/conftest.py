"""Ledgers to test with, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from oboro.ledger import Ledger
from oboro.privacy import Guarantee, Pure, Unit

_schemas = itertools.count()
LONG = ("test_ledger_kill.py", "test_ledger_faults.py", "test_ledger_race.py")  # on a server: SQLite is quick


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asked = getattr(item, "callspec", None)
        if item.path.name in LONG and asked is not None and asked.params.get("where") == "postgres":
            item.add_marker(pytest.mark.long("kills and races on PostgreSQL"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL that was started for these tests."""
    pgserver = pytest.importorskip("pgserver", reason="pgserver does not exist for this platform")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = tempfile.mkdtemp(
            prefix="oboro-postgres-"
        )  # not pytest's, which closes to others when it starts again
        server = _start(pgserver, Path(folder))
    import psycopg  # the server's own `psql` asks a shell, which a folder with a space in its name confuses

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # faster; the server itself is not killed
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def _start(pgserver: Any, folder: Path) -> Any:
    """A busy machine may be too slow for the server's own patience: it is asked again, in a new folder."""
    for attempt in range(3):
        with suppress(Exception):
            return pgserver.get_server(folder / str(attempt))
    return pgserver.get_server(folder / "last")


@pytest.fixture
def postgres(postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty place on the server: a schema of its own."""
    import psycopg

    monkeypatch.setenv("OBORO_KEYS", str(tmp_path / "keys"))
    schema = f"test_{next(_schemas)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgres_server}&options=-csearch_path%3D{schema}"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a ledger, on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "city.ledger")
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def create(where: str) -> Callable[..., Ledger]:
    def make(budget: Guarantee | None = None, unit: Unit | None = None) -> Ledger:
        return Ledger.create(where, dataset="city 2026", unit=unit or Unit.row(), budget=budget or Pure(2))

    return make
