"""The long run of the ledger under fault, outside CI:

    python tests/ledger --kills 1000

SQLite always, PostgreSQL where pgserver can start one. Prints the figures that docs/faults.md shows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ledger_faults import (
    all_names,
    fill,
    fill_disk,
    grab_together,
    hard_links,
    kill_often,
    race_by_names,
    seconds_of,
    tiny_disk,
    ways_to,
)

import oboro as ob
from oboro.ledger import Ledger


def main() -> None:
    options = argparse.ArgumentParser(description="The ledger under fault.")
    options.add_argument("--kills", type=int, default=1000, help="on each database")
    options.add_argument("--only", choices=["sqlite", "postgres"], help="one database alone")
    options.add_argument("--fill", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.fill:
        ledger = Ledger.create(given.fill, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(50))
        fill(ledger, lambda text: os.write(1, text.encode()))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["OBORO_KEYS"] = str(folder / "keys")
        if given.only != "postgres":
            suffer("SQLite", folder, [str(folder / f"{part}.ledger") for part in "abc"], given.kills)
            by_other_names(folder, given.kills)
            disks(folder, max(20, given.kills // 5))
        if given.only != "sqlite":
            server = start_postgres(folder / "postgres")
            if server is None:
                print("PostgreSQL: none can be started here")
                return
            try:
                suffer("PostgreSQL", folder, [schema(server, part) for part in "abc"], given.kills)
            finally:
                server.cleanup()


def suffer(title: str, folder: Path, places: list[str], kills: int) -> None:
    """Kills, writers at once, and a clock that jumps, each on a ledger of its own."""
    for place, budget in zip(places, (10**6, 30, 30), strict=True):
        Ledger.create(place, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(budget)).close()
    killed, seconds = seconds_of(lambda: kill_often(places[0], kills))
    print(f"{title}: {killed} ({seconds:.0f} s)", flush=True)
    granted, seconds = seconds_of(lambda: grab_together(places[1], 8, "1/20"))
    print(f"{title}: 8 writers at once were granted {granted} of 600 shares ({seconds:.0f} s)", flush=True)
    granted, seconds = seconds_of(lambda: grab_together(places[2], 4, "1/10", clock=True))
    print(
        f"{title}: with clocks that jump, 4 writers were granted {granted} of 300 ({seconds:.0f} s)",
        flush=True,
    )
    assert killed.lost == killed.doubled == 0


def by_other_names(folder: Path, times: int) -> None:
    """Kills by each name that the file of a ledger can have, and races between all of them."""
    path = folder / "data" / "city.ledger"
    path.parent.mkdir()
    for title, way in ways_to(path).items():
        Ledger.create(path, dataset="x", unit=ob.Unit.row(), budget=ob.Pure(10**6)).close()
        killed, seconds = seconds_of(lambda way=way: kill_often(str(path), times, way=way))
        print(f"by {title}: {killed} ({seconds:.0f} s)", flush=True)
        assert killed.lost == killed.doubled == 0
        for file in path.parent.iterdir():
            file.unlink()
    for title, names in (("between all names", all_names), ("between hard links", hard_links)):
        raced, seconds = seconds_of(lambda names=names: race_by_names(folder / "races", times, names))
        print(f"{title}: {raced} ({seconds:.0f} s)", flush=True)
        assert raced.granted == (0 if names is hard_links else 2 * times)


def disks(folder: Path, rounds: int) -> None:
    seen, seconds = seconds_of(lambda: fill_disk(folder, rounds))
    print(f"full disk: {seen} by a limit on file sizes ({seconds:.0f} s)", flush=True)
    sizes = range(96, 400, 16)
    granted = [tiny_disk(folder, size, sys.executable, Path(__file__).resolve().parent) for size in sizes]
    if all(count is not None for count in granted):
        print(
            f"full disk: {len(sizes)} small file systems, {sum(granted)} granted before, none lost",
            flush=True,
        )
    else:
        print("full disk: this system allows no file system of our own", flush=True)


def start_postgres(folder: Path) -> Any:
    try:
        import pgserver
    except ImportError:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pgserver.get_server(folder)


def schema(server: Any, name: str) -> str:
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server.get_uri()}&options=-csearch_path%3D{name}"


if __name__ == "__main__":
    main()
