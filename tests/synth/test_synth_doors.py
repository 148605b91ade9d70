"""Files that were made to deceive, and what they may not do: take all memory, or stand under a promise that is not theirs."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import kills
import oboro as ob
from oboro.cli.main import main
from oboro.errors import CertificateError, DataError, ParameterError
from oboro.files import write_together
from oboro.release.plan import encoded
from oboro.synth import contents
from oboro.synth.contents import contents_of
from oboro.synth.marks import BESIDE, _written, check_file, digest, mark_of, marked, write_records

UNIT = ob.Unit.row()
DOMAIN = ob.Domain([ob.Integer("age", 0, 999), ob.Category("sex", ["f", "m"])])
DATA = {"age": [3, 5, 1, 7] * 25, "sex": ["f", "m", "m", "f"] * 25}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ob.synth.Model:
    path = tmp_path_factory.mktemp("doors") / "l.ledger"
    ledger = ob.Ledger.create(path, dataset="people", unit=UNIT, budget=ob.ZCDP(9))
    plan = ob.synth.plan(DOMAIN, unit=UNIT, rho=1, method="marginals")
    return ob.synth.release(DATA, plan, ledger=ledger)  # type: ignore[no-any-return]


def rows(n: int) -> pa.Table:
    return pa.table({"age": pa.array(np.full(n, 3)), "sex": pa.array(["f"]).take(pa.array(np.zeros(n, int)))})


def written(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd")
    else:
        feather.write_feather(table, path, compression="zstd")


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reads or draws records from here on."""
    done: list[str] = []
    for owner, name in ((contents.Contents, "_batches"), (pq.ParquetFile, "read"), (ob.synth.Model, "draw")):

        def seen(*_: object, name: str = name, **__: object) -> None:
            done.append(name)
            raise ValueError(name)

        monkeypatch.setattr(owner, name, seen)
    return done


@pytest.mark.few(1, "synthetic files")
@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_no_record_is_read_before_the_footer_fits_the_mark(
    model: ob.synth.Model, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of few bytes may hold any number of rows."""
    path = tmp_path / f"made{ending}"
    table = rows(100_000)
    said = {**mark_of(model.sample(0)), "records": 100_000, "sha256": "0" * 64}
    wide = pa.table(
        {"age": table["age"], "sex": pa.array(["f" * 10_000] * 1_000).take(pa.array([1] * 100_000))}
    )
    bombs = {
        "no mark": (table, "does not say that it is synthetic"),
        "other rows": (marked(table, {**said, "records": 99_999}), "does not hold the records"),
        "other names": (marked(table.rename_columns(["age", "x"]), said), "does not hold the records"),
        "more columns": (marked(table.append_column("x", table["age"]), said), "does not hold the records"),
        "other types": (marked(table.set_column(0, "age", table["sex"]), said), "does not hold what"),
    }
    if ending == ".arrow":
        bombs["larger values"] = (marked(wide, said), "does not hold the records")
    done = watched(monkeypatch)
    for bomb, told in bombs.values():
        written(bomb, path)
        with pytest.raises(CertificateError, match=told):
            ob.synth.check(path)
        with pytest.raises(ParameterError, match="may be real data"):
            write_records(bomb, path)
    assert not done


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_no_more_is_drawn_again_than_half_of_the_memory_holds(
    model: ob.synth.Model, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"made{ending}"
    write_records(model.sample(10_000), path)
    assert ob.synth.check(path)["redrawn"]
    monkeypatch.setattr(contents, "_memory", lambda: 2 * 10_000 * (2 * 64 + 2 * 8 + 2) - 2)
    monkeypatch.setattr(ob.synth.Model, "draw", lambda *_: pytest.fail("records were drawn"))
    for door in (ob.synth.check, lambda one: ob.synth.quality(DATA, one)):
        with pytest.raises(DataError, match="more records than this machine has room for") as told:
            door(path)
        assert told.value.needed.startswith("at most 9,999,")
    with pytest.raises(ParameterError, match="may be real data"):
        write_records(rows(1), path)


def test_memory_that_ends_is_told_in_words(
    model: ob.synth.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.parquet"
    write_records(model.sample(10), path)

    def ends(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(contents.Contents, "batches", ends)
    for door in (ob.synth.check, lambda one: ob.synth.quality(DATA, one)):
        with pytest.raises(DataError, match="needs more memory than there is"):
            door(path)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_what_an_arrow_file_takes_is_known_before_it_is_unpacked(compression: str, tmp_path: Path) -> None:
    path = tmp_path / "made.arrow"
    table = rows(300_000)
    feather.write_feather(table, path, compression=compression)
    whole = path.read_bytes()
    found = contents_of(pa.BufferReader(whole), ".arrow")
    assert found.rows == 300_000
    assert 0 <= found.unpacked - 300_000 * (8 + 4 + 1) < 1000
    damaged = (
        pa.ArrowException,
        OSError,
        ValueError,
        struct.error,
    )  # whoever asks says that it cannot be read
    refused = 0
    for at in np.random.default_rng(1).integers(len(whole) - 1500, len(whole), 300):  # the footer
        with suppress(*damaged):
            refused += 1
            contents_of(pa.BufferReader(whole[:at] + b"\x7f" + whole[at + 1 :]), ".arrow")
            refused -= 1
    assert refused


def test_a_long_text_that_many_rows_point_to_is_not_written_out(
    model: ob.synth.Model, tmp_path: Path
) -> None:
    path = tmp_path / "made.parquet"
    labels = pa.DictionaryArray.from_arrays(np.zeros(200_000, np.int32), ["f" * 500_000])  # 100 GB
    table = pa.table({"age": np.full(200_000, 3), "sex": labels})
    said = {**mark_of(model.sample(0)), "records": 200_000}
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"oboro.synthetic": _written(said)})
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match="cannot be read"):
        ob.synth.check(path)


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_a_hash_of_parts_is_that_of_the_whole(ending: str) -> None:
    for n in (0, 1, 70_000):
        for label in ("f", 'a "b", c', "朧"):
            table = pa.table(
                {"n, m": np.arange(n), "day": pa.array([None] * n, pa.date32()), "x": [label] * n}
            )
            as_text = ".csv" if ending == ".parquet" else ending
            assert digest(table, ending) == hashlib.sha256(encoded(table, as_text)).hexdigest()


@pytest.mark.few(1, "synthetic files")
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_real_rows_under_a_mark_that_fits_lose_the_promise(
    model: ob.synth.Model, tmp_path: Path, ending: str
) -> None:
    """Whoever has a model makes such a mark: real rows, no conditions, and their hash."""
    real = pa.table({"age": [3, 5, 1, 7] * 10, "sex": ["f", "m", "m", "f"] * 10})
    path = tmp_path / f"made{ending}"
    write_records(marked(real, {**mark_of(model.sample(40, seed=1)), "where": {}}), path)
    made = model.sample(40, seed=1)
    write_records(made, tmp_path / f"drawn{ending}")
    for given in (None, model):
        found = ob.synth.quality(DATA, path, model=given)
        assert found.changed
        assert found.certificate is None
        assert any("nothing says that they were drawn" in one for one in found.cautions)
        for drawn in (tmp_path / f"drawn{ending}", made):
            found = ob.synth.quality(DATA, drawn, model=given)
            assert not found.changed
            assert found.certificate is not None


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_file_that_holds_more_than_its_records_is_not_replaced(
    model: ob.synth.Model, tmp_path: Path, ending: str
) -> None:
    """Somebody's own notes, in the metadata."""
    path = tmp_path / f"made{ending}"
    made = model.sample(300, {"age": None}, seed=1)
    write_records(made, path)
    write_records(made, path)  # records alone are
    said = {**mark_of(made), "sha256": digest(made, ending)}
    noted = marked(made, said)
    noted = noted.replace_schema_metadata({**noted.schema.metadata, b"notes": b"mine"})
    path.write_bytes(encoded(noted, ending))
    before = path.read_bytes()
    with pytest.raises(ParameterError, match="not known to hold synthetic records alone"):
        write_records(made, path)
    assert path.read_bytes() == before


def test_a_condition_is_written_in_one_way(model: ob.synth.Model, tmp_path: Path) -> None:
    """Else the way that was taken could tell something."""
    one = model.sample(30, {"age": list(range(10, 20)), "sex": ["m", "f", None]}, seed=1)
    assert mark_of(one)["where"] == {"age": [[10, 20]]}
    assert one.equals(model.sample(30, {"age": (10, 19)}, seed=1), check_metadata=True)
    write_records(one, tmp_path / "made.csv")
    assert ob.synth.check(tmp_path / "made.csv")["where"] == {"age": ["10..19"]}


def test_many_conditions_may_be_a_column_of_the_data(
    model: ob.synth.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def checked(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["oboro", "synth", "check", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().out

    for listed, code, head in (
        (0, 0, "valid\n"),
        (100, 0, "valid\n"),
        (101, 1, "valid, under conditions that"),
    ):
        path = tmp_path / f"{listed}.parquet"
        ages = list(range(0, 2 * listed, 2))
        made = model.sample(500, {"age": ages} if listed else None, seed=1)
        assert not listed or {*made["age"].to_pylist()} <= {*ages}  # what somebody knows, and nothing else
        write_records(made, path)
        done, out = checked(path)
        assert done == code
        assert out.startswith(head)
        assert (f"but what the conditions say, values and ranges: {listed}" in out) == (listed > 0)
        done, out = checked(path, "--json")
        found = json.loads(out)
        assert (done, found["valid"], found["may_hold_data"]) == (code, code == 0, code == 1)
        assert found["conditions"] == listed


def pair(model: ob.synth.Model, n: int, folder: Path) -> dict[Path, bytes]:
    """Mark and records as they are written."""
    made = model.sample(n, seed=n)
    said = {**mark_of(made), "sha256": digest(made, ".csv")}
    return {folder / f"a.csv{BESIDE}": _written(said), folder / "a.csv": encoded(made, ".csv")}


@pytest.mark.parametrize("before", [False, True])
def test_a_kill_at_any_step_leaves_no_records_beside_another_mark_or_none(
    model: ob.synth.Model, tmp_path: Path, before: bool
) -> None:
    old, new = pair(model, 5, tmp_path), pair(model, 6, tmp_path)

    def again() -> None:
        for path in tmp_path.iterdir():
            path.unlink()
        if before:
            write_together(old)

    calls = [(os, name) for name in ("open", "fdopen", "fsync", "replace", "unlink")]

    def dying(step: int) -> Callable[[int], None]:
        """Is killed before the step-th call that the system is asked to do, or after all of them."""

        def work(_: int) -> None:
            left = step

            def counted(call: Callable[..., object], *given: object, **named: object) -> object:
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **named)

            for module, name in calls:
                setattr(module, name, partial(counted, getattr(module, name)))
            write_together(new)

        return work

    seen = set()
    for step in range(100):
        again()
        code, _ = kills.collect(*kills.in_child(dying(step)))
        found = {path: path.read_bytes() for path in new if path.exists()}
        seen.add(tuple((path in found) + (found.get(path) == new[path]) for path in new))
        mark, records = new
        assert records not in found or found in (old, new)
        assert check_file(records) == records  # the same command again
        assert mark not in found or found[mark] in (old[mark], new[mark])
        if code == 0:
            break
    assert code == 0
    assert step >= 8
    assert (2, 0) in seen  # the new mark alone
    assert ((1, 1) in seen) == before


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("fails", [0, 1, 2, 3])
def test_what_fails_between_two_names_puts_back_what_was_there(
    model: ob.synth.Model, tmp_path: Path, before: bool, fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = pair(model, 5, tmp_path) if before else {}, pair(model, 6, tmp_path)
    for path, content in old.items():
        path.write_bytes(content)
    left, replace = fails, os.replace

    def failing(*paths: Path) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(28, "No space left on device")
        replace(*paths)

    monkeypatch.setattr(os, "replace", failing)
    if fails > 1 and not before:
        write_together(new)
    else:
        with pytest.raises(DataError, match="cannot be written"):
            write_together(new)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == old


@pytest.mark.parametrize("before", [False, True])
def test_a_full_disk_leaves_what_there_was(model: ob.synth.Model, tmp_path: Path, before: bool) -> None:
    """The mark, which holds the model, has no room."""
    path = tmp_path / "a.csv"
    if before:
        write_records(model.sample(5), path)
    was = {one: one.read_bytes() for one in tmp_path.iterdir()}

    def work(pipe: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # of any file
        try:
            write_records(model.sample(6), path)
        except DataError as error:
            os.write(pipe, error.message.encode())

    code, report = kills.collect(*kills.in_child(work))
    assert (code, report.decode()) == (0, f"{path}{BESIDE} cannot be written")
    assert {one: one.read_bytes() for one in tmp_path.iterdir()} == was
    write_records(model.sample(6), path)
    assert ob.synth.check(path)["records"] == 6


def test_what_is_no_file_is_told_in_words(model: ob.synth.Model, tmp_path: Path) -> None:
    """Also a pipe that nobody writes to, which has no end."""
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    write_records(model.sample(5), tmp_path / "made.csv")
    beside = tmp_path / f"made.csv{BESIDE}"
    beside.unlink()
    for name in ("folder.csv", "pipe.csv"):
        for door in (ob.synth.check, ob.synth.load):
            with pytest.raises(DataError, match="not a regular file"):
                door(tmp_path / name)
    with pytest.raises(DataError, match="no such file"):
        ob.synth.check(tmp_path / "absent.csv")
    os.mkfifo(beside)
    with pytest.raises(DataError, match="not a regular file"):
        ob.synth.check(tmp_path / "made.csv")
    with pytest.raises(ParameterError, match="may be real data"):
        write_records(model.sample(5), tmp_path / "made.csv")
