"""A file of synthetic records says what it is, and `check` tells it from what is not."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyarrow import feather

import oboro as ob
from oboro.errors import CertificateError, DataError, OboroError, ParameterError
from oboro.ledger import canonical
from oboro.release.certificate import BUNDLED, Certificate, unpacked
from oboro.release.plan import bundled, encoded
from oboro.synth.marks import BESIDE, _written, mark_of, mark_within, marked, read_mark, write_records

UNIT = ob.Unit.row()
DOMAIN = ob.Domain(
    [ob.Integer("age", 0, 9), ob.Category("sex", ["f", "m"]), ob.Date("day", "2026-01-01", "2026-01-20")]
)
DATA = {"age": [3, 5, 1, 7] * 25, "sex": ["f", "m", "m", "f"] * 25, "day": ["2026-01-04"] * 100}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> ob.Ledger:
    return ob.Ledger.create(
        tmp_path_factory.mktemp("marks") / "l.ledger", dataset="people", unit=UNIT, budget=ob.ZCDP(9)
    )


@pytest.fixture(scope="module")
def model(ledger: ob.Ledger) -> ob.synth.Model:
    return ob.synth.release(DATA, ob.synth.plan(DOMAIN, unit=UNIT, rho=1), ledger=ledger)  # type: ignore[no-any-return]


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".json"])
def test_a_file_says_what_it_is_and_from_which_draw(
    model: ob.synth.Model, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"made{ending}"
    where = {"age": (2, 6), "sex": ["f"], "day": None}
    beside = write_records(model.sample(40, where), path)
    assert (beside is None) == (ending in (".parquet", ".arrow"))
    found = ob.synth.check(path)
    assert (found["synthetic"], found["records"], found["plan"]) == ("records", 40, "synth.quality")
    assert (found["unchanged"], found["redrawn"], found["signed"]) == (True, True, False)
    assert found["certificate"]["dataset"] == "people"
    again = ob.synth.check(path, model=model.save(tmp_path / "model.oboro"))
    assert again["redrawn"]
    assert again["where"] == {"age": ["2..6"], "sex": ["f"], "day": [None]}


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".json"])
def test_whoever_has_records_can_draw_more(model: ob.synth.Model, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"made{ending}"
    write_records(model.sample(40, {"age": 3}), path)
    found = ob.synth.load(path)
    assert found.sample(500, seed=1) == model.sample(500, seed=1), (
        "of all the people, not under the condition"
    )
    assert found.certificate.record["plan"] == model.certificate.record["plan"]
    write_records(model.sample(40), tmp_path / "bare.csv")
    (tmp_path / f"bare.csv{BESIDE}").unlink()
    with pytest.raises(DataError, match="is not a model"):
        ob.synth.load(tmp_path / "bare.csv")
    said = mark_of(model.sample(10))
    packed = base64.b64decode(said["model"])
    for wrong in (packed[:-9], packed.replace(b"people", b"others"), b""):
        forged = marked(model.sample(10), {**said, "model": base64.b64encode(wrong).decode()})
        pq.write_table(forged, tmp_path / "forged.parquet")
        with pytest.raises((DataError, CertificateError)):
            ob.synth.load(tmp_path / "forged.parquet")


def test_a_table_that_a_user_writes_keeps_its_mark(model: ob.synth.Model, tmp_path: Path) -> None:
    pq.write_table(model.sample(30, seed=4), tmp_path / "own.parquet")
    found = ob.synth.check(tmp_path / "own.parquet")
    assert (found["seed"], found["unchanged"], found["redrawn"]) == (4, False, True)
    kept = model.save(tmp_path / "model.oboro")
    assert ob.synth.check(tmp_path / "own.parquet", model=kept)["redrawn"]
    fewer = model.sample(30, seed=4).slice(0, 20)
    pq.write_table(fewer, tmp_path / "fewer.parquet")
    with pytest.raises(CertificateError, match="does not hold the records"):
        ob.synth.check(tmp_path / "fewer.parquet")


def other_records(table: pa.Table) -> pa.Table:
    ages = [9 - age if age is not None else 0 for age in table["age"].to_pylist()]
    return table.set_column(0, "age", pa.array(ages)).replace_schema_metadata(table.schema.metadata)


def test_records_that_were_changed_are_found(model: ob.synth.Model, tmp_path: Path) -> None:
    """By the hash of the mark; and if the mark is made to fit, by drawing again."""
    kept = model.save(tmp_path / "model.oboro")
    path = tmp_path / "made.parquet"
    write_records(model.sample(40), path)
    pq.write_table(other_records(pq.read_table(path)), path)
    with pytest.raises(CertificateError, match="does not hold the records"):
        ob.synth.check(path)
    path.unlink()
    write_records(other_records(model.sample(40)), path)  # real rows, say, with the mark of a draw
    for given in (None, kept):
        with pytest.raises(CertificateError, match="does not hold what the model draws"):
            ob.synth.check(path, model=given)
    write_records(model.sample(40), tmp_path / "made.csv")
    (tmp_path / "made.csv").write_text((tmp_path / "made.csv").read_text() + "\n")
    with pytest.raises(CertificateError, match="does not hold the records"):
        ob.synth.check(tmp_path / "made.csv")


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
@pytest.mark.parametrize("hashed", [True, False])
def test_real_rows_with_the_metadata_of_a_draw_are_not_replaced(
    model: ob.synth.Model, tmp_path: Path, ending: str, hashed: bool
) -> None:
    path = tmp_path / f"made{ending}"
    made = model.sample(40)
    if hashed:
        write_records(made, path)
        write_records(model.sample(40), path)  # synthetic records are
        made = pq.read_table(path) if ending == ".parquet" else pa.ipc.open_file(path).read_all()
    for real in (other_records(made), made.append_column("more", pa.array([[1]] * 40))):
        path.write_bytes(encoded(real, ending))
        before = path.read_bytes()
        with pytest.raises(ParameterError, match="may be real data"):
            write_records(model.sample(40), path)
        assert path.read_bytes() == before


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_a_mark_without_a_hash_is_that_of_no_file(model: ob.synth.Model, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"made{ending}"
    beside = write_records(model.sample(5), path)
    assert beside is not None
    mark = json.loads(beside.read_bytes())
    beside.write_bytes(_written({name: part for name, part in mark.items() if name != "sha256"}))
    path.write_text("age,sex\n3,f\n")
    with pytest.raises(ParameterError, match="may be real data"):
        write_records(model.sample(5), path)
    assert path.read_text() == "age,sex\n3,f\n"


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_what_stands_where_the_mark_would_be_is_left_alone(
    model: ob.synth.Model, tmp_path: Path, ending: str
) -> None:
    """And no records are written without their mark."""
    path = tmp_path / f"q{ending}"
    beside = tmp_path / f"q{ending}{BESIDE}"
    beside.mkdir()
    with pytest.raises(ParameterError, match="is no mark of synthetic records"):
        write_records(model.sample(5), path)
    beside.rmdir()
    for mine in ('{"mine": 1}', ""):
        beside.write_text(mine)
        with pytest.raises(ParameterError, match="is no mark of synthetic records"):
            write_records(model.sample(5), path)
        assert beside.read_text() == mine
    assert not path.exists()
    write_records(model.sample(5), tmp_path / "q.parquet")  # carries its own
    beside.unlink()
    assert write_records(model.sample(5), path) == beside
    path.unlink()
    assert write_records(model.sample(5), path) == beside  # a mark that was left is replaced
    assert ob.synth.check(path)["unchanged"]


def test_a_mark_names_a_release_that_a_key_signed(
    model: ob.synth.Model, ledger: ob.Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "made.csv"
    write_records(model.sample(5), path)
    assert ob.synth.check(path, public_key=ledger.public_key)["records"] == 5
    with pytest.raises(CertificateError, match="another key"):
        ob.synth.check(path, public_key="0" * 64)
    other = ob.synth.release(DATA, ob.synth.plan(DOMAIN, unit=UNIT, rho="0.5"), ledger=ledger)
    with pytest.raises(CertificateError, match="another model"):
        ob.synth.check(path, model=other.save(tmp_path / "other.oboro"))


def _signed_by_anybody(model: ob.synth.Model, table: pa.Table) -> bytes:
    """A model file with these measurements, under a key of its own."""
    sink, key = pa.BufferOutputStream(), Ed25519PrivateKey.generate()
    pq.write_table(table, sink, compression="zstd")
    content = bytes(sink.getvalue())
    parts = unpacked(model.bundle())
    assert parts is not None
    record = {name: part for name, part in json.loads(parts[1]).items() if name != "signature"}
    found = hashlib.sha256(content).hexdigest()
    record |= {"public_key": key.public_key().public_bytes_raw().hex()}
    record["file"] = {**record["file"], "bytes": len(content), "sha256": found}
    record["content"] = {**record["content"], "sha256": found}
    certificate = Certificate(record, key.sign(canonical(record).encode()).hex())
    return bundled({BUNDLED[0]: content, BUNDLED[1]: certificate.to_bytes()})


def _of_many_rows(table: pa.Table) -> pa.Table:
    """A million lines more, of which a file says in a few bytes that they are alike."""
    last = table.slice(table.num_rows - 1)
    return pa.concat_tables([table, last.take(pa.array(np.zeros(10**6, np.int64)))])


def _of_many_bins(table: pa.Table) -> pa.Table:
    table = table.filter(pc.not_equal(table.column("step"), "joint"))
    bins = np.asarray(table.column("third").to_pylist(), object)
    bins[table.column("step").to_pylist().index("bins")] = 10**6
    return table.set_column(5, "third", pa.array(bins, pa.int64()))


def _of_values_that_the_column_lacks(table: pa.Table) -> pa.Table:
    last = np.asarray(table.column("second").to_pylist(), object)
    last[np.flatnonzero(np.asarray(table.column("step").to_pylist()) == "bins")[-1]] = 10**6
    return table.set_column(4, "second", pa.array(last, pa.int64()))


def _of_all_columns_tied(table: pa.Table) -> pa.Table:
    """All pairs of seven columns: few lines, and a model of a cell for each combination of all of them."""
    sizes = {}
    for line in table.to_pylist():
        if line["step"] == "bins":
            sizes[line["columns"]] = max(sizes.get(line["columns"], 0), line["third"] + 1)
    kept = [line for line in table.to_pylist() if line["step"] != "joint"]
    for one, other in combinations(sizes, 2):
        cells = product(range(sizes[one]), range(sizes[other]))
        line = {"step": "joint", "columns": json.dumps([one, other]), "count": 1}
        kept += [{**line, "first": a, "second": b} for a, b in cells]
    return pa.Table.from_pylist(kept, table.schema)


@pytest.mark.few(2, "synthetic files")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_of_many_rows, "larger model than"),
        (_of_all_columns_tied, "larger model than"),
        (_of_many_bins, "not those of its plan"),
        (_of_values_that_the_column_lacks, "not those of its plan"),
    ],
)
def test_a_small_model_file_takes_no_memory_that_it_has_no_right_to(
    change: Callable[[pa.Table], pa.Table], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can sign one with a key of their own, also within the mark of records that somebody is asked to check."""
    monkeypatch.setattr("oboro.synth.contents._memory", lambda: 2**23)
    domain, unit = ob.Domain([ob.Integer(f"c{i}", 0, 4, missing=0) for i in range(7)]), ob.Unit.row()
    ledger = ob.Ledger.create(tmp_path / "l.ledger", dataset="x", unit=unit, budget=ob.ZCDP(50))
    rows = {name: [0, 1, 2, 3, 4] * 200 for name in domain.names}
    model = ob.synth.release(rows, ob.synth.plan(domain, unit=unit, rho=50), ledger=ledger)
    made = model.sample(10, seed=1)
    mark = mark_of(made)
    path, records = tmp_path / "hostile.oboro", tmp_path / "made.csv"
    path.write_bytes(_signed_by_anybody(model, model.to_arrow()))
    loaded = ob.synth.load(path)  # a model may be as large as this one
    assert loaded.sample(10, seed=1).to_pylist() == made.to_pylist()
    hostile = _signed_by_anybody(model, change(model.to_arrow()))
    path.write_bytes(hostile)
    parts = unpacked(hostile)
    assert parts is not None
    mark |= {"certificate": json.loads(parts[1]), "model": base64.b64encode(hostile).decode()}
    write_records(marked(made, mark), records)
    for door in (lambda: ob.synth.load(path), lambda: ob.synth.check(records)):
        with pytest.raises(OboroError, match=why):
            door()


def test_a_forged_certificate_is_not_that_of_the_model(model: ob.synth.Model, tmp_path: Path) -> None:
    """Records and model are true, and the mark names another dataset, signed anew with a key of the forger's."""

    path, kept = tmp_path / "made.csv", model.save(tmp_path / "model.oboro")
    beside = write_records(model.sample(5), path)
    assert beside is not None
    mark = json.loads(beside.read_bytes())
    key = Ed25519PrivateKey.generate()
    forged = {name: part for name, part in mark["certificate"].items() if name != "signature"}
    forged |= {"dataset": "census", "public_key": key.public_key().public_bytes_raw().hex()}
    mark["certificate"] = {**forged, "signature": key.sign(canonical(forged).encode()).hex()}
    beside.write_bytes(_written(mark))
    for given in (None, kept):
        with pytest.raises(CertificateError, match="another certificate than the model"):
            ob.synth.check(path, model=given)
        with pytest.raises(CertificateError, match="another key"):  # that of the model is not the forger's
            ob.synth.check(path, model=given, public_key=forged["public_key"])


def _certificate(change: Callable[[dict[str, object]], object]) -> Callable[[dict[str, object]], object]:
    return lambda mark: change(mark["certificate"])  # type: ignore[arg-type]


CHANGES: dict[str, Callable[[dict[str, object]], object]] = {
    "a promise": _certificate(lambda c: c.update(dataset="others")),
    "no signature": _certificate(lambda c: c.pop("signature")),
    "no plan": _certificate(lambda c: c.pop("plan")),
    "another format": lambda mark: mark.update(format="oboro synthetic 2"),
    "a part too many": lambda mark: mark.update(more=1),
    "a seed that is none": lambda mark: mark.update(seed=-1),
    "a certificate that is none": lambda mark: mark.update(certificate={}),
    "a model that is none": lambda mark: mark.update(model="AAAA"),
    "a model in other letters": lambda mark: mark.update(model="朧"),
    "a seed as long as a text": lambda mark: mark.update(seed=2**128),
    "a name in its note": lambda mark: mark.update(note=f"{mark['note']}: Taro Yamada"),
    "a name in its software": lambda mark: mark.update(software="oboro 0.2.0 Taro Yamada"),
    "half a model": lambda mark: mark.update(model=mark["model"][: len(mark["model"]) // 8 * 4]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_mark_that_was_changed_is_refused(model: ob.synth.Model, tmp_path: Path, change: str) -> None:
    path = tmp_path / "made.csv"
    beside = write_records(model.sample(5), path)
    assert beside is not None
    mark = json.loads(beside.read_bytes())
    CHANGES[change](mark)
    beside.write_bytes(_written(mark))
    with pytest.raises(CertificateError):
        ob.synth.check(path)


@pytest.mark.parametrize(
    "where",
    [
        {"age": [[0, 99]]},
        {"age": [[3]]},
        {"age": []},
        {"x": [[0, 1]]},
        {"age": 1},
        {"age": [[3, 3]]},  # nothing
        {"age": [[0, 4], [2, 6]]},  # the same twice
        {"age": [[0, 4], [4, 6]]},  # one range as two
        {"age": [[0, 11]]},  # no condition
    ],
)
def test_conditions_that_do_not_fit_are_no_draw(
    model: ob.synth.Model, tmp_path: Path, where: dict[str, object]
) -> None:
    path = tmp_path / "made.csv"
    beside = write_records(model.sample(5), path)
    assert beside is not None
    beside.write_bytes(_written({**json.loads(beside.read_bytes()), "where": where}))
    with pytest.raises(CertificateError, match="is not that of a draw"):
        ob.synth.check(path, model=model.save(tmp_path / "model.oboro"))


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_as_many_records_are_drawn_again_as_the_file_can_hold(
    model: ob.synth.Model, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark is anybody's word: one that speaks of a billion records must not have them drawn."""
    path = tmp_path / f"made{ending}"
    beside = write_records(model.sample(5), path)
    assert beside is not None
    kept = model.save(tmp_path / "model.oboro")
    assert ob.synth.check(path, model=kept)["redrawn"]
    drawn = []
    draw = ob.synth.Model.draw
    monkeypatch.setattr(
        ob.synth.Model, "draw", lambda self, n, *how: drawn.append(n) or draw(self, min(n, 10), *how)
    )
    for many in (10**6, 10**9, 10**12):
        beside.write_bytes(_written({**json.loads(beside.read_bytes()), "records": many}))
        with pytest.raises(CertificateError, match="is not that of a draw"):
            ob.synth.check(path, model=kept)
    assert not drawn


def test_other_columns_than_those_of_the_model_are_not_what_was_marked(
    model: ob.synth.Model, tmp_path: Path
) -> None:
    """A mark goes along with whatever is made of a table that carries it, and has no hash before it is written."""
    made = model.sample(5)
    pq.write_table(made, tmp_path / "made.parquet")
    assert ob.synth.check(tmp_path / "made.parquet")["records"] == 5
    for other in (made.select(["age"]), made.append_column("real", pa.array([3, 1, 4, 1, 5]))):
        pq.write_table(other, tmp_path / "other.parquet")
        with pytest.raises(CertificateError, match="does not hold the records"):
            ob.synth.check(tmp_path / "other.parquet")


def test_what_is_not_synthetic_is_not_said_to_be(
    model: ob.synth.Model, ledger: ob.Ledger, tmp_path: Path
) -> None:
    pq.write_table(pa.table(DATA), tmp_path / "real.parquet")
    (tmp_path / "real.csv").write_text("age,sex\n3,f\n")
    (tmp_path / "real.csv.synthetic.json").write_text("[1]")
    (tmp_path / "broken.parquet").write_text("age,sex\n3,f\n")
    for name, kind in (
        ("real.parquet", CertificateError),
        ("real.csv", CertificateError),
        ("broken.parquet", DataError),
        ("absent.csv", DataError),
    ):
        with pytest.raises(kind):
            ob.synth.check(tmp_path / name)
    people = ob.Session(DATA, domain=DOMAIN, unit=UNIT, ledger=ledger)
    people.count(rho="0.01").save(tmp_path / "count.csv")
    with pytest.raises(CertificateError, match="is not synthetic data"):
        ob.synth.check(tmp_path / "count.csv")
    with pytest.raises(ParameterError, match="a release itself"):
        ob.synth.check(model.save(tmp_path / "model.oboro"), model=tmp_path / "model.oboro")
    assert ob.synth.check(tmp_path / "model.oboro")["synthetic"] == "model"


def test_records_of_the_gaussian_method_are_a_release_themselves(tmp_path: Path) -> None:
    unit = ob.Unit.row("replace")
    ledger = ob.Ledger.create(tmp_path / "g.ledger", dataset="people", unit=unit, budget=ob.Approx(9, "1e-4"))
    domain = ob.Domain([ob.Integer("age", 0, 9), ob.Integer("size", 0, 9)])
    plan = ob.synth.plan(domain, unit=unit, n=100, eps=1, delta="1e-6", method="gaussian", records=20)
    released = ob.synth.release({"age": DATA["age"], "size": DATA["age"]}, plan, ledger=ledger)
    for name in ("made.parquet", "made.csv"):
        released.save(tmp_path / name)
        found = ob.synth.check(tmp_path / name)
        assert (found["plan"], found["records"], found["signed"]) == ("synth.gaussian", 20, True)
    assert read_mark(mark_within(pq.read_table(tmp_path / "made.parquet")) or b"") is not None
    (tmp_path / "made.parquet.certificate.json").unlink()
    with pytest.raises(CertificateError, match="does not say"):
        ob.synth.check(tmp_path / "made.parquet")


def test_no_bytes_of_a_mark_raise_anything_else(model: ob.synth.Model, tmp_path: Path) -> None:
    path = tmp_path / "made.csv"
    beside = write_records(model.sample(5), path)
    assert beside is not None
    assert beside.name == f"made.csv{BESIDE}"
    good = beside.read_bytes()
    for place in range(0, len(good), max(1, len(good) // 150)):
        for odd in (b"", b"9", b"{", b"\xff"):
            beside.write_bytes(good[:place] + odd + good[place + 1 :])
            with contextlib.suppress(OboroError):
                ob.synth.check(path)


def test_types_that_read_the_same_and_hold_more_are_refused(model: ob.synth.Model, tmp_path: Path) -> None:
    """Milliseconds of a day, and labels in a dictionary that no record has."""
    made = model.sample(30, seed=3)
    days = made["day"].cast(pa.date64()).cast(pa.int64())
    hidden = pa.chunked_array([pa.array([None if d is None else d + 12_345_678 for d in days.to_pylist()])])
    real = pa.DictionaryArray.from_arrays(
        made["sex"].combine_chunks().dictionary_encode().indices,
        pa.array(
            [*made["sex"].combine_chunks().dictionary_encode().dictionary.to_pylist(), "Alice 1970-01-01"]
        ),
    )
    for name, values in (("day", hidden.cast(pa.date64(), safe=False)), ("sex", real)):
        place = made.column_names.index(name)
        other = made.set_column(place, name, values).replace_schema_metadata(made.schema.metadata)
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(encoded(other, ".arrow"))
        with pytest.raises(CertificateError, match="does not hold what the model draws"):
            ob.synth.check(path)


@pytest.mark.parametrize("bit", [24, 30, 31])
def test_an_arrow_file_with_one_bit_changed_is_told_in_our_words(
    model: ob.synth.Model, ledger: ob.Ledger, tmp_path: Path, bit: int
) -> None:
    """A text that begins beyond the end of its bytes: whoever follows that reads foreign memory, and the program dies."""
    path = tmp_path / "made.arrow"
    write_records(model.sample(40, {"sex": ["f", "m"]}, seed=1), path)
    whole = path.read_bytes()
    offsets = np.arange(41, dtype="<i4").tobytes()  # of labels of one letter
    assert whole.count(offsets) == 1
    at = whole.index(offsets) + 4 * 20 + bit // 8
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit % 8]) + whole[at + 1 :])
    with pytest.raises(DataError, match="cannot be read"):
        ob.synth.check(path)
    with pytest.raises(DataError, match="cannot be read"):
        ob.synth.quality(DATA, path)
    with pytest.raises(ParameterError, match="may be real data"):
        write_records(model.sample(5), path)


def with_other_metadata(made: pa.Table) -> pa.Table:
    return made.replace_schema_metadata({**made.schema.metadata, b"rows": b"Taro Yamada"})


def with_metadata_of_a_column(made: pa.Table) -> pa.Table:
    fields = [made.schema.field(0).with_metadata({b"rows": b"Taro Yamada"}), *list(made.schema)[1:]]
    return made.cast(pa.schema(fields, metadata=made.schema.metadata))


def with_values_under_nulls(made: pa.Table) -> pa.Table:
    place, days = made.column_names.index("day"), made["day"].combine_chunks()
    held = np.arange(len(days), dtype=np.int32)
    other = pa.Array.from_buffers(days.type, len(days), [days.buffers()[0], pa.py_buffer(held)])
    return made.set_column(place, "day", other).replace_schema_metadata(made.schema.metadata)


def write_more(table: pa.Table, path: Path) -> None:
    """The same records in other bytes: other groups of rows, say."""
    if path.suffix == ".arrow":
        path.write_bytes(encoded(table, ".arrow"))
        return
    bare = table.replace_schema_metadata(None)
    labels = pa.types.is_dictionary(table["sex"].type)  # whose type no reader is to see
    with pq.ParquetWriter(path, bare.schema, store_schema=not labels) as writer:
        writer.write_table(bare, row_group_size=7)
        writer.add_key_value_metadata(table.schema.metadata)


def with_labels_of_nobody(made: pa.Table) -> pa.Table:
    place, labels = made.column_names.index("sex"), made["sex"].combine_chunks().dictionary_encode()
    more = pa.array([*labels.dictionary.to_pylist(), "Taro Yamada"])
    other = pa.DictionaryArray.from_arrays(labels.indices, more)
    return made.set_column(place, "sex", other).replace_schema_metadata(made.schema.metadata)


@pytest.mark.parametrize(
    ("change", "ending"),
    [
        (with_other_metadata, ".parquet"),
        (with_other_metadata, ".arrow"),
        (with_metadata_of_a_column, ".parquet"),
        (with_metadata_of_a_column, ".arrow"),
        (with_values_under_nulls, ".arrow"),
        (with_labels_of_nobody, ".parquet"),
        (lambda made: made, ".parquet"),
    ],
)
def test_a_file_with_room_for_more_than_its_records_is_not_said_to_hold_them_alone(
    model: ob.synth.Model, tmp_path: Path, change: Callable[[pa.Table], pa.Table], ending: str
) -> None:
    path, clean = tmp_path / f"made{ending}", tmp_path / f"clean{ending}"
    made = model.sample(40, {"day": None}, seed=1)
    write_more(change(made), path)
    found = ob.synth.check(path, output=clean)
    assert (found["redrawn"], found["alone"]) == (True, False)
    assert ob.synth.check(clean)["alone"]
    path.unlink()
    write_records(made, path)
    assert path.read_bytes() == clean.read_bytes()


@pytest.mark.few(2, "synthetic files")
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".json"])
def test_files_that_oboro_wrote_hold_their_records_alone(
    model: ob.synth.Model, tmp_path: Path, ending: str
) -> None:
    path, kept = tmp_path / f"made{ending}", model.save(tmp_path / "model.oboro")
    for n in (0, 40, 300):  # more than a hundred rows are packed
        write_records(model.sample(n, {"sex": "f"}), path)
        for given in (None, kept):
            assert ob.synth.check(path, model=given)["alone"]
    assert ob.synth.check(kept)["alone"]


def test_files_that_pyarrow_wrote_hold_their_records_alone(model: ob.synth.Model, tmp_path: Path) -> None:
    made = model.sample(300)
    pq.write_table(made, tmp_path / "made.parquet")
    feather.write_feather(made, tmp_path / "made.arrow")
    for name in ("made.parquet", "made.arrow"):
        assert ob.synth.check(tmp_path / name)["alone"]


def test_a_mark_holds_nothing_that_oboro_did_not_write(model: ob.synth.Model, tmp_path: Path) -> None:
    """Nobody signs it. Also where the model is given, and that in the mark is not needed."""
    kept, path = model.save(tmp_path / "model.oboro"), tmp_path / "made.csv"
    beside = write_records(model.sample(5), path)
    assert beside is not None
    good = beside.read_bytes()
    twice = good.replace(b'  "note"', b'  "note": "Taro Yamada",\n  "note"')
    hidden = _written({**json.loads(good), "model": base64.b64encode(b"Taro Yamada").decode()})
    for changed in (twice, good + b" ", hidden):
        assert changed != good
        beside.write_bytes(changed)
        for given in (None, kept):
            with pytest.raises(CertificateError, match="cannot be read"):
                ob.synth.check(path, model=given)


def test_records_are_written_anew_only_as_they_are_drawn_again(model: ob.synth.Model, tmp_path: Path) -> None:
    path, kept = tmp_path / "made.parquet", model.save(tmp_path / "model.oboro")
    made = model.sample(5)
    write_records(marked(made, {name: part for name, part in mark_of(made).items() if name != "model"}), path)
    (tmp_path / "real.csv").write_text("age,sex\n3,f\n")
    with pytest.raises(ParameterError, match="nothing to draw the records again from"):
        ob.synth.check(path, output=tmp_path / "new.csv")
    with pytest.raises(ParameterError, match="may be real data"):
        ob.synth.check(path, model=kept, output=tmp_path / "real.csv")
    with pytest.raises(ParameterError, match="a release itself"):
        ob.synth.check(kept, output=tmp_path / "new.csv")
    assert not (tmp_path / "new.csv").exists()
    ob.synth.check(path, model=kept, output=tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_bytes() == encoded(made, ".csv")
