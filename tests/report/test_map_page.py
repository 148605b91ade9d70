"""The map page: it says what the table says, asks nothing of anyone, and keeps true counts to itself."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from synthetic_town import hazy, table_of, town

import oboro as ob
from oboro.domain import Category, Domain, Grid, Integer, Mesh
from oboro.errors import DataError, DomainError, ParameterError
from oboro.report import Comparison, write_hours, write_map
from oboro.report import map as map_module
from oboro.report.cells import Place
from oboro.report.map import unpack
from support import CHROMIUM

SIDE = 64
GRID = Domain([Grid("row", "col", shape=(SIDE, SIDE))])
BANNER = "INTERNAL: contains true counts. Do not publish."
HOSTILE = """</script><script>alert("x")</script><img src=x onerror='alert(1)'>&amp;{0} "quoted" <!--"""

RECORD: dict[str, Any] = {
    "released": "people by cell",
    "dataset": "town",
    "unit": {
        "kind": "cells",
        "adjacency": "add/remove",
        "max_cells": 1,
        "max_per_cell": 1,
        "in_words": "one unit in at most 1 cells",
    },
    "guarantee": {"kind": "pure", "eps": "0.1", "in_words": "eps = 0.1"},
    "noise": {"law": "discrete Laplace", "scale": "10"},
    "forecast": {
        "title": "expected error",
        "columns": ["block", "standard error", "95% within ±"],
        "rows": [["1 x 1", "14.1", "30"], ["2 x 2", "20", "41.5"]],
        "notes": ["before clipping"],
    },
    "ledger": {
        "cost": {"kind": "pure", "eps": "0.1"},
        "spent": {"kind": "pure", "eps": "0.3"},
        "budget": {"kind": "pure", "eps": "1"},
    },
    "file": {"name": "published.parquet", "sha256": "ab" * 32},
    "public_key": "cd" * 32,
}


class Reader(HTMLParser):
    """Elements with their attributes and texts, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.elements:
            tag, attributes, text = self.elements[-1]
            self.elements[-1] = (tag, attributes, text + data)

    def text(self, identity: str) -> str:
        return next(text for _, attributes, text in self.elements if attributes.get("id") == identity)


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def counts_on(path: Path, table: int = 0, source: int = -1) -> tuple[int, dict[tuple[int, int, int], int]]:
    """Side of the blocks, and counts by layer, row and column of the block, as the script decodes them."""
    reader = read(path)
    data = json.loads(reader.text("oboro-data"))
    header = data["tables"][table]["sources"][source]
    numbers, size, side = unpack(reader.text(header["id"])), sum(header["sizes"]), header["side"]
    gaps, counts = numbers[:size], numbers[size : 2 * size]
    row, col, _, cols = data["window"]
    width = (col + cols - 1) // side - col // side + 1
    found, at = {}, 0
    for layer, length in zip(header["layers"], header["sizes"], strict=True):
        positions = np.cumsum(gaps[at : at + length]) - 1
        for position, count in zip(positions.tolist(), counts[at : at + length].tolist(), strict=True):
            found[layer, row // side + position // width, col // side + position % width] = count
        at += length
    return side, found


@pytest.fixture(scope="module")
def people() -> Any:
    return town(SIDE, SIDE)


@pytest.fixture
def page(tmp_path: Path) -> Callable[..., Path]:
    def make(table: pa.Table, domain: Domain = GRID, **options: Any) -> Path:
        return write_map(table, domain, tmp_path / "map.html", **options)

    return make


def test_the_page_holds_the_very_counts_of_the_table(page: Callable[..., Path], people: Any) -> None:
    side, found = counts_on(page(table_of(people)))
    row, col = np.nonzero(people)
    assert side == 1
    assert found == {(0, int(r), int(c)): int(people[r, c]) for r, c in zip(row, col, strict=True)}


def test_columns_are_called_by_their_labels(page: Callable[..., Path]) -> None:
    labels = {"code": "メッシュ", "sex": "性別", "row": "緯度の番号"}
    sexes = Category("sex", ["F", "M"])
    mesh = Domain([Mesh("code", level="1km", region=[5339]), sexes], labels=labels)
    text = page(pa.table({"code": [53394526], "sex": ["F"], "people": [7]}), mesh).read_text()
    assert json.loads(read_text(text, "oboro-data"))["place"]["names"] == ["メッシュ"]
    assert "<span>性別</span>" in text
    grid = Domain([Grid("row", "col", shape=(4, 4))], labels=labels)
    text = page(pa.table({"row": [1], "col": [2], "people": [7]}), grid).read_text()
    assert json.loads(read_text(text, "oboro-data"))["place"]["names"] == ["緯度の番号", "col"]
    assert "緯度の番号 0 is at the top" in text


def test_the_page_of_hours_calls_columns_by_their_labels(tmp_path: Path) -> None:
    unit, labels = ob.Unit.cells(2), {"row": "緯度の番号", "sex": "性別"}
    domain = Domain([Grid("row", "col", shape=(4, 4)), Category("sex", ["F", "M"])], labels=labels)
    plan = ob.tables.plan(domain, unit=unit, eps=5, ticks=2, max_ticks=2, count="people")
    ledger = ob.Ledger.create(tmp_path / "a.ledger", dataset="c", unit=unit, budget=ob.Pure(10))
    series = ob.tables.series(plan, ledger=ledger, name="hours")
    there = {"row": [1], "col": [2], "sex": ["F"], "people": [5]}
    tables = [series.publish({"tick": [tick], **there}, tick).to_arrow() for tick in range(2)]
    write_hours(tables, tmp_path / "hours.html")
    text = (tmp_path / "hours.html").read_text()
    assert json.loads(read_text(text, "oboro-data"))["names"] == ["緯度の番号", "col"]
    assert "Summed over 性別" in text


def test_layers_keep_their_own_counts(page: Callable[..., Path]) -> None:
    domain = Domain(
        [Category("sex", ["F", "M"]), Grid("y", "x", shape=(5, 7)), Integer("age", 0, 90, step=30)]
    )
    table = pa.table(
        {"sex": ["M", "F", "M"], "y": [4, 0, 4], "x": [6, 0, 6], "age": [90, 0, 60], "n": [2**60, 1, 7]}
    )
    _, found = counts_on(page(table, domain))
    assert found == {(0, 0, 0): 1, (1 * 4 + 2, 4, 6): 7, (1 * 4 + 3, 4, 6): 2**60}


def test_rows_of_the_same_cell_add_up_and_an_empty_table_is_a_map(page: Callable[..., Path]) -> None:
    _, found = counts_on(page(pa.table({"row": [1, 1], "col": [2, 2], "n": [3, 4]})))
    assert found == {(0, 1, 2): 7}
    assert (
        counts_on(
            page(
                pa.table(
                    {
                        "row": pa.array([], pa.int64()),
                        "col": pa.array([], pa.int64()),
                        "n": pa.array([], pa.int64()),
                    }
                )
            )
        )[1]
        == {}
    )


@pytest.mark.long("pages in a browser")
def test_mesh_codes_lie_where_the_standard_puts_them(page: Callable[..., Path]) -> None:
    domain = Domain([Mesh("code", level="500m", region=[5339, 5340])])
    path = page(pa.table({"code": ["533945294", "534000001"], "people": [11, 5]}), domain)
    _, found = counts_on(path)
    assert found == {
        (0, 53 * 160 + 4 * 20 + 2 * 2 + 1, 39 * 160 + 5 * 20 + 9 * 2 + 1): 11,
        (0, 53 * 160, 40 * 160): 5,
    }
    assert json.loads(read(path).text("oboro-data"))["northUp"] is True
    assert Place.of(domain).sides == (1, 2, 10, 20, 160)


def test_intervals_come_along_where_the_table_has_them(page: Callable[..., Path]) -> None:
    table = pa.table({"row": [0, 3], "col": [5, 1], "n": [10, 2], "low": [7.5, -4.0], "high": [12, 9]})
    reader = read(page(table))
    header = json.loads(reader.text("oboro-data"))["tables"][0]["sources"][0]
    assert header["intervals"] is True
    assert unpack(reader.text(header["id"]))[4:].tolist() == [3, 6, 2, 7]


def test_a_page_says_which_intervals_there_are_and_leaves_them_out_where_it_would_be_too_long(
    page: Callable[..., Path], people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(people)
    own, none = "sums of cells, without an interval: the file", "Intervals of cells are left out"

    def notes(path: Path) -> str:
        return path.read_text(encoding="utf-8").partition('class="card about"')[2].partition("</section>")[0]

    assert own not in notes(page(table))
    random = np.random.default_rng(1)
    for name, sign in (("low", -1), ("high", 1)):
        end = table["people"].to_numpy() + sign * random.integers(0, 2**40, table.num_rows)
        table = table.append_column(name, [end])
    assert own in notes(page(table))
    monkeypatch.setattr(map_module, "MOST_BYTES", map_module._FRAME + 20_000)
    path = page(table)
    header = json.loads(read(path).text("oboro-data"))["tables"][0]["sources"][0]
    assert header["intervals"] is False
    assert counts_on(path)[0] == 1
    assert none in notes(path)


def test_single_cells_of_a_huge_sparse_table_are_on_the_page(page: Callable[..., Path]) -> None:
    generator, side = np.random.default_rng(5), 2**17
    row, col = generator.integers(0, side, (2, 30_000))
    count = generator.integers(1, 50, row.size)
    domain = Domain([Grid("row", "col", shape=(side, side))])
    path = page(pa.table({"row": row, "col": col, "n": count}), domain)
    block, found = counts_on(path)
    assert block == 1
    assert sum(found.values()) == count.sum()
    assert found[0, int(row[0]), int(col[0])] == count[(row == row[0]) & (col == col[0])].sum()


def test_a_table_of_too_many_cells_is_summed_to_blocks_and_the_page_says_so(
    page: Callable[..., Path], people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_module, "MOST_ENTRIES", int((people > 0).sum()) - 1)
    path = page(table_of(people))
    block, found = counts_on(path)
    assert block > 1
    assert sum(found.values()) == people.sum()
    assert f"Each block here is the sum of {block} × {block} cells." in path.read_text(encoding="utf-8")


def test_many_categories_are_coarser_than_their_sum(
    page: Callable[..., Path], people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_module, "MOST_ENTRIES", int((people > 0).sum()))
    one = table_of(people)
    table = pa.concat_tables([one.append_column("age", pa.array([age] * one.num_rows)) for age in range(5)])
    path = page(table, Domain([*GRID.columns, Integer("age", 0, 4)]), count="people")
    whole, parts = counts_on(path, source=0), counts_on(path, source=-1)
    assert (whole[0], parts[0]) == (1, 4)
    assert sum(whole[1].values()) == sum(parts[1].values()) == 5 * people.sum()
    assert "A single category is shown in blocks of 4 × 4 cells" in path.read_text(encoding="utf-8")


def test_what_cannot_be_shown_is_summed_over_and_named(page: Callable[..., Path]) -> None:
    domain = Domain(
        [
            Grid("row", "col", shape=(8, 8)),
            Grid("to_row", "to_col", shape=(8, 8)),
            Integer("metres", 0, 100_000),
        ]
    )
    table = pa.table(
        {
            "row": [1, 1],
            "col": [1, 1],
            "to_row": [2, 3],
            "to_col": [0, 0],
            "metres": [5, 6],
            "trips": [10, 20],
        }
    )
    path = page(table, domain)
    assert counts_on(path)[1] == {(0, 1, 1): 30}
    assert "Summed over to_row, to_col, metres." in path.read_text(encoding="utf-8")


@pytest.mark.long("pages in a browser")
def test_a_city_with_a_few_layers_stays_below_three_megabytes(page: Callable[..., Path]) -> None:
    generator = np.random.default_rng(3)
    table = pa.concat_tables(
        [
            one.append_column("layer", pa.array([layer] * one.num_rows))
            for layer in range(4)
            for one in [
                table_of(np.maximum(np.rint(generator.laplace(0, 10, (512, 512))), 0).astype(np.int64))
            ]
        ]
    )
    path = page(table, Domain([Grid("row", "col", shape=(512, 512)), Integer("layer", 0, 3)]), count="people")
    assert path.stat().st_size < 3_000_000
    assert counts_on(path)[0] == 1


def test_the_page_asks_nothing_of_anyone(page: Callable[..., Path], people: Any) -> None:
    text = page(table_of(people), certificate=RECORD).read_text(encoding="utf-8")
    assert set(re.findall(r"\bhttps?:[^\s\"'<>)]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\((?!#)|\bsrc=|fetch\(|XMLHttpRequest|WebSocket|import\(", text)
    assert [a["href"] for tag, a, _ in read_all(text) if tag == "link" and str(a["href"]).startswith("data:")]


def read_all(text: str) -> list[tuple[str, dict[str, str | None], str]]:
    reader = Reader()
    reader.feed(text)
    return reader.elements


def test_the_policy_of_the_page_names_its_own_scripts_and_nothing_else(
    page: Callable[..., Path], people: Any
) -> None:
    elements = read(page(table_of(people))).elements
    policy = str(
        next(a["content"] for tag, a, _ in elements if a.get("http-equiv") == "Content-Security-Policy")
    )
    run = [text for tag, attributes, text in elements if tag == "script" and "type" not in attributes]
    hashes = {"sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert set(re.findall(r"'(sha256-[^']*)'", policy.split("script-src")[1])) == hashes
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_hostile_names_stay_text(page: Callable[..., Path]) -> None:
    domain = Domain(
        [
            Grid(HOSTILE + "r", HOSTILE + "c", shape=(4, 4)),
            Category(HOSTILE, [HOSTILE, "b"]),
            Integer("z" + HOSTILE, 0, 10**6),
        ]
    )
    table = pa.table(
        {HOSTILE + "r": [1], HOSTILE + "c": [2], HOSTILE: [HOSTILE], "z" + HOSTILE: [5], "n": [3]}
    )
    record = json.loads(json.dumps(RECORD))
    record["released"] = record["dataset"] = record["public_key"] = record["unit"]["in_words"] = HOSTILE
    record["guarantee"]["in_words"] = record["noise"] = record["file"]["name"] = record["file"]["sha256"] = (
        HOSTILE
    )
    record["forecast"] = {
        "title": HOSTILE,
        "columns": [HOSTILE, HOSTILE],
        "rows": [[HOSTILE, "1"], ["b", "2"]],
        "notes": [HOSTILE],
    }
    path = page(
        table, domain, certificate=record, title=HOSTILE, internal=Comparison(table, {HOSTILE: table})
    )
    elements = read(path).elements
    assert not [tag for tag, _, _ in elements if tag == "img"]
    assert not [a for _, a, _ in elements if any(name.startswith("on") for name in a)]
    assert len([1 for tag, a, _ in elements if tag == "script" and "type" not in a]) == 2
    assert json.loads(read(path).text("oboro-data"))["columns"][0]["values"][0] == HOSTILE
    assert next(text for tag, _, text in elements if tag == "h1") == HOSTILE


def test_true_counts_and_their_banner_only_on_request(page: Callable[..., Path], people: Any) -> None:
    public = hazy(people, 1.0)
    plain = read(page(table_of(public), certificate=RECORD))
    assert not [1 for tag, a, text in plain.elements if tag == "p" and BANNER in text]
    assert [t["role"] for t in json.loads(plain.text("oboro-data"))["tables"]] == ["published"]
    assert BANNER not in next(text for tag, _, text in plain.elements if tag == "title")

    releases = {"1": table_of(public), "0.1": table_of(hazy(people, 0.1))}
    path = page(table_of(public), certificate=RECORD, internal=Comparison(table_of(people), releases))
    internal = read(path)
    assert [a["role"] for tag, a, text in internal.elements if tag == "p" and BANNER in text] == ["alert"]
    assert next(text for tag, _, text in internal.elements if tag == "title").startswith(BANNER)
    tables = json.loads(internal.text("oboro-data"))["tables"]
    assert [(t["role"], t["label"]) for t in tables] == [("true", ""), ("release", "0.1"), ("published", "1")]
    assert sum(counts_on(path, table=0)[1].values()) == people.sum()


def test_a_published_table_that_is_no_release_of_the_comparison_joins_it(
    page: Callable[..., Path], people: Any
) -> None:
    path = page(
        table_of(hazy(people, 2.0)),
        internal=Comparison(table_of(people), {"low": table_of(hazy(people, 0.1))}),
    )
    tables = json.loads(read(path).text("oboro-data"))["tables"]
    assert [(t["role"], t["label"]) for t in tables] == [("true", ""), ("release", "low"), ("published", "")]


def test_the_promise_stands_beside_the_map(page: Callable[..., Path], people: Any) -> None:
    text = page(table_of(people), certificate=RECORD).read_text(encoding="utf-8")
    assert "the chance of any result changes by a factor of at most 1.11." in text
    assert "どの結果の起こりやすさも 1.11 倍までしか変わりません。" in text
    assert "oboro certificate verify published.parquet.certificate.json" in text
    assert "eps = 0.1 for this release; eps = 0.3 of eps = 1 spent in all" in text
    assert "error, 95% within ±" in text
    assert text.count("<circle") > 3
    assert json.loads(read_text(text, "oboro-data"))["widths"] == {"1": 30.0, "2": 41.5}
    assert "makes no promise" in page(table_of(people)).read_text(encoding="utf-8")


def read_text(text: str, identity: str) -> str:
    return next(found for _, attributes, found in read_all(text) if attributes.get("id") == identity)


@pytest.mark.parametrize(
    ("change", "domain", "error"),
    [
        ({"n": [-1]}, GRID, DataError),
        ({"n": [0.5]}, GRID, DataError),
        ({"row": [SIDE]}, GRID, DataError),
        ({"row": ["north"]}, GRID, DataError),
        ({"row": [None]}, GRID, DataError),
        ({}, Domain([Grid("row", "column", shape=(4, 4))]), DataError),
        ({}, Domain([*GRID.columns, Category("sex", ["F"])]), DataError),
        ({}, Domain([*GRID.columns, Category("n", [7, 8])]), DataError),
        ({}, Domain([Integer("row", 0, 3)]), DomainError),
        ({"row": [53394529]}, Domain([Mesh("row", level="1km", region=[5340])]), DataError),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_words(
    page: Callable[..., Path], change: Any, domain: Domain, error: type[Exception]
) -> None:
    with pytest.raises(error):
        page(pa.table({"row": [0], "col": [1], "n": [2], **change}), domain)


def test_an_unknown_language_is_refused(page: Callable[..., Path], people: Any) -> None:
    with pytest.raises(ParameterError, match="language"):
        page(table_of(people), language="fr")


def ends_of(text: str, header: dict[str, Any]) -> dict[int, tuple[int, int, int]]:
    """Value and both ends of the interval of each block, by its position."""
    gaps, value, below, above = unpack(read_text(text, header["id"])).reshape(4, -1)
    ends = zip(value.tolist(), (value - below).tolist(), (value + above).tolist(), strict=True)
    return dict(zip((np.cumsum(gaps) - 1).tolist(), ends, strict=True))


@pytest.mark.few(1, "map pages")
@pytest.mark.parametrize("strategy", ["tree", "filtered"])
def test_figures_on_the_page_are_answers_of_the_table(strategy: str, tmp_path: Path) -> None:
    """The total and blocks say what `ask` says, with its intervals; no error of a forecast stands beside them."""
    from oboro import tables
    from oboro.domain import Domain, Grid
    from oboro.noise import system_bits
    from oboro.privacy import Unit

    domain = Domain([Grid("row", "col", shape=(64, 64))])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1, count="n", strategy=strategy)
    cell = np.arange(0, 64, 3)
    rows = {"row": np.repeat(cell, cell.size).tolist(), "col": np.tile(cell, cell.size).tolist()}
    prepared = plan.prepare({**rows, "n": [9] * cell.size**2})
    table = plan.publish(plan.measure(prepared, system_bits()))
    record = {"forecast": {"columns": ["block size", "95% within ±"], "rows": [["4 x 4 of row,col", "87"]]}}
    text = write_map(table, domain, tmp_path / "map.html", certificate=record).read_text()
    data = json.loads(read_text(text, "oboro-data"))
    everyone = tables.ask(table)
    assert data["answers"][""]["total"] == [str(n) for n in (everyone.value, everyone.low, everyone.high)]
    assert data["widths"] == {}
    assert data["partial"] == (strategy == "filtered")
    if strategy == "filtered":
        assert everyone.value > sum(table.column("n").to_pylist())
    numbers = ends_of(text, data["answers"][""]["sides"]["16"])
    for at in (0, 5, 15):
        first = (at // 4 * 16, at % 4 * 16)
        answer = tables.ask(table, {"row": (first[0], first[0] + 15), "col": (first[1], first[1] + 15)})
        assert numbers[at] == (answer.value, answer.low, answer.high)
    bare = write_map(table.replace_schema_metadata(None), domain, tmp_path / "bare.html").read_text()
    assert json.loads(read_text(bare, "oboro-data"))["answers"] is None


def test_a_block_of_meshes_is_asked_by_codes() -> None:
    """5 km has no code of its own; what lies outside the region holds nobody."""
    place = Place.of(Domain([Mesh("code", level="500m", region=[5339, 5440])]))
    row, col = (int(each[0]) for each in Mesh("code", level="500m", region=[5339]).locate([533935471]))
    assert place.question(row // 160, col // 160, 160) == {"code": ["5339"]}
    assert place.question(row // 20, col // 20, 20) == {"code": ["533935"]}
    assert place.question(row // 2, col // 2, 2) == {"code": ["53393547"]}
    assert place.question(row, col, 1) == {"code": ["533935471"]}
    five = place.question(row // 10, col // 10, 10)
    assert five == {"code": [f"533935{r}{c}" for r in range(5) for c in range(5, 10)]}
    assert place.codes_in(10) == 25
    assert place.question(row // 160 + 1, col // 160, 160) is None


@pytest.mark.long("map pages")
@pytest.mark.parametrize("strategy", ["tree", "filtered"])
def test_meshes_and_categories_have_the_answers_of_the_table_too(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oboro import tables
    from oboro.noise import system_bits
    from oboro.privacy import Unit

    monkeypatch.setattr("oboro.report.figures._MOST_ASKED", 230)
    mesh = Mesh("code", level="1km", region=[5339])
    domain = Domain([mesh, Category("sex", ["F", "M"])])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1, count="n", strategy=strategy)
    codes = [53390000 + 11 * i for i in (0, 9, 100, 302, 600)]
    data = {"code": [*codes, *codes], "sex": ["F"] * 5 + ["M"] * 5, "n": [900, 40, 300, 7, 1200] * 2}
    table = plan.publish(plan.measure(plan.prepare(data), system_bits()))
    text = write_map(table, domain, tmp_path / "map.html").read_text()
    page = json.loads(read_text(text, "oboro-data"))
    assert set(page["answers"]) == {"-1", "0", "1"}
    top, left, _, width = page["window"]
    for key, beside in (("-1", {}), ("1", {"sex": "M"})):
        whole = tables.ask(table, beside)
        assert page["answers"][key]["total"] == [str(n) for n in (whole.value, whole.low, whole.high)]
        for side, code in ((80, "5339"), (10, "533933")):
            row, col = (int(each[0]) // side for each in mesh.locate([int(f"{code:0<8}")]))
            numbers = ends_of(text, page["answers"][key]["sides"][str(side)])
            cols = -(-(left + width) // side) - left // side
            answer = tables.ask(table, {"code": code, **beside})
            at = (row - top // side) * cols + col - left // side
            assert numbers[at] == (answer.value, answer.low, answer.high)


PLACES = {
    "prefecture": ["13", "13", "13", "13", "14", "14"],
    "municipality": ["13101", "13101", "13102", "13102", "14100", "14100"],
    "mesh": [53394611, 53394612, 53394613, 53394614, 53394503, 53394504],
}


@pytest.mark.long("pages in a browser")
def test_areas_and_blocks_of_them_say_what_ask_says(tmp_path: Path) -> None:
    from oboro import tables
    from oboro.domain import Areas
    from oboro.noise import system_bits
    from oboro.privacy import Unit

    column = Areas("mesh", levels=["prefecture", "municipality", "mesh"], table=PLACES)
    domain = Domain([column, Category("sex", ["F", "M"])], labels={"n": "persons"})
    plan = tables.plan(domain, unit=Unit.cells(), eps="0.1", count="n")
    rows = {"mesh": PLACES["mesh"] * 2, "sex": ["F"] * 6 + ["M"] * 6, "n": [900, 40, 300, 7, 1200, 3] * 2}
    table = plan.publish(plan.measure(plan.prepare(rows), system_bits()))
    text = write_map(table, domain, tmp_path / "map.html").read_text()
    data = json.loads(read_text(text, "oboro-data"))
    assert data["count"] == "persons"
    assert data["areas"]["labels"] == [["13", "14"], ["13101", "13102", "14100"]]
    names = [
        ("prefecture", "13"),
        ("prefecture", "14"),
        *(("municipality", m) for m in data["areas"]["labels"][1]),
    ]
    for key, beside in (("-1", {}), ("1", {"sex": "M"})):
        value, below, above = unpack(read_text(text, data["areas"]["totals"][key])).reshape(3, -1)
        for at, (level, name) in enumerate(names):
            answer = tables.ask(table, {level: name, **beside})
            assert (value[at], value[at] - below[at], value[at] + above[at]) == (
                answer.value,
                answer.low,
                answer.high,
            )
    numbers = ends_of(text, data["answers"]["-1"]["sides"]["10"])
    answer = tables.ask(table, {"mesh": "533946"})
    assert (answer.value, answer.low, answer.high) in numbers.values()
    assert data["earth"]["crs"] == "JGD2011"
    assert data["beneath"]["rings"] > 0
    assert "Natural Earth" in text


def test_an_outline_takes_the_place_of_the_land(page: Callable[..., Path], tmp_path: Path) -> None:
    lies = {"crs": "EPSG:4326", "origin": (135, 36), "cell": "0.01"}
    domain = Domain([Grid("row", "col", shape=(100, 100), **lies)])
    table = pa.table({"row": [1], "col": [2], "n": [3]})
    ring = [[135.2, 35.2], [135.8, 35.2], [135.5, 35.8], [135.2, 35.2]]
    outline = tmp_path / "outline.geojson"
    outline.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    path = page(table, domain, outline=outline)
    facts = json.loads(read(path).text("oboro-data"))
    assert facts["beneath"]["rings"] == 1
    _, *steps = np.split(unpack(read(path).text("oboro-beneath")), [1, 1 + facts["beneath"]["points"]])
    x, y = (np.cumsum(np.where(part % 2, -(part + 1) // 2, part // 2)) for part in steps)
    assert (x / facts["beneath"]["fine"]).tolist()[:3] == [20, 80, 50]
    assert (y / facts["beneath"]["fine"]).tolist()[:3] == [80, 80, 20]
    outline.write_text("{}")
    with pytest.raises(ParameterError, match="outline"):
        page(table, domain, outline=outline)
    with pytest.raises(ParameterError, match="outline"):
        page(pa.table({"row": [1], "col": [2], "n": [3]}), GRID, outline=outline)


def test_the_land_comes_with_its_licence() -> None:
    from importlib import resources

    land = resources.files("oboro.report").joinpath("assets", "land")
    assert "Michael Bostock" in land.joinpath("LICENSE").read_text()
    assert land.joinpath("land-10m.json.gz").is_file()


# ---- in a browser


def load(path: Path, profile: Path, at: str = "") -> dict[str, str | None]:
    """The attributes of the page's root after its script has run."""
    if CHROMIUM is None:
        pytest.skip("no chromium here")
    quiet = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
    command = [
        CHROMIUM,
        *quiet.split(),
        f"--user-data-dir={profile}",
        "--virtual-time-budget=5000",
        "--dump-dom",
        path.as_uri() + at,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if not done.stdout.strip():
        pytest.skip("chromium does not run here")
    elements = read_all(done.stdout)
    root = dict(elements[0][1]) if elements[0][0] == "html" else dict(elements[1][1])
    return root | {
        f"#{a['id']}": text
        for _, a, text in elements
        if a.get("id") in ("total", "reading", "caption-1", "figure-largest")
    }


def test_the_script_runs_in_a_browser(page: Callable[..., Path], people: Any, tmp_path: Path) -> None:
    people = np.array(people)
    people[10, 20] = 1234
    root = load(page(table_of(people), certificate=RECORD, language="ja"), tmp_path / "profile", "#at=10,20")
    assert "data-error" not in root
    assert root["data-ready"] == "1"
    assert root["lang"] == "ja"
    assert root["data-total"] == str(people.sum())
    assert root["#total"] == f"{people.sum():,}"
    assert str(root["#reading"]).startswith("row 10、col 20 · 1,234 · 予想誤差 ± 30")


@pytest.mark.long("pages in a browser")
@pytest.mark.parametrize("strategy", ["tree", "filtered"])
def test_what_surrounds_a_cell_is_read_with_the_interval_that_ask_gives(
    strategy: str, tmp_path: Path
) -> None:
    from oboro import tables
    from oboro.noise.bits import UnsafeBitsWarning, UnsafeDeterministicBits
    from oboro.privacy import Unit

    domain = Domain([Grid("row", "col", shape=(32, 32))])
    plan = tables.plan(domain, unit=Unit.cells(), eps=1, count="n", strategy=strategy)
    rows = {"row": [9, 9, 14], "col": [17, 18, 22], "n": [400, 30, 200]}
    with pytest.warns(
        UnsafeBitsWarning
    ):  # which cells are kept is chance: here those that it keeps are always the same
        bits = UnsafeDeterministicBits("surroundings")
    table = plan.publish(plan.measure(plan.prepare(rows), bits))
    path = write_map(table, domain, tmp_path / "map.html", language="en")
    answer = tables.ask(table, {"row": (8, 15), "col": (16, 23)})
    told = f"{answer.value:,} in the surrounding 8 × 8 cells · 95% interval {answer.low:,} to {answer.high:,}"
    assert str(load(path, tmp_path / "profile", "#at=9,17")["#reading"]).endswith(told)
    if strategy == "filtered":  # nothing is known of this cell by itself, and so no figure stands there
        read = str(load(path, tmp_path / "other", "#at=15,23")["#reading"])
        assert " · – · not on this page: `oboro table ask` answers it" in read
        assert read.count(" in the surrounding ") == 1
        assert "95% interval" in read


@pytest.mark.long("pages in a browser")
def test_the_internal_page_runs_with_hostile_names_too(page: Callable[..., Path], tmp_path: Path) -> None:
    domain = Domain([Mesh("code", level="1km", region=[5339]), Category(HOSTILE, [HOSTILE, "b"])])
    true = pa.table({"code": [53394529, 53390000], HOSTILE: [HOSTILE, "b"], "n": [300, 20]})
    released = true.set_column(2, "n", pa.array([290, 30]))
    path = page(
        released, domain, title=HOSTILE, language="en", internal=Comparison(true, {HOSTILE: released})
    )
    root = load(path, tmp_path / "profile", "#at=53394529")
    assert "data-error" not in root
    assert root["data-total"] == "320"
    assert root["#figure-largest"] == "10"
    assert str(root["#reading"]).startswith("code 53394529 (1 km) · 290 · true 300 · difference −10")
    assert HOSTILE in str(root["#caption-1"])
