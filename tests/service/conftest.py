"""A real PostgreSQL for services that share one."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL that was started for these tests."""
    pgserver = pytest.importorskip("pgserver", reason="pgserver does not exist for this platform")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = tempfile.mkdtemp(prefix="oboro-postgres-")
        server = _start(pgserver, Path(folder))
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
def postgres(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same, with an empty schema for a ledger, and nothing of a service."""
    import psycopg

    monkeypatch.setenv("OBORO_KEYS", str(tmp_path / "keys"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS oboro_service CASCADE")
        connection.execute("DROP SCHEMA IF EXISTS people CASCADE")
        connection.execute("CREATE SCHEMA people")
    return f"{postgres_url}&options=-csearch_path%3Dpeople"
